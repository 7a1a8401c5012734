"""The acker job: read at fixed versions, fold, and commit the whole result at once."""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import reduce
from operator import xor

import polars as pl
import pyarrow as pa
from deltalake import CommitProperties, DeltaTable

from acker.core.checksums import checksum_of_ledger
from acker.core.commits import ROWS_OF_A_FILE, file_rows
from acker.core.delta import commit_once, files_of, path_of
from acker.core.events import Kind
from acker.core.fold import FoldInput, Part, folded, marked
from acker.core.ids import BUCKETS
from acker.core.integrity import broken_fold, check_batches
from acker.core.ledger import APP, Fold, read_fold, settled_rows, unfolded
from acker.core.live import LiveFile, LiveRows, divided, written
from acker.core.parquet import collect, columns_of, scan
from acker.core.schemas import EVENTS, LEDGER, SCHEMAS
from acker.core.snapshot import Snapshot
from acker.core.streams import Rows, by_each_root
from acker.core.timeouts import Timeouts, Turn

ROWS_AT_ONCE = 8_000_000

_LEDGER = SCHEMAS[LEDGER]
_SCHEMA = pa.schema(
    [field for field in _LEDGER.arrow() if field.name not in _LEDGER.partition_by]
)  # of files


@dataclass(frozen=True)
class FoldRequest:
    """What to fold, all of it fixed before anything is computed.

    Args:
        snapshot: of the store. Its fold is the one before; up to its version of `events` is folded.
        logged: component -> its newest batch logged at that version.
        waiting: stream -> batches of it that a bolt has yet to take.
        spouts: see `FoldInput`.
        delays: see `FoldInput`.
        rows_at_once: how many events and live rows are held in memory together; of more the messages are
            folded some after the other.
    """

    snapshot: Snapshot
    logged: Mapping[str, int]
    waiting: Mapping[str, Sequence[int]]
    spouts: Collection[str]
    delays: Sequence[float | None]
    timeouts: Timeouts
    now: datetime
    rows_at_once: int = ROWS_AT_ONCE

    @property
    def previous(self) -> Fold | None:
        """The fold before it, None before the first."""
        return self.snapshot.fold

    @property
    def events_version(self) -> int:
        """The version of `events` up to which it folds."""
        return self.snapshot.require(EVENTS).version()

    @property
    def number(self) -> int:
        """Of the fold to come."""
        return 1 if self.previous is None else self.previous.number + 1

    @property
    def turn(self) -> Turn:
        """Where the window stands in it."""
        return self.timeouts.turn(self.previous.turn if self.previous else None, self.now)

    def passes(self, rows: int) -> int:
        """In how many passes it reads so many rows."""
        return min(max(1, math.ceil(rows / self.rows_at_once)), BUCKETS)


def run_fold(request: FoldRequest) -> tuple[Fold, bool]:
    """Fold once.

    Returns:
        The row of the fold that has this number now, and whether it is ours and not a faster client's.

    Raises:
        StoreError: events or live rows could not be read, or the fold not be committed.
    """
    new = _NewEvents(request)
    without_live = FoldInput(
        live=pl.LazyFrame(schema=columns_of(LEDGER)),
        settled=settled_rows(request.previous),
        events=new.rows,
        waiting=collect(_waiting(request.snapshot, request.waiting).unique(), request.snapshot.opened).lazy(),
        spouts=request.spouts,
        delays=request.delays,
        turn=request.turn,
        timeouts=request.timeouts,
        now=request.now,
    )
    live = _live(request, without_live, request.passes(new.at_most))
    output = _Output(request, live.taken_over)
    fold, passes = replace(without_live, live=live.rows), request.passes(new.at_most + live.count)
    for rows in folded(fold, passes, new.add):
        output.add(rows)
    is_ours = output.commit(new.count)
    return read_fold(request.snapshot.store.require(LEDGER), request.number), is_ours


def _live(request: FoldRequest, fold: FoldInput, passes: int) -> LiveRows:
    """The live rows of the fold before, which are all there and as it wrote them."""
    found = divided(request.previous, lambda rows: marked(rows, fold, passes))
    if request.previous is not None and found.checksum != request.previous.live_seal:
        raise broken_fold(request.snapshot.store, request.previous.number)
    return found


class _Output:
    """The rows of a fold on their way into the files of one commit."""

    def __init__(self, request: FoldRequest, taken_over: Sequence[LiveFile]) -> None:
        self._request = request
        self._ledger = request.snapshot.require(LEDGER)
        self._actions = [each.taken_over(request.number) for each in taken_over]
        self._rows: dict[bool, list[pl.DataFrame]] = {True: [], False: []}  # live ones, settled ones
        self._checksums = {True: reduce(xor, (each.checksum for each in taken_over), 0), False: 0}

    def add(self, rows: pl.DataFrame) -> None:
        """Take in what `folded` gives. Rows that fill a file are written."""
        for is_live, waiting in self._rows.items():
            mine = rows.filter(pl.col("live") == is_live).drop("live")
            self._checksums[is_live] ^= int(collect(mine.lazy().select(checksum_of_ledger())).item())
            waiting.append(mine)
            if sum(each.height for each in waiting) >= ROWS_OF_A_FILE:
                self._write(self._parts(self._taken(is_live)), is_live)

    def commit(self, events: int) -> bool:
        """Commit the fold once; whether it is ours.

        Args:
            events: all that it read, the late ones included.
        """
        own = _fold_row(self._request, events, self._checksums[False], self._checksums[True])
        settled = pl.concat([own, self._of_fold(self._taken(False))], how="diagonal")
        (first,) = file_rows([settled], _SCHEMA)
        first = first.append_column("logged", _logged(self._request, first.num_rows))
        self._write([first], is_live=False)
        self._write(self._parts(self._taken(True)), is_live=True)

        def commit(table: DeltaTable | None, once: CommitProperties) -> None:
            assert table is not None
            partition_by = list(_LEDGER.partition_by)
            table.create_write_transaction(
                [*self._actions], "append", table.schema(), partition_by, commit_properties=once
            )

        return commit_once(self._ledger, {APP: self._request.number}, commit)

    def _taken(self, is_live: bool) -> pl.DataFrame:
        rows = pl.concat(self._rows[is_live])
        self._rows[is_live][:] = [rows.clear()]
        # What is emitted together mostly settles or times out together.
        return rows.sort("turn", "batch") if is_live and rows.height > ROWS_OF_A_FILE else rows

    def _parts(self, rows: pl.DataFrame) -> list[pa.Table]:
        """Rows of the ledger as its files have them."""
        return file_rows(map(self._of_fold, rows.iter_slices(ROWS_OF_A_FILE)), _SCHEMA)

    def _of_fold(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Rows with what is the same in all of them."""
        return rows.with_columns(
            fold=pl.lit(self._request.number, pl.Int64),
            events_version=pl.lit(self._request.events_version, pl.Int64),
            folded_at=pl.lit(self._request.now),
        )

    def _write(self, parts: Sequence[pa.Table], is_live: bool) -> None:
        self._actions += written(path_of(self._ledger), self._request.number, parts, is_live)


class _NewEvents:
    """Events of the batches that no fold has seen, at the fixed version.

    Args:
        rows: without the batches' own.
        at_most: how many rows their files have.
        count: of those that were read.
    """

    def __init__(self, request: FoldRequest) -> None:
        new = unfolded(request.previous, request.logged)
        self._request, self._table = request, request.snapshot.require(EVENTS)
        files = scan(files_of(self._table, new), columns_of(EVENTS))
        rows, is_batch = files.filter(pl.sql_expr(new)), pl.col("kind").eq_missing(pl.lit(Kind.BATCH))
        self._batches, self.rows = collect(rows.filter(is_batch)), rows.filter(~is_batch)
        self.at_most = int(collect(files.select(pl.len())).item())
        if self.at_most <= request.rows_at_once:
            self.rows = collect(self.rows).lazy()
        self.count, self._checksum = 0, 0

    def add(self, part: Part) -> None:
        """Take note of a part of them that was read, and check all when it is the last.

        Raises:
            StoreError: they are not those that were logged. One could settle what it knows nothing of.
        """
        self.count += part.count
        self._checksum ^= part.checksum
        if part.is_last:
            self._check()

    def _check(self) -> None:
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


def _waiting(snapshot: Snapshot, waiting: Mapping[str, Sequence[int]]) -> pl.LazyFrame:
    """Roots (`root_id`) of the tuples of some batches of some streams."""
    parts = [pl.LazyFrame(schema={"_root_id": pl.Int64})]
    for name, batches in waiting.items():
        parts.append(by_each_root(Rows.of(snapshot, name, batches).tuples(name)).select("_root_id"))
    return pl.concat(parts).select(pl.col("_root_id").alias("root_id")).drop_nulls()


def _fold_row(request: FoldRequest, events: int, settled: int, live: int) -> pl.DataFrame:
    """The fold's row of itself, but for `logged`.

    Args:
        events: all that it read, the late ones included.
        settled: the checksum of the rows that it settled.
        live: the checksum of its live rows.
    """
    row = {
        "fold": request.number,
        "events_version": request.events_version,
        "turn": request.turn.number,
        "window": request.turn.window,
        "events": events,
        "ack_val": settled,
        "outstanding": live,
        "folded_at": request.now,
    }
    return pl.DataFrame([row], columns_of(LEDGER))


def _logged(request: FoldRequest, rows: int) -> pa.ChunkedArray:
    """The column `logged` of so many rows, of which the first is the fold's own."""
    # Polars has no type for a map, and PyArrow imports pandas for Python's values: twice the time of a fold.
    ends, names, newest = (
        pl.Series(list(values), dtype=kind).to_arrow()
        for values, kind in (
            ((0, len(request.logged)), pl.Int32()),
            (request.logged.keys(), pl.String()),
            (request.logged.values(), pl.Int64()),
        )
    )
    own = pa.MapArray.from_arrays(ends, names.cast(pa.string()), newest)
    return pa.chunked_array([own, pa.nulls(rows - 1, own.type)])
