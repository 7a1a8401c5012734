"""Failures and their reasons, without Spark: of messages not yet acked, and of some folds or batches."""

from dataclasses import dataclass

import polars as pl

from acker.batches.holds import Hold, newest_hold
from acker.core.events import State
from acker.core.messages import MESSAGE, MessageId, message_of
from acker.core.snapshot import in_flight
from acker.core.snapshot.journal import Journal
from acker.core.snapshot.ledger import current_rows, newest_of
from acker.core.snapshot.settled import ended_in
from acker.core.snapshot.snapshot import Snapshot
from acker.core.store.parquet import collect

COMMONEST = 3
_FAILED = [State.RETRYING, State.DEAD_LETTER, State.LOST]


@dataclass(frozen=True)
class Failure:
    """Messages that failed in one component, for one reason, with one outcome.

    Args:
        component: the component that failed the messages. If they timed out, it is the first rich bolt that
            held them back. None where there is no such component.
        reason: the first line of the reason.
        state: `retrying`, `dead_letter` or `lost`; `failed` where the messages failed in some batches, and no
            fold has judged them yet.
        count: how many messages there are.
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
    """Kinds of failures, each of one component, reason and state.

    Args:
        commonest: some kinds, the commonest first.
        kinds: how many kinds there are, of which `commonest` has the first.
        count: how many messages all kinds have.
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
    """The holds of batches whose bolt raises through no fault of a message, so that their messages wait."""
    holds = (newest_hold(journal, name) for name in journal.roles)
    return [hold for hold in holds if hold is not None]


def commonest_failures(snapshot: Snapshot, after: int, upto: int, limit: int = COMMONEST) -> Failures:
    """The messages that failed in the folds (after, upto], by component, reason and outcome.

    Of a message the last attempt that failed in these folds counts. A superseded attempt does not count.

    Args:
        limit: at most so many kinds, 1 or more.

    Raises:
        StoreError: the ledger cannot be read.
    """
    if snapshot.fold is None:
        return Failures((), 0, 0)
    mine = ended_in(snapshot.fold.ledger, after, upto)
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
    spouts = [name for name, role in journal.roles.items() if role == "spout"]
    found = in_flight.failed_in_batches(journal, component, after, spouts, limit)
    if not found:
        return Failures((), 0, 0)
    commonest = tuple(Failure(component, row["reason"], "failed", row["n"], message_of(row)) for row in found)
    return Failures(commonest[:limit], found[0]["kinds"], found[0]["total"])


def _grouped(failed: pl.LazyFrame, limit: int) -> Failures:
    """The kinds of failures among rows of the ledger, each row of another message."""
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
