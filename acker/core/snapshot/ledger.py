"""The ledger as clients read it: the newest fold, its live rows, and the rows of each message."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from datetime import datetime
from typing import Any

import polars as pl
from deltalake import DeltaTable

from acker.core.errors import StoreError
from acker.core.events import State
from acker.core.messages import MESSAGE
from acker.core.store.parquet import collect, columns_of, scan
from acker.core.store.schemas import LEDGER
from acker.core.store.store import Store
from acker.core.store.tables import RECOVERY_HINT, files_of, last_number, path_of, query
from acker.core.timeouts import Turn

APP = "fold"
REFUSALS_READ = "(refusals)"  # among the components of `logged`, none of which has such a name

# The ledger now: the newest fold's live rows and every settled row. In both dialects, Spark's and
# DataFusion's; {fold} is the number of the newest fold.
NOW = "root_id IS NOT NULL AND (live_in IS NULL OR live_in = {fold})"


@dataclass(frozen=True)
class Fold:
    """The row that each fold writes of itself.

    Args:
        ledger: the ledger at a version that holds the fold. The fold's live rows are read from it: a later
            version may have dropped them.
    """

    number: int
    events_version: int  # of the events table that it folded up to
    turn: Turn
    logged: dict[str, int]  # component -> the newest batch whose events it folded
    refusals: int = 0  # the newest commit of `refusals` that it has read
    events: int = 0  # rows of events that it read
    folded_at: datetime | None = None
    ledger: DeltaTable = field(kw_only=True, compare=False, repr=False)
    live_seal: int = field(default=0, compare=False)  # of its live rows, see `checksums`

    def as_dict(self) -> dict[str, Any]:
        """The values of the fold's row, and `ledger_version`, a version of the ledger that holds the fold."""
        own = {each.name: getattr(self, each.name) for each in fields(self) if each.name != "ledger"}
        return {**own, "turn": asdict(self.turn), "ledger_version": self.ledger.version()}


def newest_fold(store: Store) -> Fold | None:
    """The newest fold of a store, or None before the first; see `newest_in`."""
    return newest_in(store.open(LEDGER))


def newest_in(ledger: DeltaTable | None) -> Fold | None:
    """The newest fold in a ledger, or None before the first.

    Raises:
        StoreError: the ledger names a newest fold whose row is not there.
    """
    number = last_number(ledger, APP)
    return None if ledger is None or number == 0 else read_fold(ledger, number)


def live_rows(fold: Fold | None) -> pl.LazyFrame:
    """Pending and retrying rows of a fold."""
    if fold is None:
        return scan([], columns_of(LEDGER))
    files = files_of(fold.ledger, f"live_in = {fold.number}")
    return scan(files, columns_of(LEDGER))


def settled_rows(fold: Fold | None) -> pl.LazyFrame:
    """Settled rows of all folds up to one."""
    return scan([], columns_of(LEDGER)) if fold is None else settled_in(fold.ledger, fold.number)


def settled_in(ledger: DeltaTable, upto: int) -> pl.LazyFrame:
    """Settled rows of all folds up to one. The ledger may hold later folds."""
    files = files_of(ledger, "live_in IS NULL")
    return scan(files, columns_of(LEDGER)).filter(pl.col("live_in").is_null() & (pl.col("fold") <= upto))


def current_rows(fold: Fold | None) -> pl.LazyFrame:
    """The live and settled rows of messages as of a fold, without rows of failed and timed-out attempts."""
    rows = pl.concat([live_rows(fold), settled_rows(fold)])
    of_attempts = pl.col("state").is_in([State.FAILED, State.TIMED_OUT])
    return rows.filter(pl.col("root_id").is_not_null(), ~of_attempts)


def newest_of(fold: Fold | None, rows: pl.LazyFrame) -> pl.LazyFrame:
    """Those of some current rows of a fold that are the newest rows of their message.

    A message that has a single attempt has a single row, unless a table refused it after the ack. Then it has
    an acked row and a row `dead_letter`. So only messages that were emitted again or given up are compared.

    Args:
        fold: the fold as of which a row is the newest one.
        rows: rows among the fold's `current_rows`.
    """
    current = current_rows(fold).select(*MESSAGE, "attempt", "fold", "state")
    several = pl.col("attempt") > 1
    if fold is not None and fold.refusals:
        several |= pl.col("state") == State.DEAD_LETTER
    emitted_again = collect(current.filter(several).select(*MESSAGE).unique())
    if emitted_again.is_empty():
        return rows
    again = emitted_again.lazy()
    attempt, number = pl.col("attempt"), pl.col("fold")
    last = (
        current.join(again, on=MESSAGE, how="semi")
        .group_by(MESSAGE)
        .agg(attempt.max(), number.filter(attempt == attempt.max()).max())
    )
    once = rows.join(again, on=MESSAGE, how="anti")
    return pl.concat([once, rows.join(last, on=[*MESSAGE, "attempt", "fold"], how="semi")])


def read_fold(table: DeltaTable, number: int) -> Fold:
    """The row that one fold has written of itself.

    Raises:
        StoreError: the ledger has no such row, or several.
    """
    columns = 'fold, events_version, turn, "window", logged, events, folded_at, outstanding'
    rows = query(
        f"SELECT {columns} FROM ledger WHERE fold = {number} AND live_in IS NULL AND root_id IS NULL",
        ledger=table,
    )
    if len(rows) != 1:
        raise StoreError(
            f"The ledger {table.table_uri} has {len(rows)} rows for its newest fold, {number}, instead of "
            "one. It was restored or edited by hand; restore it to a version that holds the fold. "
            f"{RECOVERY_HINT}",
            table=path_of(table),
        )
    return _fold(rows[0], table)


def refusals_read(logged: Mapping[str, int]) -> int:
    """The newest commit of `refusals` that a fold has read, by the column `logged` of its row."""
    return logged.get(REFUSALS_READ, 0)


def _fold(row: dict[str, Any], ledger: DeltaTable) -> Fold:
    logged = dict(row["logged"])
    return Fold(
        number=row["fold"],
        events_version=row["events_version"],
        turn=Turn(row["turn"], row["window"]),
        logged={name: batch for name, batch in logged.items() if name != REFUSALS_READ},
        refusals=refusals_read(logged),
        events=row["events"],
        folded_at=row["folded_at"],
        ledger=ledger,
        live_seal=row["outstanding"] or 0,
    )


def unfolded(fold: Fold | None, logged: Mapping[str, int]) -> str:
    """A SQL condition on the events that a fold has not seen, by which files are skipped.

    The events are found by component and batch, and not by the change data feed, which reads every commit's
    files on top of the log.

    Args:
        fold: None before the first.
        logged: component -> its newest batch to look at.
    """
    folded = fold.logged if fold else {}
    ranges = [
        f"(component = '{name}' AND batch > {folded.get(name, 0)} AND batch <= {newest})"
        for name, newest in logged.items()
        if newest > folded.get(name, 0)
    ]
    return " OR ".join(ranges) or "false"


def fold_counts(fold: Fold) -> dict[str, int]:
    """State -> the number of rows that the fold settled or left live, and `late`, the number of late events.

    Late events found no live root and no init. They are those events that the fold read and that went into
    none of its rows.
    """
    rows = query(
        f"SELECT state, count(*) AS n, sum(events) FILTER (WHERE fold = {fold.number}) AS events FROM ledger "
        f"WHERE (live_in = {fold.number} OR (live_in IS NULL AND fold = {fold.number})) "
        "AND root_id IS NOT NULL GROUP BY state ORDER BY state",
        ledger=fold.ledger,
    )
    counts = {row["state"]: row["n"] for row in rows}
    return {**counts, "late": fold.events - sum(row["events"] or 0 for row in rows)}


@dataclass(frozen=True)
class Live:
    """How many messages are not settled as of a fold."""

    pending: int = 0
    retrying: int = 0
    due: int = 0  # of the retrying ones, those whose next attempt is due


def live_counts(fold: Fold, now: datetime) -> Live:
    """Count the live rows of a fold. No other rows are read."""
    (row,) = query(
        f"""SELECT count(*) FILTER (WHERE state = 'pending') AS pending,
            count(*) FILTER (WHERE state = 'retrying') AS retrying,
            count(*) FILTER (WHERE state = 'retrying'
                AND retry_at <= to_timestamp('{now.isoformat()}')) AS due
            FROM ledger WHERE live_in = {fold.number}""",
        ledger=fold.ledger,
    )
    return Live(**row)
