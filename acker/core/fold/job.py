"""The acker job: read at fixed versions, fold, and commit the whole result at once."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial

import polars as pl
from deltalake import DeltaTable

from acker.core.events import Kind
from acker.core.fold.decide import (
    Deferred,
    FoldInput,
    decided_in_groups,
    decided_independently,
    joined_roots,
    with_dirty,
    with_groups,
)
from acker.core.fold.files import (
    FoldFiles,
    FoldName,
    LiveRows,
    Written,
    by_reuse,
    live_files,
    scan_live,
    summed,
)
from acker.core.fold.refused import refused_rows
from acker.core.fold.settlement_groups import SettlementGroups
from acker.core.retry import RetryPolicy
from acker.core.snapshot.holders import HOLDERS, holders
from acker.core.snapshot.integrity import broken_fold, check_batches
from acker.core.snapshot.ledger import REFUSALS_READ, Fold, read_fold, settled_rows, unfolded
from acker.core.snapshot.refusals import last_refusal, refusals
from acker.core.snapshot.snapshot import Snapshot
from acker.core.snapshot.streams import Rows, by_each_root
from acker.core.store.ids import Task
from acker.core.store.parquet import collect, columns_of, file_name, scan
from acker.core.store.schemas import EVENTS, LEDGER
from acker.core.store.tables import files_of, path_of
from acker.core.tasks import CALLER, Tasks
from acker.core.timeouts import Timeouts, Turn


@dataclass(frozen=True)
class FoldRequest:
    """The request of a fold, all of it fixed before anything is computed.

    Args:
        snapshot: of the store. Its fold is the one before the request's. Events are folded up to its version
            of `events`.
        logged: component -> its newest batch logged at that version.
        waiting: stream -> its batches that a bolt has yet to take.
        holding: the bolts that may hold tuples back.
        spouts: see `FoldInput`.
        retry: see `FoldInput`.
        refusals: `refusals`, as of a time after that of `events`; None where there are none.
        tasks: the runner of the work.
    """

    snapshot: Snapshot
    logged: Mapping[str, int]
    waiting: Mapping[str, Sequence[int]]
    spouts: Collection[str]
    retry: RetryPolicy
    timeouts: Timeouts
    now: datetime
    holding: Sequence[str] = ()
    refusals: DeltaTable | None = None
    tasks: Tasks = CALLER

    @property
    def previous(self) -> Fold | None:
        """The fold before this one; None before the first."""
        return self.snapshot.fold

    @property
    def number(self) -> int:
        """The number of the fold to come."""
        return 1 if self.previous is None else self.previous.number + 1

    @property
    def name(self) -> FoldName:
        """The values that each row of the fold has, with the snapshot's version of `events`."""
        path, events = path_of(self.snapshot.require(LEDGER)), self.snapshot.require(EVENTS)
        return FoldName(path, self.number, events.version(), self.now)

    @property
    def turn(self) -> Turn:
        """The turn of this fold, by `Timeouts.turn` from the turn of the fold before and the time `now`."""
        return self.timeouts.turn(self.previous.turn if self.previous else None, self.now)

    def held(self) -> pl.LazyFrame:
        """The roots whose tuples bolts hold back, each with its bolt."""
        return holders(self.snapshot, self.holding, self.logged)


def run_fold(request: FoldRequest) -> tuple[Fold, bool]:
    """Run one fold, and commit it once.

    Returns:
        The row of the fold that has this number now, and whether it is ours and not a faster client's.

    Raises:
        StoreError: events or live rows could not be read, or the fold could not be committed.
    """
    new = _NewEvents(request)
    empty = FoldInput(
        live=pl.LazyFrame(schema=columns_of(LEDGER)),
        settled=settled_rows(request.previous),
        events=pl.LazyFrame(schema=columns_of(EVENTS)),
        waiting=_waiting(request.snapshot, request.waiting).unique(),
        held=pl.LazyFrame(schema=HOLDERS),
        spouts=request.spouts,
        retry=request.retry,
        turn=request.turn,
        timeouts=request.timeouts,
        now=request.now,
    )
    if new.are_elsewhere:
        empty = replace(empty, held=request.held())
    work = _Work(new.files, new.condition, empty)
    fold = replace(empty, events=new.rows)
    if not new.are_elsewhere:
        waiting = collect(fold.waiting, request.snapshot.files).lazy()
        # Where nothing times out, as in most folds, no stream is opened for it.
        held = pl.defer(lambda: collect(request.held(), request.snapshot.files), schema=HOLDERS)
        fold = replace(fold, waiting=waiting, held=held)
    live = _live(request, work, fold, new)
    files = FoldFiles(request.name, live.reused)
    found = request.tasks.among(new.at_most + live.count)
    if request.tasks.are_elsewhere(found):
        groups, deferred = _elsewhere(request, found, replace(work, live=live.files), new, files)
    else:
        read = replace(fold, live=scan(live.files, columns_of(LEDGER)))
        groups, deferred = _here(found, read, new, files)
    new.check()
    for rows in decided_in_groups(fold, groups, deferred):
        files.add(rows)
    refused = last_refusal(request.refusals)
    previous = request.previous
    if previous is not None and refused > previous.refusals:
        files.add(refused_rows(previous, refusals(request.refusals, previous.refusals), fold))
    logged = {**request.logged, **({REFUSALS_READ: refused} if refused else {})}
    is_ours = files.commit(request.snapshot.require(LEDGER), request.turn, logged, new.count)
    return read_fold(request.snapshot.store.require(LEDGER), request.number), is_ours


def _here(
    found: Sequence[Task], fold: FoldInput, new: "_NewEvents", files: FoldFiles
) -> tuple[SettlementGroups, list[Deferred]]:
    """Decide each task's share of the messages, one task after the other, in this process.

    The rows of messages that are decided alone go into `files`. The events that were read are counted in
    `new`.

    Returns:
        The messages that are decided together, and each share's rows for that decision.
    """
    deferred = []
    groups, parts = with_groups(fold, found)
    for part in parts:
        new.add(part.count, part.checksum)
        rows, left = decided_independently(part, groups)
        files.add(rows)
        deferred.append(left)
    return groups, deferred


def _elsewhere(
    request: FoldRequest, found: Sequence[Task], work: "_Work", new: "_NewEvents", files: FoldFiles
) -> tuple[SettlementGroups, list[Deferred]]:
    """As `_here`, but the tasks run in other processes, and each writes its rows into files of its own."""
    whole = work.of(Task())
    groups, deferred = SettlementGroups.of(whole.pending, whole.events, whole.settled), []
    for done in request.tasks.run(partial(work.written, request.name, groups), found):
        new.add(done.count, done.checksum)
        files.take(done.written)
        deferred.append(done.left)
    return groups, deferred


def _live(request: FoldRequest, work: "_Work", fold: FoldInput, new: "_NewEvents") -> LiveRows:
    """The live rows of the fold before, after a check that they are all there and as that fold wrote them."""
    if request.previous is None:
        return LiveRows()
    files, joined = live_files(request.previous), joined_roots(fold)
    paths = files["uri"].to_list()
    if new.are_elsewhere:
        sums = request.tasks.run(partial(work.summed, paths, joined), new.tasks)
    else:
        sums = (summed(with_dirty(scan_live(paths), fold, joined, task)) for task in new.tasks)
    found = by_reuse(files, sums)
    if found.checksum != request.previous.live_seal:
        raise broken_fold(request.snapshot.store, request.previous.number)
    return found


@dataclass(frozen=True)
class _Done:
    """The result of a task of a fold.

    Args:
        count: of the events that the task read.
        checksum: of these events.
        left: rows that are to be decided together with those of other tasks.
    """

    count: int
    checksum: int
    written: Written
    left: Deferred


@dataclass(frozen=True)
class _Work:
    """The inputs that the tasks of a fold read, wherever the tasks run.

    Args:
        events: files of `events`.
        condition: a SQL condition on the rows of these files that no fold has seen.
        fold: the other inputs of the fold.
        live: files of live rows.
    """

    events: Sequence[str]
    condition: str
    fold: FoldInput
    live: Sequence[str] = ()

    def of(self, task: Task) -> FoldInput:
        """The inputs of the fold, from all files in which the task may have a share."""
        events, live = (
            scan([file for file in files if task.may_share(file_name(file))], columns_of(table))
            for files, table in ((self.events, EVENTS), (self.live, LEDGER))
        )
        return replace(self.fold, events=_of_roots(events, self.condition), live=live)

    def summed(self, live: Sequence[str], joined: pl.DataFrame, task: Task) -> pl.DataFrame:
        """The sums per file of a task's share of live rows, see `summed` in `files`."""
        mine = [file for file in live if task.may_share(file_name(file))]
        return summed(with_dirty(scan_live(mine), self.of(task), joined, task))

    def written(self, name: FoldName, groups: SettlementGroups, task: Task) -> _Done:
        """Decide a task's share, and write the rows that are decided alone into files of its own."""
        part = self.of(task).part(task)
        rows, left = decided_independently(part, groups)
        files = FoldFiles(name, prefix=task.prefix)
        files.add(rows)
        return _Done(part.count, part.checksum, files.written(), left)


class _NewEvents:
    """Events of the batches that no fold has seen, at the fixed version.

    Args:
        files: paths of the files that hold the events.
        condition: a SQL condition on the rows of the files that are these events.
        rows: the events, without those of kind `batch`, of which each batch has one.
        at_most: how many rows the files have.
        tasks: the tasks that share the events.
        are_elsewhere: whether these tasks run in other processes.
        count: number of events that were read.
    """

    def __init__(self, request: FoldRequest) -> None:
        self._request, self._table = request, request.snapshot.require(EVENTS)
        self.condition = unfolded(request.previous, request.logged)
        self.files = files_of(self._table, self.condition)
        rows = scan(self.files, columns_of(EVENTS))
        self._batches = collect(rows.filter(pl.sql_expr(self.condition)).filter(_IS_BATCH))
        self.at_most = int(collect(rows.select(pl.len())).item())
        self.tasks = request.tasks.among(self.at_most)
        self.are_elsewhere = request.tasks.are_elsewhere(self.tasks)
        of_roots = _of_roots(rows, self.condition)
        self.rows = collect(of_roots).lazy() if len(self.tasks) == 1 else of_roots
        self.count, self._checksum = 0, 0

    def add(self, count: int, checksum: int) -> None:
        """Count the events of a task's share after they were read."""
        self.count += count
        self._checksum ^= checksum

    def check(self) -> None:
        """Check all new events, after each task's share was read.

        Raises:
            StoreError: the events are not those that were logged. A wrong event could settle a root.
        """
        request, previous = self._request, self._request.previous
        folded = previous.logged if previous else {}
        logged = [
            (name, batch)
            for name, newest in request.logged.items()
            for batch in range(folded.get(name, 0) + 1, newest + 1)
        ]
        found = self._batches.select(pl.len(), pl.col("ack_val").bitwise_xor().fill_null(0)).row(0)
        if found != (len(logged), self._checksum):
            check_batches(self._table, self._batches, self.rows, logged)


_IS_BATCH = pl.col("kind").eq_missing(pl.lit(Kind.BATCH))


def _of_roots(events: pl.LazyFrame, condition: str) -> pl.LazyFrame:
    """The events for which a SQL condition holds, without those of kind `batch`, which belong to no root."""
    return events.filter(pl.sql_expr(condition)).filter(~_IS_BATCH)


def _waiting(snapshot: Snapshot, waiting: Mapping[str, Sequence[int]]) -> pl.LazyFrame:
    """Roots (`root_id`) of the tuples of some batches of some streams."""
    parts = [pl.LazyFrame(schema={"_root_id": pl.Int64})]
    for name, batches in waiting.items():
        parts.append(by_each_root(Rows.of(snapshot, name, batches).tuples(name)).select("_root_id"))
    return pl.concat(parts).select(pl.col("_root_id").alias("root_id")).drop_nulls()
