"""The write of a batch: what a spout reads or a bolt makes of its inputs, appended in one commit.

Rows that raise fail their messages and no others.
"""

from functools import partial, reduce

import polars as pl
import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, MapType, StructType

from acker.batches.run import Run, history, user_columns
from acker.components.bad_rows import Frames, error_of, find_poison, refuse_more, row_error
from acker.components.base import Component
from acker.components.bolts import FOREIGN_ANCHOR, bolt_rows, check_columns
from acker.components.rich_bolt import rich_rows
from acker.core.errors import BoltError
from acker.core.events import Kind, State
from acker.core.ledger import newest_fold, settled_rows
from acker.core.parquet import collect
from acker.core.quoting import sql_name
from acker.core.schemas import HELD, STREAM_PROPERTIES, stream
from acker.core.trims import newest_trim
from acker.journal.batch import Batch
from acker.journal.inputs import Replay, SourceRange
from acker.spark.columns import bound_literal, root_id
from acker.spark.delta import append
from acker.spouts import History
from acker.targets.constraints import refusals

_WRITE_OPTIONS = {**STREAM_PROPERTIES, "mergeSchema": "true"}
_UNREADABLE = ("variant", "geometry", "geography")  # for Polars
LATE = "what it added to an aggregate was trimmed and cannot be taken back"
_UNCAUSED = "TASK_WRITE_FAILED"  # Delta's writer hides what the transformation raised


def write(run: Run, component: Component, batch: Batch) -> None:
    """Append a planned batch's rows to its component's stream.

    Raises:
        BoltError: the bolt broke its contract, or fails on too many messages.
        PySparkException: an error that no message causes.
    """
    if component.is_spout:
        _append_rows(run, component, batch, _spout_rows(run, component, batch))
    elif component.make is not None:
        _append_rows(run, component, batch, refusals(run, component.name, rich_rows(run, component, batch)))
    else:
        _write_bolt(run, component, batch)


def _append_rows(run: Run, component: Component, batch: Batch, rows: DataFrame) -> None:
    # Spark Connect gives the strings that Python functions return the type `string collate UTF8_BINARY`,
    # which is the default but which `deltalake` cannot read; a cast spells it as everybody else does.
    columns = [
        F.col(sql_name(field.name)).cast(_ddl(component, field.dataType)).alias(field.name)
        for field in rows.schema.fields
    ]
    stamped = rows.select(bound_literal(batch.number, "_root_id", "bigint").alias("_batch"), *columns)
    append(stamped, run.store.path(stream(component.name)), component.name, batch.number, _WRITE_OPTIONS)


def _ddl(component: Component, kind: DataType) -> str:
    """A type in SQL, whatever its fields are called.

    Raises:
        BoltError: the log of the batch could not read a column of this type.
    """
    if kind.typeName() in _UNREADABLE:
        raise BoltError(
            f"{component.name} emits a column of type {kind.simpleString()}, which streams cannot hold: turn "
            "it into text in the source or in the bolt."
        )
    if isinstance(kind, StructType):
        fields = (f"{sql_name(each.name)}: {_ddl(component, each.dataType)}" for each in kind.fields)
        return f"struct<{', '.join(fields)}>"
    if isinstance(kind, ArrayType):
        return f"array<{_ddl(component, kind.elementType)}>"
    if isinstance(kind, MapType):
        return f"map<{_ddl(component, kind.keyType)}, {_ddl(component, kind.valueType)}>"
    return kind.simpleString()


def _spout_rows(run: Run, spout: Component, batch: Batch) -> DataFrame:
    assert spout.source is not None
    if isinstance(batch.input, SourceRange):
        read = spout.source.read_range(run.spark, batch.input.described)
        found = read.withColumns({"_attempt": F.lit(1), "_replaces": F.lit(None).cast("bigint")})
    else:
        found = _replayed(run, spout, batch.replay)
    columns = user_columns(found)
    check_columns(f"Spout {spout.name}", columns)
    kind, error = (
        F.col(name) if name in found.columns else F.lit(None).cast("string") for name in ("_kind", "_error")
    )
    trimmed = _trimmed(run, batch.input) if isinstance(batch.input, Replay) else []
    if trimmed:
        is_late = F.col("_replaces").isin(trimmed)
        kind, error = F.when(is_late, Kind.FAIL.value).otherwise(kind), F.when(is_late, LATE).otherwise(error)
    root = root_id(run.topology.name, spout.name, batch.number, F.col("_attempt"))
    if isinstance(batch.input, SourceRange) and spout.reliable is not True:
        root = F.when(_is_tracked(spout, kind), root)
    rows = found.select(
        root.alias("_root_id"),
        kind.alias("_kind"),
        error.alias("_error"),
        "_source_partition",
        "_source_offset",
        "_attempt",
        "_replaces",
        *map(sql_name, columns),
    )
    return refusals(run, spout.name, rows)


def _is_tracked(spout: Component, kind: Column) -> Column:
    """Which messages of a spout are tracked; where some are, also those whose columns cannot be read."""
    if isinstance(spout.reliable, str):
        return kind.isNotNull() | F.expr(spout.reliable)
    return F.lit(spout.reliable)


def _trimmed(run: Run, replay: Replay) -> list[int]:
    """Acked roots to be replaced whose tuples may be gone, so that no published aggregate can take them back.

    A replay of such is refused, but a trimming may begin between the choice and the plan. Here the plan
    stands, and the trimming, which looks for plans before it deletes, or this look sees the other.
    """
    trim = newest_trim(run.store)
    replaced = replay.replaced()
    if not trim.number or not replaced or not any(each.by for each in run.topology.publications.values()):
        return []
    rows = settled_rows(run.store, newest_fold(run.store)).filter(pl.col("root_id").is_in(replaced))
    found = collect(rows.filter(pl.col("state") == State.ACKED).select("root_id", "spout", "batch")).rows()
    return [root for root, spout, number in found if number <= trim.upto.get(spout, 0)]


def _replayed(run: Run, spout: Component, replay: Replay) -> DataFrame:
    """The batch's messages, read back from the source; those that it no longer holds as `lost`."""
    assert spout.source is not None
    wanted = replay.table()
    positions = wanted.select(["source_partition", "source_offset"])
    read = spout.source.read_positions(run.spark, positions, history(run, spout.name))
    asked = run.spark.createDataFrame(wanted).select(
        F.col("source_partition").alias("_source_partition"),
        F.col("source_offset").alias("_source_offset"),
        F.col("attempt").cast("int").alias("_attempt"),
        F.col("replaces").alias("_replaces"),
    )
    found = read.withColumn("_found", F.lit(True))
    joined = F.broadcast(asked).join(found, ["_source_partition", "_source_offset"], "left")
    gone = F.col("_found").isNull()
    kind, error = (
        F.col(name) if name in read.columns else F.lit(None).cast("string") for name in ("_kind", "_error")
    )
    return joined.withColumns(
        {
            "_kind": F.when(gone, Kind.LOST.value).otherwise(kind),
            "_error": F.when(gone, "the source no longer holds this message").otherwise(error),
        }
    ).drop("_found")


def _tuples_of(run: Run, upstream: str, batches: list[int]) -> DataFrame:
    """What a bolt's batch takes in of a stream: the roots and the user's columns.

    A component that never wrote has no stream to tell its columns; then they are found without a row.
    """
    if run.store.open(stream(upstream)) is not None:
        tuples = run.tuples(upstream, batches)
    else:
        tuples = _no_tuples(run, upstream).where("false")
    roots = [name for name in ("_root_id", "_root_ids") if name in tuples.columns]
    return tuples.select(*roots, *map(sql_name, run.columns(tuples, upstream)))


def _no_tuples(run: Run, upstream: str) -> DataFrame:
    """Tuples with the columns of those that a component will emit to a stream."""
    name, _, further = upstream.partition(".")
    component = run.topology.components[name]
    if component.source is not None:
        any_position = pa.table({"source_partition": [""], "source_offset": [0]})
        tuples = component.source.read_positions(run.spark, any_position, History(None, list))
        return tuples.withColumn("_root_id", F.lit(None).cast("bigint"))
    if component.make is not None:
        ddl = component.streams[further] if further else component.schema
        return run.spark.createDataFrame([], f"_root_id bigint, {ddl}")
    inputs = {each: _tuples_of(run, each, []) for each in component.inputs}
    return bolt_rows(run.spark, component, 0, inputs)


def _write_bolt(run: Run, bolt: Component, batch: Batch) -> None:
    """Append what a DataFrame or basic bolt makes of its inputs; rows that raise fail their messages."""
    taken = run.journal.inputs(batch)
    inputs = {upstream: _tuples_of(run, upstream, taken.get(upstream, [])) for upstream in bolt.inputs}
    let_go = _let_go(run, bolt, batch)

    def rows_of(frames: Frames) -> DataFrame:
        rows = refusals(run, bolt.name, bolt_rows(run.spark, bolt, batch.number, frames))
        return reduce(partial(DataFrame.unionByName, allowMissingColumns=True), [rows, *let_go])

    poison: dict[int, str] = {}
    while True:
        sound = {upstream: _without(frame, poison) for upstream, frame in inputs.items()}
        rows = rows_of(sound)
        if poison:
            failed = run.spark.createDataFrame(
                [(root, Kind.FAIL.value, reason) for root, reason in poison.items()],
                "_root_id bigint, _kind string, _error string",
            )
            rows = rows.unionByName(failed, allowMissingColumns=True)
        try:
            _append_rows(run, bolt, batch, rows)
        except PySparkException as error:
            cause = error_of(rows_of(sound)) if _UNCAUSED in str(error) else error
            if cause is not None and FOREIGN_ANCHOR in str(cause):
                raise BoltError(f"Bolt {bolt.name} {FOREIGN_ANCHOR}.") from cause
            if cause is None or row_error(cause) is None:
                raise cause or error from None
            run.tell("narrowing", bolt.name, batch.number)
            # Of tuples that raise where they meet there may be more, which those found have kept from sight.
            poison |= find_poison(bolt.name, sound, rows_of, cause)
            refuse_more(bolt.name, poison)
        else:
            return


def _without(frame: DataFrame, poison: dict[int, str]) -> DataFrame:
    if not poison:
        return frame
    return frame.where(F.col("_root_id").isNull() | ~F.col("_root_id").isin(list(poison)))


def _let_go(run: Run, bolt: Component, batch: Batch) -> list[DataFrame]:
    """Rows that fail what a rich bolt held back before another kind of bolt took its place."""
    table = run.store.open(stream(bolt.name))
    if table is None or "_held" not in {field.name for field in table.schema().fields}:
        return []
    held = run.rows(bolt.name, [batch.number - 1]).where(F.col("_kind") == HELD)
    reason = F.lit(f"bolt {bolt.name} holds back nothing any more")
    failed = {"_kind": F.lit(Kind.FAIL.value), "_error": reason}
    return [held.select("_root_id").dropna().distinct().withColumns(failed)]
