"""The events of a batch: per root the consumed and the emitted tuples, read from committed rows.

The batch's own stream has the tuples that it emitted, failed and still holds back. The streams of its inputs
have the tuples that it was given. Consumed = new inputs + previously held back − still held back.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial, reduce
from operator import xor

import polars as pl

from acker.core.events import FAILURES, Kind
from acker.core.snapshot.snapshot import Snapshot
from acker.core.snapshot.streams import Rows, by_each_root, rows_by_batch
from acker.core.store.checksums import batch_row, checksum_of_batch
from acker.core.store.commits import ROWS_OF_A_FILE, Bounds, File, append_files, file_rows, write_files
from acker.core.store.ids import Task, held_ids, tuple_ids
from acker.core.store.parquet import collect, columns_of, file_name, scan
from acker.core.store.schemas import EVENTS, HELD, SCHEMAS, SPOUT_COLUMNS, of_stream, stream
from acker.core.store.tables import path_of
from acker.core.stream_names import component_of, edge, stream_of
from acker.core.tasks import CALLER, Tasks

_EMITTED = pl.col("_kind").is_null()  # the row is a tuple, and no report on an input
_ZERO = pl.lit(0, pl.Int64)
_NO_TUPLES = {name: _ZERO for name in ("ack_val", "emitted", "consumed")}
_SCHEMA = SCHEMAS[EVENTS].arrow()
_COLUMNS = columns_of(EVENTS)
_BOUNDED = SCHEMAS[EVENTS].stats_columns.split(",")
_EDGES = pl.Int16  # how many consumers a tuple has


@dataclass(frozen=True)
class LogRequest:
    """A batch to log, whose rows are in its component's stream, or that fails all its inputs.

    Args:
        edges: the edges to consumers at the time of the plan.
        inputs: stream -> its batches that a bolt's batch consumed; None for a spout's batch.
        failed: the reason why all messages of the inputs fail, where no rows were written; None where the
            batch was written.
    """

    component: str
    batch: int
    edges: Sequence[str]
    inputs: Mapping[str, Sequence[int]] | None
    now: datetime
    failed: str | None = None


def run_log(snapshot: Snapshot, request: LogRequest, tasks: Tasks = CALLER) -> None:
    """Append the events of a batch in one commit, once, however often this is called.

    Args:
        tasks: the runner of the work.

    Raises:
        StoreError: a stream could not be read, or the events could not be committed.
    """
    if request.failed is None:
        snapshot.require(stream(request.component))  # without it nothing was written, and nothing is acked
    work, table = _Work.read_by(request, snapshot), snapshot.require(EVENTS)
    found = tasks.among(work.most)
    events, checksums, written = pl.DataFrame(), [], []
    if tasks.are_elsewhere(found):
        for checksum, files in tasks.run(partial(work.written, path_of(table)), found):
            checksums.append(checksum)
            written += files
    else:
        events = collect(work.events(Task()), snapshot.files)
        checksums.append(checksum_of_batch(events))
    tuples = rows_by_batch(snapshot, request.component).get(request.batch, 0)
    seal = reduce(xor, checksums, 0)
    own = batch_row(seal, request.component, request.batch, tuples, request.now)
    parts = [*work.in_files(events)]
    parts = [pl.concat([own, *parts[:1]], how="diagonal"), *parts[1:]]
    new = list(zip(file_rows(parts, _SCHEMA), map(_bounds, parts), strict=True))
    append_files(table, new, request.component, request.batch, written)


def _bounds(rows: pl.DataFrame) -> Bounds:
    """The least and the greatest values of a file's columns, for Delta's log."""
    return {name: (rows[name].min(), rows[name].max()) for name in _BOUNDED}


@dataclass(frozen=True)
class _Work:
    """The rows that the tasks of a log read, wherever the tasks run.

    Args:
        own: rows of the batch.
        before: rows of the batch before, of a component that holds tuples back.
        inputs: stream -> its rows that a bolt's batch consumed; None for a spout's batch.
    """

    request: LogRequest
    own: Rows
    before: Rows
    inputs: Mapping[str, Rows] | None

    @classmethod
    def read_by(cls, request: LogRequest, snapshot: Snapshot) -> "_Work":
        """The rows that the log of a batch reads, found in a snapshot."""
        own, inputs = Rows.of(snapshot, request.component, [request.batch]), request.inputs
        earlier = [request.batch - 1] if "_held" in own.columns else []
        before = Rows.of(snapshot, request.component, earlier)
        given = None if inputs is None else {name: Rows.of(snapshot, name, inputs[name]) for name in inputs}
        return cls(request, own, before, given)

    @property
    def most(self) -> int:
        """The most rows that the log reads, as far as their number is known."""
        return sum(rows.most or 0 for rows in (self.own, *(self.inputs or {}).values()))

    def events(self, task: Task) -> pl.LazyFrame:
        """The events of a task's share of the roots, without the columns that are the same in all of them."""
        events_of = _spout_events if self.inputs is None else _bolt_events
        found = (events_of if self.request.failed is None else _failed_events)(self, task)
        return found.cast({name: _COLUMNS[name] for name in found.collect_schema()})

    def in_files(self, events: pl.DataFrame) -> Iterator[pl.DataFrame]:
        """Events with all columns, in one frame for each file."""
        same = {
            "component": pl.lit(self.request.component),
            "batch": pl.lit(self.request.batch, pl.Int64),
            "logged_at": pl.lit(self.request.now, _COLUMNS["logged_at"]),
        }
        return (part.with_columns(**same) for part in events.iter_slices(ROWS_OF_A_FILE) if part.height)

    def written(self, path: str, task: Task) -> tuple[int, list[tuple[File, Bounds]]]:
        """Write the events of a task's share into files of its own, and return their checksum and the files.

        Args:
            path: of the table `events`.
        """
        events = collect(self.events(task))
        parts = [*self.in_files(events)]
        files = write_files(path, file_rows(parts, _SCHEMA), task.prefix)
        return checksum_of_batch(events), [*zip(files, map(_bounds, parts), strict=True)]


def _spout_events(work: _Work, task: Task) -> pl.LazyFrame:
    """The events of a task's share of a spout's batch: one for each message, which is `init` or `lost`.

    An emitted message that could not be read has a second event, which fails it. Untracked rows have no
    event.
    """
    request = work.request
    rows = task.share(_rows(work.own, request.component, request.edges), "_root_id")
    rows = rows.filter(pl.col("_root_id").is_not_null())  # the others are not tracked
    lost, failed = pl.col("_kind") == Kind.LOST, pl.col("_kind").is_in(FAILURES)
    message = [
        pl.col("_root_id").alias("root_id"),
        pl.when(_EMITTED).then("id").otherwise(0).alias("ack_val"),
        pl.when(_EMITTED).then("edges").otherwise(0).alias("emitted"),
        pl.lit(0).alias("consumed"),
        pl.lit(request.component).alias("spout"),
        *(pl.col(column).alias(column.removeprefix("_")) for column in SPOUT_COLUMNS),
    ]
    first = rows.select(
        *message,
        pl.when(lost).then(pl.lit(Kind.LOST)).otherwise(pl.lit(Kind.INIT)).alias("kind"),
        pl.when(lost).then("_error").alias("reason"),
    )
    fails = rows.filter(failed).select(
        *message, pl.col("_kind").alias("kind"), pl.col("_error").alias("reason")
    )
    return pl.concat([first, fails])


def _bolt_events(work: _Work, task: Task) -> pl.LazyFrame:
    """One event per root: the XOR of the ids of consumed and emitted tuples, and the number of each.

    Further events count no tuples: one for each reset, and one for each root that shares a tuple with a
    smaller root.
    """
    edges = work.request.edges
    own = _rows(work.own, work.request.component, edges)
    columns = own.collect_schema().names()
    moved = _consumed(work, own)
    if edges:  # else nobody is to consume what the bolt emitted
        moved.append(own.filter(_EMITTED).with_columns(emitted="edges"))
    rows = _by_root(moved, task).with_columns(kind=pl.lit(Kind.ACK))
    failed = _failed(own, task, work.own.files)
    if not failed.is_empty():
        rows = rows.drop("kind").join(failed.lazy(), on="root_id", how="left")
        rows = rows.with_columns(pl.col("kind").fill_null(Kind.ACK))
    if "_held" in columns:  # a root whose tuples are all held back has moved nothing
        has_moved = pl.any_horizontal(pl.col("ack_val", "emitted", "consumed") != 0)
        has_moved |= pl.col("kind").is_in(FAILURES)
        rows = pl.concat([rows.filter(has_moved), _resets(own, task)], how="diagonal")
    return pl.concat([rows, _joins(own, task)], how="diagonal") if "_root_ids" in columns else rows


def _failed(own: pl.LazyFrame, task: Task, files: Sequence[str]) -> pl.DataFrame:
    """The roots that the bolt failed, each once, with `kind` and `reason`.

    If a root failed several times, a failure for good counts before the others. Among equals the reason that
    is first by the order of texts counts.

    Args:
        own: rows of the bolt's batch.
        files: the paths of the files with these rows, by which an error names a file.
    """
    each = _shares(own.filter(pl.col("_kind").is_in(FAILURES)), task)
    for_good = pl.col("_kind") == pl.col("_kind").max()  # the greater of both kinds
    failed = each.group_by(root_id="_root_id").agg(
        kind=pl.col("_kind").max(), reason=pl.col("_error").filter(for_good).min()
    )
    return collect(failed, lambda: files)


def _consumed(work: _Work, own: pl.LazyFrame) -> list[pl.LazyFrame]:
    """Frames of the tuples that count as consumed by the bolt, with the columns `id` and `consumed`.

    `consumed` is 1 for a new tuple and for one that the batch before held back. It is −1 for a tuple that
    this batch holds back.

    Args:
        own: rows of the bolt's batch.
    """
    assert work.inputs is not None
    consumer, parts = work.request.component, []
    for name, given in work.inputs.items():
        rows = _rows(given, name, [edge(name, consumer)])
        mine = pl.sql_expr(of_stream(name, rows.collect_schema().names()))
        parts.append(rows.filter(mine & _EMITTED).with_columns(consumed="edges"))
    if "_held" in own.collect_schema():
        before = _rows(work.before, consumer)
        parts += [_held(before, work.before, consumer, 1), _held(own, work.own, consumer, -1)]
    return parts


def _held(rows: pl.LazyFrame, read: Rows, consumer: str, consumed: int) -> pl.LazyFrame:
    """The tuples that some rows report as held back, each once, with its `id` on the edge to the consumer.

    Args:
        rows: rows of the consumer's stream.
        read: the places of these rows.
        consumed: the value of the column `consumed`: 1 counts the tuples as consumed, −1 takes them off
            again.
    """
    if "_held" not in rows.collect_schema():
        return pl.LazyFrame()
    roots = [name for name in ("_root_id", "_root_ids") if name in rows.collect_schema()]
    places = rows.filter(pl.col("_kind") == HELD).select(*roots, pl.col("_held").struct.unnest())
    # Each task of a bolt may hold the same tuple, which is one edge all the same.
    held = collect(places, lambda: read.files).unique(["stream", "file", "row"])
    return held_ids(held, consumer).with_columns(consumed=pl.lit(consumed, _EDGES)).lazy()


def _resets(own: pl.LazyFrame, task: Task) -> pl.LazyFrame:
    """A `reset` event for each root whose time is to start again."""
    reset = _shares(own.filter(pl.col("_kind") == Kind.RESET), task)
    return reset.select(root_id="_root_id", kind=pl.lit(Kind.RESET), **_NO_TUPLES).unique()


def _joins(own: pl.LazyFrame, task: Task) -> pl.LazyFrame:
    """A `join` event for each root of a tuple but the smallest one, which the event names."""
    tuples = own.filter(_EMITTED & pl.col("_root_ids").is_not_null())
    roots = task.share(tuples.select(root_id="_root_ids", joined="_root_id").explode("root_id"))
    others = roots.filter(pl.col("root_id") != pl.col("joined")).unique()
    return others.with_columns(kind=pl.lit(Kind.JOIN), **_NO_TUPLES)


def _failed_events(work: _Work, task: Task) -> pl.LazyFrame:
    """One `fail` event per root of the tuples that the bolt was given or held back, all of them consumed."""
    own = _rows(work.own, work.request.component)
    rows = _by_root(_consumed(work, own), task)
    return rows.with_columns(kind=pl.lit(Kind.FAIL), reason=pl.lit(work.request.failed))


def _by_root(tuples: Sequence[pl.LazyFrame], task: Task) -> pl.LazyFrame:
    """Per root of some tuples the XOR of their ids and their numbers, in the columns of an event.

    Args:
        tuples: frames with `id`, and with the number of edges as `emitted` or `consumed`.
    """
    none = pl.LazyFrame(schema={"_root_id": pl.Int64, "id": pl.Int64, "emitted": _EDGES, "consumed": _EDGES})
    sums = _shares(pl.concat([none, *tuples], how="diagonal"), task).group_by(root_id="_root_id")
    found = sums.agg(
        ack_val=pl.col("id").bitwise_xor(),
        emitted=pl.col("emitted").sum().cast(pl.Int64),
        consumed=pl.col("consumed").sum().cast(pl.Int64),
    )
    return found.filter(pl.col("root_id").is_not_null())  # the others are not tracked


def _shares(rows: pl.LazyFrame, task: Task) -> pl.LazyFrame:
    """The rows of each root in a task's share."""
    return task.share(by_each_root(rows), "_root_id")


def _rows(rows: Rows, emitter: str, edges: Sequence[str] = ()) -> pl.LazyFrame:
    """Rows of some batches of a component, with the XOR of their ids on some edges and the number of edges.

    The further columns are `id` and `edges`.
    """
    parts = [pl.LazyFrame(schema={**rows.columns, "id": pl.Int64, "edges": _EDGES})]
    for file in rows.files:
        ids, number = _on_edges(component_of(emitter), edges, file_name(file), "_stream" in rows.columns)
        frame = scan([file], rows.columns, row="_row").with_columns(id=ids, edges=number.cast(_EDGES))
        parts.append(frame.drop("_row"))
    return rows.only(pl.concat(parts))


def _on_edges(emitter: str, edges: Sequence[str], file: str, several: bool) -> tuple[pl.Expr, pl.Expr]:
    """The XOR of a row's ids on the edges of its stream, and the number of these edges.

    Args:
        emitter: the component that emitted the row.
        edges: edges of all streams of the component.
        file: the name of the row's file. The row's number in the file is the column `_row`.
        several: whether the component has several streams, so that the column `_stream` names the row's own.
    """
    row = pl.col("_row")
    if not several:
        return tuple_ids(emitter, edges, file, row), pl.lit(len(edges))
    ids, number = pl.lit(0, pl.Int64), pl.lit(0)
    for name in {stream_of(each) for each in edges}:
        mine = [each for each in edges if stream_of(each) == name]
        is_mine = pl.col("_stream").is_null() if name is None else pl.col("_stream") == name
        ids = pl.when(is_mine).then(tuple_ids(emitter, mine, file, row)).otherwise(ids)
        number = pl.when(is_mine).then(len(mine)).otherwise(number)
    return ids, number
