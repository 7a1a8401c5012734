"""Anchors: which messages a row of a DataFrame bolt belongs to.

A DataFrame bolt gets an `anchor` with every tuple: the root's id and a seal that only this batch's inputs
carry. An output row whose seal does not fit was anchored to a tuple that this batch did not read. Such a row
would be a false acknowledgement, so it stops the batch.
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, StructType

from acker.core.arguments import checked
from acker.core.events import Kind
from acker.core.quoting import sql_name
from acker.core.reasons import LONGEST_TOLD
from acker.spark.columns import bound_literal

ERROR_COLUMN = "_error"
FOREIGN_ANCHOR = "emitted a row whose anchor is none of its inputs; keep `anchor` as it came"


@checked
def fail_when(condition: Column, reason: Column | str, retry: bool = True) -> Column:
    """A column that fails the messages of the rows for which `condition` holds.

    Select it beside the bolt's other columns. Such a row is not emitted; its message is failed with
    `reason` and replayed. Several conditions go into one call of `F.coalesce(...)`, aliased `_error`.

    Args:
        condition: a boolean column; where it is null the row passes.
        reason: the reason as text, or a column of reasons; where it is null the row passes.
        retry: whether the message is replayed. False: the row will never pass, so its message becomes a dead
            letter at once.

    Returns:
        The column `_error`, a struct of the reason and of `retry`, null where the row passes.
    """
    why = F.lit(reason) if isinstance(reason, str) else reason
    failure = F.struct(why.cast("string").alias("reason"), F.lit(retry).alias("retry"))
    return F.when(condition & why.isNotNull(), failure).alias(ERROR_COLUMN)


def failure_columns(error: Column, kind: DataType | None) -> tuple[Column, Column]:
    """`_kind` and `_error` of a bolt's rows.

    Args:
        error: the bolt's column of failures: a struct as of `fail_when`, or a text.
        kind: the type of this column.
    """
    if isinstance(kind, StructType):
        reason, for_good = error["reason"], ~error["retry"]
    else:
        reason, for_good = error.cast("string"), F.lit(False)
    failed = F.when(for_good, Kind.REJECT.value).otherwise(Kind.FAIL.value)
    return F.when(reason.isNotNull(), failed), F.substring(reason, 1, LONGEST_TOLD)


@checked
def merge_anchors(*anchors: Column | str) -> Column:
    """The anchor of a row that was joined from several tuples, for a bolt's column `anchor`.

    The row belongs to the messages of all these tuples, which are acked, failed and published together. An
    anchor that is null, as an outer join makes it, adds nothing.

    Args:
        anchors: the anchors of the tuples, as columns or names of columns.

    Returns:
        The column `anchor`.
    """
    return _merged(F.flatten(F.array(*(_parts(anchor) for anchor in anchors))))


@checked
def collect_anchors(anchor: Column | str = "anchor") -> Column:
    """The anchor of a row that was aggregated from a group's tuples; an aggregate function.

    The row belongs to the messages of all these tuples, which are acked, failed and published together.

    Args:
        anchor: the anchor of each tuple, as a column or the name of a column.

    Returns:
        The column `anchor`, for the aggregates of a group.
    """
    return _merged(F.flatten(F.collect_list(_parts(anchor))))


# A tuple's anchor is its root with a seal. Of a tuple that has several roots, `others` holds all of them; it
# has no type where no tuple has, which tells the two apart.
_PART = "struct<_root_id:bigint,seal:bigint>"
ANCHOR = "struct<_root_id:bigint,seal:bigint,others:void>"
MERGED = f"struct<_root_id:bigint,seal:bigint,others:array<{_PART}>>"


def _parts(anchor: Column | str) -> Column:
    anchor = F.col(anchor) if isinstance(anchor, str) else anchor
    one = F.array(F.struct(anchor["_root_id"], anchor["seal"]).cast(_PART))
    return F.concat(one, F.coalesce(anchor["others"], F.array().cast(f"array<{_PART}>")))


def _merged(parts: Column) -> Column:
    sealed = F.array_distinct(F.filter(parts, lambda part: part["seal"].isNotNull()))
    first = F.get(sealed, 0)
    return F.struct(first["_root_id"], first["seal"], sealed.alias("others")).cast(MERGED).alias("anchor")


def anchored(frame: DataFrame, salt: int) -> DataFrame:
    """Tuples with an `anchor` in place of their roots.

    Args:
        frame: the tuples, with the column `_root_id` and perhaps `_root_ids`.
        salt: the number from which the seals of this batch are made.
    """
    secret = bound_literal(salt, "_root_id")
    others = F.lit(None)
    if "_root_ids" in frame.columns:
        others = F.transform("_root_ids", lambda root: _sealed(root, secret))
    one = _sealed(F.col("_root_id"), secret)
    anchor = F.struct(one["_root_id"].alias("_root_id"), one["seal"].alias("seal"), others.alias("others"))
    return frame.select(
        anchor.alias("anchor"), *[sql_name(c) for c in frame.columns if c not in ("_root_id", "_root_ids")]
    )


def _sealed(root: Column, secret: Column) -> Column:
    return F.struct(root.alias("_root_id"), F.xxhash64(root, secret).alias("seal"))


def _is_mine(part: Column, secret: Column) -> Column:
    return part["seal"].eqNullSafe(F.xxhash64(part["_root_id"], secret))


def roots(salt: int, several: bool) -> list[Column]:
    """The columns `_root_id` and, if `several`, `_root_ids`, made from the column `anchor` of a bolt's rows.

    Where a row has an anchor that is none of the batch's, the evaluation of the columns raises.

    Args:
        salt: the number from which the seals of this batch are made.
        several: whether an anchor may have several roots.
    """
    anchor, secret = F.col("anchor"), bound_literal(salt, "anchor._root_id")
    foreign = F.raise_error(F.lit(FOREIGN_ANCHOR)).cast("bigint")
    if not several:
        return [F.when(_is_mine(anchor, secret), anchor["_root_id"]).otherwise(foreign).alias("_root_id")]
    parts = _parts(anchor)
    found = F.array_sort(F.array_distinct(F.array_compact(F.transform(parts, lambda part: part["_root_id"]))))
    mine = F.forall(parts, lambda part: _is_mine(part, secret))
    return [
        F.when(mine, F.get(found, 0)).otherwise(foreign).alias("_root_id"),
        F.when(F.size(found) > 1, found).alias("_root_ids"),
    ]
