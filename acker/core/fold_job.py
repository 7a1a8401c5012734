"""The acker job: read at fixed versions, fold, and commit the whole result at once."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import reduce
from operator import xor

import polars as pl
import pyarrow as pa
from deltalake import CommitProperties, DeltaTable

from acker.core.checksums import checksum_of_events, checksum_of_ledger
from acker.core.delta import commit_once, files_of, path_of
from acker.core.events import Kind
from acker.core.fold import FoldInput, ledger_rows, marked
from acker.core.integrity import broken_fold, check_batches
from acker.core.ledger import APP, Fold, read_fold, settled_rows, unfolded
from acker.core.live import PARTITION, ROWS_OF_A_FILE, LiveFile, LiveRows, divided, written
from acker.core.parquet import collect, columns_of, scan
from acker.core.schemas import EVENTS, LEDGER, SCHEMAS
from acker.core.snapshot import Snapshot
from acker.core.streams import Rows, by_each_root
from acker.core.timeouts import Timeouts, Turn

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
    """

    snapshot: Snapshot
    logged: Mapping[str, int]
    waiting: Mapping[str, Sequence[int]]
    spouts: Collection[str]
    delays: Sequence[float | None]
    timeouts: Timeouts
    now: datetime

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


def run_fold(request: FoldRequest) -> tuple[Fold, bool]:
    """Fold once.

    Returns:
        The row of the fold that has this number now, and whether it is ours and not a faster client's.

    Raises:
        StoreError: events or live rows could not be read, or the fold not be committed.
    """
    events = _new_events(request)
    waiting = _waiting(request.snapshot, request.waiting).unique()
    without_live = FoldInput(
        live=pl.LazyFrame(schema=columns_of(LEDGER)),
        settled=settled_rows(request.previous),
        events=events.lazy(),
        waiting=collect(waiting, request.snapshot.opened).lazy(),
        spouts=request.spouts,
        delays=request.delays,
        turn=request.turn,
        timeouts=request.timeouts,
        now=request.now,
    )
    live = _live(request, without_live)
    number = pl.lit(request.number, pl.Int64)
    decided = ledger_rows(replace(without_live, live=live.rows.lazy()))
    rows = decided.select(
        pl.exclude("live"),
        pl.when("live").then(number).alias("live_in"),
        number.alias("fold"),
        pl.lit(request.events_version, pl.Int64).alias("events_version"),
        pl.lit(request.now).alias("folded_at"),
    )
    settled, alive = (rows.filter(pl.col(PARTITION).is_not_null() == is_live) for is_live in (False, True))
    kept = reduce(xor, (each.checksum for each in live.taken_over), 0)
    own = _own_row(request, events.height, _checksum(settled), kept ^ _checksum(alive))
    is_ours = _commit(request, live.taken_over, own, settled, alive)
    return read_fold(request.snapshot.store.require(LEDGER), request.number), is_ours


def _live(request: FoldRequest, fold: FoldInput) -> LiveRows:
    """The live rows of the fold before, which are all there and as it wrote them."""
    found = divided(request.previous, lambda rows: marked(rows, fold))
    if request.previous is not None and found.checksum != request.previous.live_seal:
        raise broken_fold(request.snapshot.store, request.previous.number)
    return found


def _checksum(rows: pl.DataFrame) -> int:
    return int(rows.select(checksum_of_ledger()).item())


def _commit(
    request: FoldRequest,
    taken_over: Sequence[LiveFile],
    own: pa.Table,
    settled: pl.DataFrame,
    alive: pl.DataFrame,
) -> bool:
    """Commit a fold once; whether it is ours.

    Args:
        own: its own row.
    """
    ledger = request.snapshot.require(LEDGER)
    path, number = path_of(ledger), request.number
    both = pa.concat_tables([own, _arrow(settled)], promote_options="default")
    # What is emitted together mostly settles or times out together.
    ordered = alive.sort("turn", "batch") if alive.height > ROWS_OF_A_FILE else alive
    actions = [
        *(each.taken_over(number) for each in taken_over),
        *written(path, number, both, is_live=False),
        *written(path, number, _arrow(ordered), is_live=True),
    ]

    def commit(table: DeltaTable | None, once: CommitProperties) -> None:
        assert table is not None
        partition_by = list(_LEDGER.partition_by)
        table.create_write_transaction(
            [*actions], "append", table.schema(), partition_by, commit_properties=once
        )

    return commit_once(ledger, {APP: number}, commit)


def _new_events(request: FoldRequest) -> pl.DataFrame:
    """Events of the batches that no fold has seen, at the fixed version, without the batches' own.

    Raises:
        StoreError: they are not those that were logged. One of them could settle what it knows nothing of.
    """
    new = unfolded(request.previous, request.logged)
    table = request.snapshot.require(EVENTS)
    rows = scan(files_of(table, new), columns_of(EVENTS)).filter(pl.sql_expr(new))
    is_batch = pl.col("kind").eq_missing(pl.lit(Kind.BATCH))
    batches, events = collect(rows.filter(is_batch)), collect(rows.filter(~is_batch))
    folded = request.previous.logged if request.previous else {}
    logged = [
        (name, batch) for name, n in request.logged.items() for batch in range(folded.get(name, 0) + 1, n + 1)
    ]
    found = batches.select(pl.len(), pl.col("ack_val").bitwise_xor().fill_null(0)).row(0)
    if found != (len(logged), events.select(checksum_of_events()).item()):
        check_batches(table, batches, events.lazy(), logged)
    return events


def _waiting(snapshot: Snapshot, waiting: Mapping[str, Sequence[int]]) -> pl.LazyFrame:
    """Roots (`root_id`) of the tuples of some batches of some streams."""
    parts = [pl.LazyFrame(schema={"_root_id": pl.Int64})]
    for name, batches in waiting.items():
        parts.append(by_each_root(Rows.of(snapshot, name, batches).tuples(name)).select("_root_id"))
    return pl.concat(parts).select(pl.col("_root_id").alias("root_id")).drop_nulls()


def _arrow(rows: pl.DataFrame) -> pa.Table:
    """Rows of the ledger as its files have them, in the order of its columns."""
    columns = [field for field in _SCHEMA if field.name in rows.columns]
    return rows.select([field.name for field in columns]).to_arrow().cast(pa.schema(columns))


def _own_row(request: FoldRequest, events: int, settled: int, live: int) -> pa.Table:
    """The fold's row of itself.

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
    own = _arrow(pl.DataFrame([row], columns_of(LEDGER)))
    # Polars has no type for a map, and PyArrow imports pandas for Python's values: twice the time of a fold.
    ends, names, newest = (
        pl.Series(list(values), dtype=kind).to_arrow()
        for values, kind in (
            ((0, len(request.logged)), pl.Int32()),
            (request.logged.keys(), pl.String()),
            (request.logged.values(), pl.Int64()),
        )
    )
    logged = pa.MapArray.from_arrays(ends, names.cast(pa.string()), newest)
    return own.append_column("logged", logged).select(_SCHEMA.names)
