"""The acker job: read at fixed versions, fold, and commit the whole result at once."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

import polars as pl
import pyarrow as pa

from acker.core.checksums import checksum_of_events, checksum_of_ledger
from acker.core.delta import append_rows, files_of
from acker.core.events import Kind
from acker.core.fold import FoldInput, ledger_rows
from acker.core.integrity import broken_fold, check_batches
from acker.core.ledger import APP, Fold, live_rows, read_fold, settled_rows, unfolded
from acker.core.parquet import collect, columns_of, scan
from acker.core.schemas import EVENTS, LEDGER, SCHEMAS
from acker.core.snapshot import Snapshot
from acker.core.streams import Rows, by_each_root
from acker.core.timeouts import Timeouts, Turn


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
    fold = FoldInput(
        live=_live(request.snapshot),
        settled=settled_rows(request.previous),
        events=events.lazy(),
        waiting=collect(waiting, request.snapshot.opened).lazy(),
        spouts=request.spouts,
        delays=request.delays,
        turn=request.turn,
        timeouts=request.timeouts,
        now=request.now,
    )
    number = pl.lit(request.number, pl.Int64)
    decided = ledger_rows(fold)
    rows = decided.select(
        pl.exclude("live"),
        pl.when("live").then(number).alias("live_in"),
        number.alias("fold"),
        pl.lit(request.events_version, pl.Int64).alias("events_version"),
        pl.lit(request.now).alias("folded_at"),
    )
    checksums = [
        decided.filter(live).select(checksum_of_ledger()).item() for live in (~pl.col("live"), pl.col("live"))
    ]
    own = _own_row(request, events.height, *checksums)
    both = pa.concat_tables([own, _arrow(rows)], promote_options="default")
    is_ours = append_rows(request.snapshot.require(LEDGER), both, APP, request.number)
    return read_fold(request.snapshot.store.require(LEDGER), request.number), is_ours


def _live(snapshot: Snapshot) -> pl.LazyFrame:
    """`live_rows`, which are all there and as the fold wrote them."""
    fold = snapshot.fold
    rows = collect(live_rows(fold))
    if fold is not None and rows.select(checksum_of_ledger()).item() != fold.live_seal:
        raise broken_fold(snapshot.store, fold.number)
    return rows.lazy()


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
    """Rows of the ledger as it has them, in the order of its columns."""
    columns = [field for field in SCHEMAS[LEDGER].arrow() if field.name in rows.columns]
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
    return own.append_column("logged", logged).select(SCHEMAS[LEDGER].arrow().names)
