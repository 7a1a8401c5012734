"""What fails, and why, without Spark: messages that are not through, or what failed in folds or batches."""

from dataclasses import dataclass

import polars as pl

from acker.batches.holds import Hold, newest_hold
from acker.core.events import State
from acker.core.messages import MESSAGE, MessageId, message_of
from acker.core.snapshot.journal import Journal
from acker.core.snapshot.ledger import current_rows, newest_of, unfolded
from acker.core.snapshot.snapshot import Snapshot
from acker.core.store.parquet import collect, columns_of, scan
from acker.core.store.schemas import EVENTS, LEDGER
from acker.core.store.tables import files_of, query

COMMONEST = 3
_FAILED = [State.RETRYING, State.DEAD_LETTER, State.LOST]
_SAMPLE = ", ".join(
    f"first_value({column} ORDER BY spout, source_partition, source_offset) AS {column}"
    for column in ("spout", "source_partition", "source_offset")
)


@dataclass(frozen=True)
class Failure:
    """Messages that failed in one component, for one reason, with one outcome.

    Args:
        component: that failed them, or of those that timed out the first rich bolt that held them back; None
            where no component did.
        reason: its first line.
        state: `retrying`, `dead_letter` or `lost`; `failed` of batches, which no fold has judged yet.
        count: of messages.
        sample: the message with the lowest position.
    """

    component: str | None
    reason: str
    state: str
    count: int
    sample: MessageId

    def __str__(self) -> str:
        return f"{self.count:,} × {self.reason} (such as {self.sample})"


@dataclass(frozen=True)
class Failures:
    """What fails.

    Args:
        commonest: the commonest first.
        kinds: how many there are, of which `commonest` has the first.
        count: messages of all kinds.
    """

    commonest: tuple[Failure, ...]
    kinds: int
    count: int


def failures(snapshot: Snapshot, limit: int) -> Failures:
    """The messages that failed and have not been acked since, by component, reason and state.

    Args:
        limit: at most so many kinds, 1 or more.

    Raises:
        StoreError: the ledger cannot be read.
    """
    fold = snapshot.fold
    failed = current_rows(fold).filter(pl.col("state").is_in(_FAILED))
    return _grouped(newest_of(fold, failed), limit)


def held_batches(journal: Journal) -> list[Hold]:
    """The batches whose bolts raise through no fault of a message, so that theirs wait."""
    holds = (newest_hold(journal, name) for name in journal.roles)
    return [hold for hold in holds if hold is not None]


def nothing_passed(snapshot: Snapshot, after: int) -> bool:
    """Whether first attempts failed in the folds after one, none of any was acked, and none is in flight."""
    fold = snapshot.fold
    if fold is None:
        return False
    (row,) = query(
        f"""SELECT count(*) FILTER (WHERE state IN ('acked', 'pending')) AS passed,
                count(*) FILTER (WHERE attempt = 1 AND state NOT IN ('acked', 'pending')) AS failed
            FROM ledger WHERE root_id IS NOT NULL AND state <> 'retrying'
            AND (live_in = {fold.number} OR (live_in IS NULL AND fold > {after}))""",
        ledger=fold.ledger,
    )
    return bool(row["failed"] and not row["passed"])


def commonest_failures(snapshot: Snapshot, after: int, upto: int, limit: int = COMMONEST) -> Failures:
    """The messages that failed in the folds (after, upto], by component, reason and outcome.

    Of a message the last attempt that failed there counts. Attempts that a later one superseded do not.

    Args:
        limit: at most so many kinds, 1 or more.

    Raises:
        StoreError: the ledger cannot be read.
    """
    if snapshot.fold is None:
        return Failures((), 0, 0)
    folds = f"live_in IS NULL AND fold > {after} AND fold <= {upto}"
    files = files_of(snapshot.fold.ledger, folds)
    mine = scan(files, columns_of(LEDGER)).filter(pl.sql_expr(folds))
    state, reason = pl.col("state"), pl.col("reason")
    given_up = mine.filter(state == State.DEAD_LETTER).select("root_id")
    superseded = reason.str.starts_with("superseded by attempt ")
    will_retry = (
        mine.filter(state.is_in([State.FAILED, State.TIMED_OUT]), ~superseded.fill_null(False))
        .join(given_up, on="root_id", how="anti")
        .with_columns(state=pl.lit(State.RETRYING.value))
    )
    attempts = pl.concat([mine.filter(state.is_in([State.DEAD_LETTER, State.LOST])), will_retry])
    return _grouped(attempts.sort("attempt", "fold").unique(MESSAGE, keep="last"), limit)


def failed_in_batches(journal: Journal, component: str, after: int, limit: int = COMMONEST) -> Failures:
    """The messages in flight that failed in a component's logged batches after one of them, by reason.

    Args:
        limit: at most so many kinds.

    Raises:
        StoreError: the events or the ledger cannot be read.
    """
    fold, upto = journal.fold, journal.logged(component)
    emitted = {name: journal.logged(name) for name, role in journal.roles.items() if role == "spout"}
    message = "root_id AS root, spout, source_partition, source_offset"
    found = query(
        f"""WITH live AS (
            SELECT {message} FROM ledger WHERE live_in = {fold.number if fold else 0} AND state = 'pending'
            UNION ALL SELECT {message} FROM events WHERE kind = 'init' AND ({unfolded(fold, emitted)})),
        failed AS (SELECT DISTINCT root_id, split_part(reason, chr(10), 1) AS reason FROM events
            WHERE kind IN ('fail', 'reject') AND component = '{component}'
            AND batch > {after} AND batch <= {upto})
        SELECT reason, {_SAMPLE}, count(*) AS n, count(*) OVER () AS kinds, sum(count(*)) OVER () AS total
        FROM failed JOIN live ON root_id = root
        GROUP BY reason ORDER BY n DESC, reason LIMIT {max(limit, 1)}""",
        events=journal.require(EVENTS),
        ledger=journal.require(LEDGER),
    )
    if not found:
        return Failures((), 0, 0)
    commonest = tuple(Failure(component, row["reason"], "failed", row["n"], message_of(row)) for row in found)
    return Failures(commonest[:limit], found[0]["kinds"], found[0]["total"])


def _grouped(failed: pl.LazyFrame, limit: int) -> Failures:
    """The kinds among rows of the ledger, each of another message."""
    kinds = ["component", "state", "reason"]
    first = pl.col("reason").str.extract(r"^([^\n]*)").fill_null("")
    samples = [pl.col(name).sort_by(MESSAGE).first() for name in MESSAGE]
    found = collect(
        failed.with_columns(reason=first)
        .group_by(kinds)
        .agg(*samples, n=pl.len())
        .sort("n", "component", "reason", "state", descending=[True, False, False, False], nulls_last=True)
    )
    commonest = tuple(
        Failure(row["component"], row["reason"], row["state"], row["n"], message_of(row))
        for row in found.head(limit).rows(named=True)
    )
    return Failures(commonest, found.height, int(found["n"].sum()))
