"""Bolts at work: from input tuples to the rows that a bolt adds to its stream.

A DataFrame bolt gets an `anchor` with every tuple: the root's id and a seal that only this batch's
inputs carry. An output row whose seal does not fit was anchored to something that this batch did not
read, which would be a false acknowledgement, so it stops the batch.
"""

from collections.abc import Iterable, Mapping
from functools import reduce
from typing import Any, cast

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema

from acker.components.base import Component, TupleFunction
from acker.components.collector import LONGEST_REASON
from acker.components.workers import TupleRunner
from acker.core.errors import BoltError
from acker.core.events import Kind
from acker.core.ids import hash64
from acker.core.quoting import sql_name
from acker.spark.columns import bound_literal

ERROR_COLUMN = "_error"
FOREIGN_ANCHOR = "emitted a row whose anchor is none of its inputs; keep `anchor` as it came"


def fail_when(condition: Column, reason: Column | str) -> Column:
    """A column that fails the messages of the rows for which `condition` holds.

    Select it beside the bolt's other columns. Such a row is not emitted; its message is failed with
    `reason` and replayed. Several conditions go into one call of `F.coalesce(...)`, aliased `_error`.
    """
    why = F.lit(reason) if isinstance(reason, str) else reason
    return F.when(condition, why).alias(ERROR_COLUMN)


def merge_anchors(*anchors: Column | str) -> Column:
    """The anchor of a row that was joined from several tuples, for a bolt's column `anchor`.

    The row belongs to the messages of all of them, which are acked, failed and published together. An
    anchor that is null, as an outer join makes it, adds nothing.
    """
    return _merged(F.flatten(F.array(*(_parts(anchor) for anchor in anchors))))


def collect_anchors(anchor: Column | str = "anchor") -> Column:
    """The anchor of a row that was aggregated from a group's tuples; an aggregate function.

    The row belongs to the messages of all of them, which are acked, failed and published together.
    """
    return _merged(F.flatten(F.collect_list(_parts(anchor))))


# A tuple's anchor is its root with a seal. Of a tuple that has several roots, `others` holds all of them; it
# has no type where no tuple has, which tells the two apart.
_PART = "struct<_root_id:bigint,seal:bigint>"
_ANCHOR = "struct<_root_id:bigint,seal:bigint,others:void>"
_MERGED = f"struct<_root_id:bigint,seal:bigint,others:array<{_PART}>>"


def _parts(anchor: Column | str) -> Column:
    anchor = F.col(anchor) if isinstance(anchor, str) else anchor
    one = F.array(F.struct(anchor["_root_id"], anchor["seal"]).cast(_PART))
    return F.concat(one, F.coalesce(anchor["others"], F.array().cast(f"array<{_PART}>")))


def _merged(parts: Column) -> Column:
    sealed = F.array_distinct(F.filter(parts, lambda part: part["seal"].isNotNull()))
    first = F.get(sealed, 0)
    return F.struct(first["_root_id"], first["seal"], sealed.alias("others")).cast(_MERGED).alias("anchor")


def bolt_rows(spark: SparkSession, bolt: Component, batch: int, inputs: Mapping[str, DataFrame]) -> DataFrame:
    """The rows that one batch of a DataFrame or basic bolt adds: roots, `_kind`, `_error`, user's columns.

    Args:
        inputs: per input stream its tuples: `_root_id`, `_root_ids` if it has them, and the user's columns.

    Raises:
        BoltError: the function returned no DataFrame with an anchor, or uses reserved names.
    """
    if bolt.schema is not None:
        return _basic_rows(spark, bolt, inputs)
    return _dataframe_rows(bolt, batch, inputs)


def _dataframe_rows(bolt: Component, batch: int, inputs: Mapping[str, DataFrame]) -> DataFrame:
    assert bolt.function is not None
    salt = hash64(f"{bolt.name}/{batch}")
    anchored = [_anchored(inputs[name], salt) for name in bolt.inputs]
    result: Any = bolt.function(*anchored)
    if not isinstance(result, DataFrame):
        raise BoltError(f"Bolt {bolt.name} must return a DataFrame, not {type(result).__name__}.")
    columns = [column for column in result.columns if column not in ("anchor", ERROR_COLUMN)]
    check_columns(f"Bolt {bolt.name}", columns)
    if not bolt.anchored:
        return _unanchored_rows(bolt, result, columns)
    anchor = dict(result.dtypes).get("anchor")
    if anchor not in (_ANCHOR, _MERGED):
        raise BoltError(
            f"Bolt {bolt.name} must keep the column `anchor` as it came: without it no one can tell which "
            'messages its rows belong to. Add "anchor" to its last select, or say anchored=False.'
        )
    error = F.col(ERROR_COLUMN) if ERROR_COLUMN in result.columns else F.lit(None)
    error = error.cast("string")
    return result.select(
        *_roots(salt, several=anchor == _MERGED),
        F.when(error.isNotNull(), Kind.FAIL.value).alias("_kind"),
        F.substring(error, 1, LONGEST_REASON).alias(ERROR_COLUMN),
        *map(sql_name, columns),
    )


def _anchored(frame: DataFrame, salt: int) -> DataFrame:
    """Tuples with an `anchor` in place of their roots."""
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


def _roots(salt: int, several: bool) -> list[Column]:
    """The columns of a stream that hold an anchor's roots; an anchor that is none of the batch's raises."""
    anchor, secret = F.col("anchor"), bound_literal(salt, "anchor._root_id")
    foreign = F.raise_error(F.lit(FOREIGN_ANCHOR)).cast("bigint")
    if not several:
        return [F.when(_is_mine(anchor, secret), anchor["_root_id"]).otherwise(foreign).alias("_root_id")]
    parts = _parts(anchor)
    roots = F.array_sort(F.array_distinct(F.array_compact(F.transform(parts, lambda part: part["_root_id"]))))
    mine = F.forall(parts, lambda part: _is_mine(part, secret))
    return [
        F.when(mine, F.get(roots, 0)).otherwise(foreign).alias("_root_id"),
        F.when(F.size(roots) > 1, roots).alias("_root_ids"),
    ]


def _unanchored_rows(bolt: Component, result: DataFrame, columns: list[str]) -> DataFrame:
    if ERROR_COLUMN in result.columns:
        raise BoltError(
            f"Bolt {bolt.name} is not anchored, so it cannot fail the message of a row: drop `_error`, or "
            "the anchored=False."
        )
    nothing = F.lit(None).cast("string")
    return result.select(
        F.lit(None).cast("bigint").alias("_root_id"),
        nothing.alias("_kind"),
        nothing.alias(ERROR_COLUMN),
        *map(sql_name, columns),
    )


def _basic_rows(spark: SparkSession, bolt: Component, inputs: Mapping[str, DataFrame]) -> DataFrame:
    assert bolt.function is not None and bolt.schema is not None
    frames = [inputs[name] for name in bolt.inputs]
    several = any("_root_ids" in frame.columns for frame in frames)
    if several:
        frames = [_with_roots(frame) for frame in frames]
    tuples = reduce(DataFrame.unionByName, frames)
    schema = spark.createDataFrame([], bolt.schema).schema
    check_columns(f"Bolt {bolt.name}", schema.names)
    function = cast(TupleFunction, bolt.function)
    anchors = {"_root_id": "bigint", "_root_ids": "array<bigint>"} if several else {"_root_id": "bigint"}
    run = TupleRunner(function, to_arrow_schema(schema, timezone="UTC"), list(anchors))
    roots = ", ".join(" ".join(each) for each in anchors.items())
    return tuples.mapInArrow(run, f"{roots}, _kind string, _error string, {bolt.schema}")


def _with_roots(frame: DataFrame) -> DataFrame:
    if "_root_ids" in frame.columns:
        return frame
    return frame.withColumn("_root_ids", F.lit(None).cast("array<bigint>"))


def check_columns(who: str, columns: Iterable[str]) -> None:
    """Refuse columns that the store keeps for itself, or that occur twice.

    Raises:
        BoltError: naming the columns.
    """
    columns = list(columns)
    reserved = [column for column in columns if column.startswith("_") or column.lower() == "anchor"]
    if reserved:
        raise BoltError(
            f"{who} emits {', '.join(reserved)}: "
            "`anchor` and names that begin with an underscore are reserved."
        )
    twice = {column for column in columns if [c.lower() for c in columns].count(column.lower()) > 1}
    if twice:
        raise BoltError(f"{who} emits {', '.join(sorted(twice))} more than once; rename or drop one.")
