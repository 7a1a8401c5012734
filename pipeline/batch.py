"""One batch of one component: plan, write, log. Any step done again changes nothing.

Plan fixes the input in the journal. Write runs the user's transformation and appends its rows to the
stream in one commit. Log reads those rows back and appends the batch's events in one commit, so that
what a component consumed and what it emitted cannot be seen apart, and a transformation that gives
other rows the second time does no harm.
"""

from collections.abc import Mapping, Sequence
from functools import partial, reduce

import polars as pl
import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from acker.errors import BoltError
from acker.events import Kind
from acker.held import held_back
from acker.ids import root_id
from acker.ledger import newest_fold
from acker.log import LogRequest, run_log
from acker.schemas import HELD, STREAM_PROPERTIES, component_of, stream
from acker.steady import steady
from acker.tables import arrow_table, query
from pipeline.bolts import FOREIGN_ANCHOR, bolt_rows, check_columns
from pipeline.collector import LONGEST_REASON
from pipeline.components import Component
from pipeline.journal import Batch, BatchKind
from pipeline.poison import Frames, error_of, find_poison, row_error
from pipeline.rich import rich_rows
from pipeline.run import Run, user_columns
from pipeline.spouts import History, Range
from pipeline.targets import refusals

_WRITE_OPTIONS = {**STREAM_PROPERTIES, "mergeSchema": "true"}
_ANY_POSITION = pa.table({"source_partition": [""], "source_offset": [0]})
_UNCAUSED = "TASK_WRITE_FAILED"  # Delta's writer hides what the transformation raised


def unfinished(run: Run, component: str) -> Batch | None:
    """The component's newest planned batch if it is not logged yet."""
    newest = run.journal.newest_number(component)
    if newest == run.journal.logged(component):
        return None
    return run.journal.read(component, newest)


def plan(run: Run, component: Component, kind: BatchKind, planned: Range, number: int) -> Batch:
    """Append a batch to the journal and return the one that has its number now.

    Another run may have planned that number first; then its batch comes back, to be resumed.
    """
    batch = Batch(
        component=component.name,
        number=number,
        kind=kind,
        input=planned,
        edges=run.topology.edges(component.name),
        planned_at=run.clock(),
        run_id=run.run_id,
    )
    batch = run.journal.append(batch)
    run.tell("planned", component.name, batch.number, kind=batch.kind)
    return batch


def finish(run: Run, component: Component, batch: Batch) -> None:
    """Write and log a planned batch, from wherever it was left.

    A bolt's batch that cannot be run any more is not written, and logged as a fail of all its inputs.
    """
    written = is_written(run, batch)
    refused = None if written or component.is_spout else refusal(run, batch)
    if refused is None:
        if not written and component.is_spout:
            _append_rows(run, component, batch, _spout_rows(run, component, batch))
        elif not written:
            _write_bolt(run, component, batch)
        run.tell("written", component.name, batch.number)
    log(run, batch, None if component.is_spout else run.journal.inputs(batch), refused)


def log(
    run: Run, batch: Batch, inputs: Mapping[str, Sequence[int]] | None, failed: str | None = None
) -> None:
    """Append the events of a batch that is written, or whose inputs all fail; see `LogRequest`."""
    if run.journal.logged(batch.component) < batch.number:
        request = LogRequest(batch.component, batch.number, batch.edges, inputs, run.clock(), failed)
        run_log(run.store, request)
    run.tell("logged", batch.component, batch.number)


def is_written(run: Run, batch: Batch) -> bool:
    """Whether the batch's rows are in its component's stream."""
    return run.store.last_number(stream(batch.component), batch.component) >= batch.number


def refusal(run: Run, batch: Batch) -> str | None:
    """Why a bolt's batch cannot be run under the topology of today; None where it can."""
    taken = [upstream for upstream, upto in batch.positions.items() if batch.input[upstream]["after"] < upto]
    taken = taken or list(batch.positions)  # it takes in nothing where it lets go of what was held back
    reasons = [run.topology.unread(upstream, batch.component) for upstream in taken]
    found = next((reason for reason in reasons if reason is not None), None)
    if found is None and batch.kind == "retire":  # planned by a topology that was taken back since
        return f"bolt {batch.component} did not read {', '.join(taken)} for a while"
    return found


def give_up(run: Run, bolt: Component, reason: str) -> Batch | None:
    """Fail all messages of the batch that a bolt has not finished, so that the bolt goes on after it.

    What the bolt had written already stands, and then the batch is only logged.

    Returns:
        The batch; None if there is none to give up.
    """
    batch = unfinished(run, bolt.name)
    if batch is None:
        return None
    log(run, batch, run.journal.inputs(batch), None if is_written(run, batch) else reason[:LONGEST_REASON])
    return batch


def _let_go(run: Run, bolt: Component, batch: Batch) -> list[DataFrame]:
    """Rows that fail what a rich bolt held back before another kind of bolt took its place."""
    table = run.store.open(stream(bolt.name))
    if table is None or "_held" not in {field.name for field in table.schema().fields}:
        return []
    held = run.rows(bolt.name, [batch.number - 1]).where(F.col("_kind") == HELD)
    reason = F.lit(f"bolt {bolt.name} holds back nothing any more")
    failed = {"_kind": F.lit(Kind.FAIL.value), "_error": reason}
    return [held.select("_root_id").dropna().distinct().withColumns(failed)]


def plan_bolt(run: Run, bolt: Component) -> Batch | None:
    """The bolt's next batch: the one that was left unfinished, or its inputs' new logged batches."""
    newest = run.journal.newest_number(bolt.name)  # first, as a spout's
    left = unfinished(run, bolt.name)
    if left is not None:
        return left
    before = run.journal.read(bolt.name, newest) if newest else None
    planned: Range = {}
    positions = dict.fromkeys(bolt.inputs, 0) | (before.positions if before else {})
    for upstream, taken in positions.items():
        # Of a stream that it no longer reads it keeps the position, should it read it again.
        upto = last_that_fits(run, upstream, bolt.name, taken) if upstream in bolt.inputs else taken
        planned[upstream] = {"after": taken, "upto": upto}
    if all(each["after"] == each["upto"] for each in planned.values()):
        return None
    if bolt.make is not None:
        held = held_back(run.store, bolt.name, newest, newest_fold(run.store))
        for name, oldest in held.group_by("stream").agg(pl.col("batch").min()).rows():
            if name in planned:
                planned[name]["held"] = oldest
    return plan(run, bolt, "next", planned, newest + 1)


def last_that_fits(run: Run, upstream: str, consumer: str, taken: int) -> int:
    """The last logged batch that fits into one batch of about `batch_rows` rows; at least one batch."""
    offered = run.journal.numbers_for(upstream, consumer, taken, run.journal.logged(upstream))
    if not offered:
        return taken
    if len(offered) == 1:
        return offered[0]
    sizes = rows_by_batch(run, component_of(upstream))
    room = run.topology.batch_rows
    for index, number in enumerate(offered):
        room -= sizes.get(number, 0)
        if room < 0 and index > 0:
            return offered[index - 1]
    return offered[-1]


def rows_by_batch(run: Run, component: str) -> dict[int, int]:
    """Rows of each batch in a stream, from Delta's own statistics; files that were compacted are read."""
    table = run.store.open(stream(component))
    if table is None:  # all its batches failed their inputs without a write
        return {}
    actions = arrow_table(table.get_add_actions(flatten=True))
    names = ("min._batch", "max._batch", "num_records")
    files = list(zip(*(actions[name].to_pylist() for name in names), strict=True))
    if any(low != high for low, high, _ in files):
        rows = query("SELECT _batch, count(*) AS n FROM stream GROUP BY _batch", stream=table)
        return {row["_batch"]: row["n"] for row in rows}
    sizes: dict[int, int] = {}
    for number, _, count in files:
        sizes[number] = sizes.get(number, 0) + count
    return sizes


# Writing


def _append_rows(run: Run, component: Component, batch: Batch, rows: DataFrame) -> None:
    # Spark Connect gives the strings that Python functions return the type `string collate UTF8_BINARY`,
    # which is the default but which `deltalake` cannot read; a cast spells it as everybody else does.
    columns = [F.col(f"`{name}`").cast(found).alias(name) for name, found in rows.dtypes]
    stamped = rows.select(steady(batch.number, "_root_id", "bigint").alias("_batch"), *columns)
    run.store.append(stamped, stream(component.name), component.name, batch.number, _WRITE_OPTIONS)


def _spout_rows(run: Run, spout: Component, batch: Batch) -> DataFrame:
    assert spout.source is not None
    if batch.kind == "next":
        read = spout.source.read_range(run.spark, batch.input)
        found = read.withColumns({"_attempt": F.lit(1), "_replaces": F.lit(None).cast("bigint")})
    else:
        found = _replayed(run, spout, batch)
    columns = user_columns(found)
    check_columns(f"Spout {spout.name}", columns)
    kind, error = (
        F.col(name) if name in found.columns else F.lit(None).cast("string") for name in ("_kind", "_error")
    )
    root = root_id(run.topology.name, spout.name, batch.number, F.col("_attempt"))
    if batch.kind == "next" and spout.reliable is not True:
        root = F.when(_is_tracked(spout, kind), root)
    rows = found.select(
        root.alias("_root_id"),
        kind.alias("_kind"),
        error.alias("_error"),
        "_source_partition",
        "_source_offset",
        "_attempt",
        "_replaces",
        *columns,
    )
    return refusals(run, spout.name, rows)


def _is_tracked(spout: Component, kind: Column) -> Column:
    """Which messages of a spout are tracked; where some are, also those whose columns cannot be read."""
    if isinstance(spout.reliable, str):
        return kind.isNotNull() | F.expr(spout.reliable)
    return F.lit(spout.reliable)


def _replayed(run: Run, spout: Component, batch: Batch) -> DataFrame:
    """The batch's messages, read back from the source; those that it no longer holds as `lost`."""
    assert spout.source is not None
    wanted = messages_table(batch.input)
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


def messages_table(planned: Range) -> pa.Table:
    """The messages of a replay's input: source_partition, source_offset, attempt, replaces."""
    rows = [
        (partition, offset, attempt, replaces)
        for partition, messages in planned["messages"].items()
        for offset, attempt, replaces in messages
    ]
    schema = pa.schema(
        {
            "source_partition": pa.string(),
            "source_offset": pa.int64(),
            "attempt": pa.int32(),
            "replaces": pa.int64(),
        }
    )
    return pa.Table.from_pylist([dict(zip(schema.names, row, strict=True)) for row in rows], schema)


def history(run: Run, spout: str) -> History:
    """What the spout planned to read so far."""
    where = f"component = '{spout}' AND kind = 'next'"
    newest = run.journal.rows(f"{where} AND batch = (SELECT max(batch) FROM batches WHERE {where})")
    return History(
        newest[0].input if newest else None, lambda: [batch.input for batch in run.journal.rows(where)]
    )


def tuples_of(run: Run, upstream: str, batches: list[int]) -> DataFrame:
    """What a bolt's batch takes in of a stream: the roots and the user's columns.

    A component that never wrote has no stream to tell its columns; then they are found without a row.
    """
    if run.store.open(stream(upstream)) is not None:
        tuples = run.tuples(upstream, batches)
    else:
        tuples = _no_tuples(run, run.topology.components[component_of(upstream)]).where("false")
    roots = [name for name in ("_root_id", "_root_ids") if name in tuples.columns]
    return tuples.select(*roots, *run.columns(tuples, upstream))


def _no_tuples(run: Run, component: Component) -> DataFrame:
    """Tuples with the columns of those that a component will emit."""
    if component.source is not None:
        tuples = component.source.read_positions(run.spark, _ANY_POSITION, History(None, list))
        return tuples.withColumn("_root_id", F.lit(None).cast("bigint"))
    if component.make is not None:
        ddl = ", ".join(["_root_id bigint", str(component.schema), *component.streams.values()])
        return run.spark.createDataFrame([], ddl)
    inputs = {name: tuples_of(run, name, []) for name in component.inputs}
    return bolt_rows(run.spark, component, 0, inputs)


def _write_bolt(run: Run, bolt: Component, batch: Batch) -> None:
    """Append what the bolt makes of its inputs; rows that raise fail their messages and no others."""
    if bolt.make is not None:
        _append_rows(run, bolt, batch, refusals(run, bolt.name, rich_rows(run, bolt, batch)))
        return
    taken = run.journal.inputs(batch)
    inputs = {upstream: tuples_of(run, upstream, taken.get(upstream, [])) for upstream in bolt.inputs}
    let_go = _let_go(run, bolt, batch)

    def rows_of(frames: Frames) -> DataFrame:
        rows = refusals(run, bolt.name, bolt_rows(run.spark, bolt, batch.number, frames))
        return reduce(partial(DataFrame.unionByName, allowMissingColumns=True), [rows, *let_go])

    try:
        _append_rows(run, bolt, batch, rows_of(inputs))
    except PySparkException as error:
        cause = error_of(rows_of(inputs)) if _UNCAUSED in str(error) else error
        if cause is not None and FOREIGN_ANCHOR in str(cause):
            raise BoltError(f"Bolt {bolt.name} {FOREIGN_ANCHOR}.") from cause
        if cause is None or row_error(cause) is None:
            raise cause or error from None
        run.tell("narrowing", bolt.name, batch.number)
        poison = find_poison(bolt.name, inputs, rows_of, cause)
        failed = run.spark.createDataFrame(
            [(root, Kind.FAIL.value, reason) for root, reason in poison.items()],
            "_root_id bigint, _kind string, _error string",
        )
        sound = {
            stream: frame.where(F.col("_root_id").isNull() | ~F.col("_root_id").isin(list(poison)))
            for stream, frame in inputs.items()
        }
        _append_rows(run, bolt, batch, rows_of(sound).unionByName(failed, allowMissingColumns=True))
