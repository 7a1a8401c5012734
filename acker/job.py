"""The acker job: read at fixed versions, fold, and commit the whole result at once."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

import polars as pl
import pyarrow as pa

from acker.errors import StoreError
from acker.events import Kind
from acker.fold import FoldInput, ledger_rows
from acker.frames import Rows, by_each_root, collect, columns_of, scan
from acker.ledger import APP, Fold, read_fold, unfolded
from acker.schemas import EVENTS, LEDGER, SCHEMAS, of_stream
from acker.tables import Store, append_rows
from acker.timeouts import Timeouts, Turn


@dataclass(frozen=True)
class FoldRequest:
    """What to fold, all of it fixed before anything is computed.

    Args:
        previous: the newest fold, None before the first.
        events_version: of the events table, up to which to fold.
        logged: component -> its newest batch logged at that version.
        waiting: stream -> batches of it that a bolt has yet to take.
        spouts: see `FoldInput`.
        delays: see `FoldInput`.
    """

    previous: Fold | None
    events_version: int
    logged: Mapping[str, int]
    waiting: Mapping[str, Sequence[int]]
    spouts: Collection[str]
    delays: Sequence[float | None]
    timeouts: Timeouts
    now: datetime

    @property
    def number(self) -> int:
        """Of the fold to come."""
        return 1 if self.previous is None else self.previous.number + 1

    @property
    def turn(self) -> Turn:
        """Where the window stands in it."""
        return self.timeouts.turn(self.previous.turn if self.previous else None, self.now)


def run_fold(store: Store, request: FoldRequest) -> tuple[Fold, bool]:
    """Fold once.

    Returns:
        The row of the fold that has this number now, and whether it is ours and not a faster client's.

    Raises:
        StoreError: events or live rows could not be read, or the fold not be committed.
    """
    events = collect(_new_events(store, request))
    _refuse_damaged(store, request, events)
    fold = FoldInput(
        live=live_rows(store, request.previous),
        settled=settled_rows(store, request.previous),
        events=events.lazy(),
        waiting=_waiting(store, request.waiting),
        spouts=request.spouts,
        delays=request.delays,
        turn=request.turn,
        timeouts=request.timeouts,
        now=request.now,
    )
    number = pl.lit(request.number, pl.Int64)
    rows = ledger_rows(fold).select(
        pl.exclude("live"),
        pl.when("live").then(number).alias("live_in"),
        number.alias("fold"),
        pl.lit(request.events_version, pl.Int64).alias("events_version"),
        pl.lit(request.now).alias("folded_at"),
    )
    # Polars has no type for `logged`, a map, which the fold's own row alone has.
    schema = SCHEMAS[LEDGER].arrow()
    columns = [field for field in schema if field.name in rows.columns]
    of_roots = rows.select([field.name for field in columns]).to_arrow().cast(pa.schema(columns))
    own = pa.Table.from_pylist([_own_row(request, events.height)], schema)
    both = pa.concat_tables([own, of_roots], promote_options="default")
    is_ours = append_rows(store.require(LEDGER), both, APP, request.number)
    return read_fold(store.require(LEDGER), request.number), is_ours


def live_rows(store: Store, fold: Fold | None) -> pl.LazyFrame:
    """Pending and retrying rows of a fold, at the version at which the fold was found."""
    if fold is None:
        return scan([], columns_of(LEDGER))
    table = store.require(LEDGER, fold.ledger_version)
    return scan(table.file_uris(file_pruning_predicate=f"live_in = {fold.number}"), columns_of(LEDGER))


def settled_rows(store: Store, fold: Fold | None) -> pl.LazyFrame:
    """Settled rows of all folds up to one, at the version at which it was found."""
    if fold is None:
        return scan([], columns_of(LEDGER))
    table = store.require(LEDGER, fold.ledger_version)
    files = table.file_uris(file_pruning_predicate="live_in IS NULL")
    return scan(files, columns_of(LEDGER)).filter(
        pl.col("live_in").is_null() & (pl.col("fold") <= fold.number)
    )


def _new_events(store: Store, request: FoldRequest) -> pl.LazyFrame:
    """Events of the batches that no fold has seen, at the fixed version."""
    new = unfolded(request.previous, request.logged)
    table = store.require(EVENTS, request.events_version)
    files = table.file_uris(file_pruning_predicate=new)
    return scan(files, columns_of(EVENTS)).filter(pl.sql_expr(new))


def _refuse_damaged(store: Store, request: FoldRequest, events: pl.DataFrame) -> None:
    """Stop at events that no component logs: one of them could settle what it knows nothing of.

    Raises:
        StoreError: with one of them.
    """
    kind = pl.col("kind")
    columns = ["ack_val", "emitted", "consumed", "component", "batch"]
    whole = pl.all_horizontal(pl.col("root_id", *columns).is_not_null()) & kind.is_in(list(Kind))
    counted = (pl.col("emitted") >= 0) & (pl.col("consumed") >= 0)
    message = pl.all_horizontal(pl.col("spout", "source_partition", "source_offset").is_not_null())
    # An attempt that no plan and no live row knows would have no delay.
    described = message & pl.col("attempt").is_between(1, len(request.delays)).fill_null(False)
    start = kind.is_in([Kind.INIT, Kind.LOST])
    joined = (kind != Kind.JOIN) | pl.col("joined").is_not_null()
    damaged = events.filter(~(whole & counted & (~start | described) & joined).fill_null(False))
    if damaged.height:
        row = {name: value for name, value in damaged.row(0, named=True).items() if value is not None}
        raise StoreError(
            f"{store.path(EVENTS)} has {damaged.height:,} rows that no component logs, such as {row}. "
            "They were written by hand; delete them and fold again."
        )


def _waiting(store: Store, waiting: Mapping[str, Sequence[int]]) -> pl.LazyFrame:
    """Roots (`root_id`) of the tuples of some batches of some streams."""
    parts = [pl.LazyFrame(schema={"_root_id": pl.Int64})]
    for name, batches in waiting.items():
        rows = Rows.of(store, name, batches)
        mine = pl.sql_expr(f"_kind IS NULL AND {of_stream(name, rows.columns)} AND {rows.where}")
        parts.append(by_each_root(scan(rows.files, rows.columns).filter(mine)).select("_root_id"))
    return pl.concat(parts).select(pl.col("_root_id").alias("root_id")).drop_nulls()


def _own_row(request: FoldRequest, events: int) -> dict[str, object]:
    """The fold's row of itself. Its `events` are all that it read, the late ones included."""
    return {
        "fold": request.number,
        "events_version": request.events_version,
        "turn": request.turn.number,
        "window": request.turn.window,
        "logged": list(request.logged.items()),
        "events": events,
        "folded_at": request.now,
    }
