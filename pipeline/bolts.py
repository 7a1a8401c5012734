"""Bolts at work: from input tuples to the rows that a bolt adds to its stream.

A DataFrame bolt gets an `anchor` with every tuple: the root's id and a seal that only this batch's
inputs carry. An output row whose seal does not fit was anchored to something that this batch did not
read, which would be a false acknowledgement, so it stops the batch.
"""

from collections.abc import Iterable, Mapping
from typing import Any, cast

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema

from acker.errors import BoltError
from acker.events import Kind
from acker.ids import hash64
from acker.steady import steady
from pipeline.topology import Component, TupleFunction
from pipeline.tuples import LONGEST_REASON, TupleRunner

ERROR_COLUMN = "_error"
FOREIGN_ANCHOR = "emitted a row whose anchor is none of its inputs; keep `anchor` as it came"


def fail_when(condition: Column, reason: Column | str) -> Column:
    """A column that fails the messages of the rows for which `condition` holds.

    Select it beside the bolt's other columns. Such a row is not emitted; its message is failed with
    `reason` and replayed. Several conditions go into one call of `F.coalesce(...)`, aliased `_error`.
    """
    why = F.lit(reason) if isinstance(reason, str) else reason
    return F.when(condition, why).alias(ERROR_COLUMN)


def bolt_rows(spark: SparkSession, bolt: Component, batch: int, inputs: Mapping[str, DataFrame]) -> DataFrame:
    """The rows that one batch of a bolt adds: `_root_id`, `_kind`, `_error` and the user's columns.

    Args:
        inputs: per input stream its tuples, `_root_id` and the user's columns.

    Raises:
        BoltError: the function returned no DataFrame with an anchor, or uses reserved names.
    """
    if bolt.schema is not None:
        return _basic_rows(spark, bolt, inputs)
    return _dataframe_rows(bolt, batch, inputs)


def _dataframe_rows(bolt: Component, batch: int, inputs: Mapping[str, DataFrame]) -> DataFrame:
    assert bolt.function is not None
    salt = hash64(f"{bolt.name}/{batch}")
    seal = F.xxhash64("_root_id", steady(salt, "_root_id")).alias("seal")
    anchor = F.struct(F.col("_root_id"), seal).alias("anchor")
    anchored = [
        frame.select(anchor, *[column for column in frame.columns if column != "_root_id"])
        for frame in (inputs[name] for name in bolt.inputs)
    ]
    result: Any = bolt.function(*anchored)
    if not isinstance(result, DataFrame):
        raise BoltError(f"Bolt {bolt.name} must return a DataFrame, not {type(result).__name__}.")
    if dict(result.dtypes).get("anchor") != dict(anchored[0].dtypes)["anchor"]:
        raise BoltError(
            f"Bolt {bolt.name} must keep the column `anchor` as it came: without it no one can tell which "
            'messages its rows belong to. Add "anchor" to its last select.'
        )
    columns = [column for column in result.columns if column not in ("anchor", ERROR_COLUMN)]
    check_columns(f"Bolt {bolt.name}", columns)
    foreign = F.raise_error(F.lit(FOREIGN_ANCHOR)).cast("bigint")
    mine = F.col("anchor.seal").eqNullSafe(F.xxhash64("anchor._root_id", steady(salt, "anchor._root_id")))
    error = F.col(ERROR_COLUMN) if ERROR_COLUMN in result.columns else F.lit(None)
    error = error.cast("string")
    return result.select(
        F.when(mine, F.col("anchor._root_id")).otherwise(foreign).alias("_root_id"),
        F.when(error.isNotNull(), Kind.FAIL.value).alias("_kind"),
        F.substring(error, 1, LONGEST_REASON).alias(ERROR_COLUMN),
        *columns,
    )


def _basic_rows(spark: SparkSession, bolt: Component, inputs: Mapping[str, DataFrame]) -> DataFrame:
    assert bolt.function is not None and bolt.schema is not None
    frames = [inputs[name] for name in bolt.inputs]
    tuples = frames[0]
    for other in frames[1:]:
        tuples = tuples.unionByName(other)
    schema = spark.createDataFrame([], bolt.schema).schema
    check_columns(f"Bolt {bolt.name}", schema.names)
    function = cast(TupleFunction, bolt.function)
    run = TupleRunner(function, to_arrow_schema(schema, timezone="UTC"))
    return tuples.mapInArrow(run, f"_root_id bigint, _kind string, _error string, {bolt.schema}")


def check_columns(who: str, columns: Iterable[str]) -> None:
    """Refuse columns that the store keeps for itself, or that occur twice.

    Raises:
        BoltError: naming the columns.
    """
    columns = list(columns)
    reserved = [column for column in columns if column.startswith("_") or column == "anchor"]
    if reserved:
        raise BoltError(
            f"{who} emits {', '.join(reserved)}: "
            "`anchor` and names that begin with an underscore are reserved."
        )
    twice = {column for column in columns if [c.lower() for c in columns].count(column.lower()) > 1}
    if twice:
        raise BoltError(f"{who} emits {', '.join(sorted(twice))} more than once; rename or drop one.")
