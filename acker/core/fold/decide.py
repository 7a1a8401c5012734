"""One fold: from the live rows and the new events to the ledger's next rows. Polars frames in and out.

Nothing here reads a clock or a table, so the same inputs give the same rows. `tests/kit/oracle.py` does the
same in plain Python.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import polars as pl

from acker.core.events import FAILURES, Kind, State
from acker.core.fold.settlement_groups import SettlementGroups
from acker.core.messages import MESSAGE
from acker.core.retry import FailedAttempt, RetryPolicy, delay_after, looked_at
from acker.core.snapshot.holders import with_holders
from acker.core.store.checksums import share_of_checksum
from acker.core.store.ids import Task, tasks
from acker.core.store.parquet import collect, columns_of
from acker.core.store.schemas import LEDGER
from acker.core.timeouts import Timeouts, Turn

FOR_GOOD = "for good: "  # begins the reason of what no further attempt can help
TWICE = "emitted twice"
SPOUT_GONE = "spout is no longer in the topology"

_MICROSECOND = timedelta(microseconds=1)
_TYPES = columns_of(LEDGER)

# Columns of the ledger that the event has which emits the root. All later rows of the attempt carry them on.
# An attempt that is to be emitted again has the next number and no batch.
# What a row of the ledger has else is decided in `_decided` and what it calls; `_followers` and
# `_still_retrying` make the rows of attempts that are to come.
_EMISSION = (*MESSAGE, "attempt", "batch", "replaces")


def timeout_reason(timeout: timedelta | None) -> str:
    """The reason of an attempt that was not complete in time."""
    return f"not complete within {timeout}"


@dataclass(frozen=True)
class FoldInput:
    """The inputs of one fold, at fixed versions of the tables.

    Args:
        live: pending and retrying rows of the newest fold (`ledger`).
        settled: settled rows of all folds; read only where a replay is to replace acked attempts.
        events: rows of `events` that no fold has seen.
        waiting: column `root_id`, the roots of tuples that a bolt has yet to take, each once.
        held: roots of tuples that bolts hold back, see `holders`; read only where a root times out.
        spouts: names of the spouts that the topology has now.
        retry: the policy that says when a message is tried again.
    """

    live: pl.LazyFrame
    settled: pl.LazyFrame
    events: pl.LazyFrame
    waiting: pl.LazyFrame
    held: pl.LazyFrame
    spouts: Collection[str]
    retry: RetryPolicy
    turn: Turn
    timeouts: Timeouts
    now: datetime

    def part(self, task: Task) -> "Part":
        """A task's share of the inputs, with its live rows and events in memory."""
        rows, is_ack = task.share(self.events), pl.col("kind").eq_missing(pl.lit(Kind.ACK))
        outstanding = (pl.col("emitted") - pl.col("consumed")).alias("outstanding")
        moved = rows.filter(is_ack).with_columns(
            kind=pl.lit(Kind.ACK)
        )  # which the share is then not to look up
        acks = collect(moved.select("root_id", "ack_val", outstanding, share=share_of_checksum()))
        others = collect(rows.filter(~is_ack).with_columns(share=share_of_checksum()))
        shares = pl.concat([acks["share"], others["share"]])
        read = {
            "live": collect(task.share(self.live)).lazy(),
            "events": others.drop("share").lazy(),
            "acks": acks.drop("share").lazy(),
            "waiting": task.share(self.waiting),
            "count": len(shares),
            "checksum": shares.bitwise_xor() or 0,
        }
        return Part(**(vars(self) | read))

    @property
    def pending(self) -> pl.LazyFrame:
        """The roots in flight."""
        return self.live.filter(pl.col("state") == State.PENDING)

    @property
    def inits(self) -> pl.LazyFrame:
        """The new events that emit a root."""
        return self.events.filter(pl.col("kind") == Kind.INIT)

    @property
    def losses(self) -> pl.LazyFrame:
        """The new events that report a message as lost instead of emitting a root."""
        return self.events.filter(pl.col("kind") == Kind.LOST)


@dataclass(frozen=True)
class Part(FoldInput):
    """One task's share of the inputs of a fold.

    Most events are acks, of which only three numbers count. So acks are apart from the other events, which
    `events` has.

    Args:
        acks: columns root_id, ack_val and outstanding.
        count: number of acks and other events.
        checksum: of acks and other events, see `checksum_of_events`.
    """

    acks: pl.LazyFrame
    count: int
    checksum: int


@dataclass(frozen=True)
class Deferred:
    """The rows of a part that are to be decided together with rows of other parts.

    Args:
        roots: rows of roots, as each was decided alone.
        others: rows of messages without an attempt in flight.
    """

    roots: pl.DataFrame
    others: pl.DataFrame


def folded(fold: FoldInput, number: int = 1) -> Iterator[pl.DataFrame]:
    """The rows that a fold adds to the ledger, one share of the messages after the other.

    The fold's own row and the rows of refusals are not among them. The columns are those of `ledger` that a
    fold decides, and `live` (bool), which tells which rows live on.

    Args:
        number: how many tasks share the fold.
    """
    groups, parts = with_groups(fold, tasks(number))
    deferred = []
    for part in parts:
        rows, left = decided_independently(part, groups)
        deferred.append(left)
        yield rows
    yield from decided_in_groups(fold, groups, deferred)


def with_groups(fold: FoldInput, found: Sequence[Task]) -> tuple[SettlementGroups, Iterable[Part]]:
    """The messages that a fold decides together, and the part of each task, read when it is asked for."""
    whole = fold.part(found[0]) if len(found) == 1 else None
    first = whole or fold
    groups = SettlementGroups.of(first.pending, first.events, fold.settled)
    return groups, map(fold.part, found) if whole is None else [whole]


def decided_independently(part: Part, groups: SettlementGroups) -> tuple[pl.DataFrame, Deferred]:
    """The ledger's rows for a part's messages that are decided alone, as `folded` has them, and the rest."""
    others = _still_retrying(part)
    linked, alone = groups.split(_decided(part))
    return _rows(alone, others, part), Deferred(linked, groups.split(others)[0])


def decided_in_groups(
    fold: FoldInput, groups: SettlementGroups, deferred: Sequence[Deferred]
) -> Iterator[pl.DataFrame]:
    """The rows of messages that are decided together, as `folded` has them.

    Args:
        deferred: the rest of each part, from `decided_independently`.
    """
    if not groups.is_empty:
        roots = pl.concat([each.roots for each in deferred])
        others = pl.concat([each.others for each in deferred])
        yield _rows(groups.decided(roots, others), others.clear(), fold)


def _rows(decided: pl.DataFrame, others: pl.DataFrame, fold: FoldInput) -> pl.DataFrame:
    found = decided.lazy()
    parts = [_settled_or_pending(found, fold), _followers(found, fold), others.lazy()]
    typed = [
        part.cast({name: _TYPES[name] for name in part.collect_schema() if name in _TYPES}) for part in parts
    ]
    return collect(pl.concat(typed, how="diagonal"))


def joined_roots(fold: FoldInput) -> pl.DataFrame:
    """The roots that new `join` events name in the column `joined`, each once, as `root_id`.

    Such a root is the smallest root of a joined tuple. The events of all tasks' shares are read.
    """
    return collect(fold.events.select(root_id="joined").drop_nulls().unique())


def with_dirty(live: pl.LazyFrame, fold: FoldInput, joined: pl.DataFrame, task: Task) -> pl.LazyFrame:
    """A task's share of live rows, with `dirty`: whether the fold may change the row.

    A row that is not dirty stays as it is, so a file of such rows is reused. The rows of messages that settle
    together are dirty in each fold.

    Args:
        joined: see `joined_roots`.
    """
    return _with_dirty(task.share(live), fold.part(task), joined.lazy())


def _with_dirty(live: pl.LazyFrame, fold: Part, joined: pl.LazyFrame) -> pl.LazyFrame:
    roots = pl.concat([fold.events.select("root_id"), fold.acks.select("root_id"), joined])
    arrived = pl.concat([fold.inits, fold.losses]).select(MESSAGE).unique()
    rows = _joined(live, _told(roots.drop_nulls().unique(), "has_events"), ["root_id"])
    rows = _joined(rows, _told(arrived, "has_arrived"), MESSAGE)
    rows = _joined(rows, _told(fold.waiting, "waits"), ["root_id"])
    is_pending, is_gone = pl.col("state") == State.PENDING, ~pl.col("spout").is_in(list(fold.spouts))
    dirty = (
        pl.any_horizontal(pl.col("has_events", "has_arrived", "joined", "replaces").is_not_null())
        | (is_pending & _expired(fold))
        | (~is_pending & is_gone)
    )
    return rows.with_columns(dirty=dirty.fill_null(False))


def _joined(rows: pl.LazyFrame, told: pl.LazyFrame, on: Sequence[str]) -> pl.LazyFrame:
    """`rows` with the further columns of `told`, by the columns `on`; null where `told` has no such row.

    If `told` is empty, the columns are null in all rows, and the rows are not joined.
    """
    found = collect(told)
    if found.is_empty():
        return rows.with_columns(
            pl.lit(None, kind).alias(name) for name, kind in found.schema.items() if name not in on
        )
    return rows.join(found.lazy(), on=on, how="left")


def _told(rows: pl.LazyFrame, name: str) -> pl.LazyFrame:
    """Rows of a fold's input, with a column of the given name that is true."""
    return rows.with_columns(pl.lit(True).alias(name))


def _decided(fold: Part) -> pl.DataFrame:
    """One row per root that was emitted or lost, with its `state`, `superseded` and `rejected` (bool)."""
    roots = _joined(_balances(fold), _successors(fold), MESSAGE)
    roots = _joined(roots, _reports(fold), ["root_id"])
    roots = _joined(roots, _told(fold.waiting, "waits"), ["root_id"])
    is_lost = pl.col("inits") == 0
    roots = roots.with_columns(
        superseded=(pl.col("successor") > pl.col("attempt")).fill_null(False), expired=_expired(fold)
    ).with_columns(
        state=pl.when(is_lost)
        .then(pl.lit(State.LOST))
        .when(pl.col("superseded") | (pl.col("fails") > 0) | (pl.col("inits") > 1))
        .then(pl.lit(State.FAILED))
        .when((pl.col("ack_val") == 0) & (pl.col("outstanding") == 0))
        .then(pl.lit(State.ACKED))
        .when("expired")
        .then(pl.lit(State.TIMED_OUT))
        .otherwise(pl.lit(State.PENDING))
    )
    reason = (
        pl.when(is_lost)
        .then("lost_reason")
        .when("superseded")
        .then(pl.format("superseded by attempt {}", "successor"))
        .when(pl.col("fails") > 0)
        .then("fail_reason")
        .when(pl.col("inits") > 1)
        .then(pl.lit(TWICE))
        .when(pl.col("state") == State.TIMED_OUT)
        .then(pl.lit(timeout_reason(fold.timeouts.message_timeout)))
    )
    failed = (pl.col("state") == State.FAILED) & ~pl.col("superseded")
    rows = roots.select(
        "root_id",
        *_EMISSION,
        "state",
        *(pl.when(is_lost).then(0).otherwise(name).alias(name) for name in ("ack_val", "outstanding")),
        reason.alias("reason"),
        pl.when(failed).then("fail_component").alias("component"),
        pl.when(~is_lost).then("turn").alias("turn"),
        pl.lit(None, pl.Int64).alias("joined"),
        "emitted_at",
        "superseded",
        "rejected",
        "events",
    )
    return with_holders(collect(rows), fold.held)


def _balances(fold: Part) -> pl.LazyFrame:
    """Per root that was emitted or lost: sums and counts of its events, and its message."""
    kind = pl.col("kind")
    columns = ["root_id", "kind", "ack_val", "outstanding", "turn", "events", "emitted_at", *_EMISSION]
    starts = kind.is_in([Kind.INIT, Kind.RESET])  # of all events these alone start the time again
    pending = fold.pending.with_columns(kind=pl.lit(Kind.INIT), events=pl.lit(0, pl.Int64))
    events = fold.events.with_columns(
        outstanding=pl.col("emitted") - pl.col("consumed"),
        turn=pl.when(starts).then(pl.lit(fold.turn.number, pl.Int64)),
        events=pl.lit(1, pl.Int64),
        emitted_at=pl.when(kind == Kind.INIT).then("logged_at"),
    )
    rows = collect(pl.concat([pending.select(columns), events.select(columns)]))
    told = (
        rows.lazy()
        .with_row_index("row")
        .select(
            pl.exclude("kind", "row", *_EMISSION),
            inits=kind == Kind.INIT,
            fails=kind.is_in(FAILURES),
            rejected=kind == Kind.REJECT,
            row=pl.when(kind.is_in([Kind.INIT, Kind.LOST])).then("row"),
        )
    )
    acks = fold.acks.with_columns(events=pl.lit(1, pl.Int64))
    sums = (
        pl.concat([told, acks], how="diagonal")
        .group_by("root_id")
        .agg(
            pl.col("ack_val").bitwise_xor(),
            pl.col("outstanding", "events", "inits", "fails").sum(),
            pl.col("rejected").any(),
            pl.col("turn").max(),
            pl.col("emitted_at").min(),
            pl.col("row").min(),
        )
        .filter(pl.col("row").is_not_null())  # the others are late
    )
    found = collect(sums)
    # A root that was emitted twice has described itself twice, and alike but for the time.
    described = collect(rows.lazy().select(pl.col(_EMISSION).gather(pl.lit(found["row"]))))
    return pl.concat([found, described], how="horizontal").lazy()


def _reports(fold: FoldInput) -> pl.LazyFrame:
    """Per root that failed or was lost: the component and the reason of its failure, or why it was lost.

    Of several failures the first counts. A failure for good counts before all others.
    """
    order = ["last", "logged_at", "component", "batch", "reason"]
    fails = (
        fold.events.filter(pl.col("kind").is_in(FAILURES))
        .with_columns(last=pl.col("kind") == Kind.FAIL)
        .sort(order)
        .group_by("root_id")
        .agg(
            pl.col("last").first(),
            fail_component=pl.col("component").first(),
            reason=pl.col("reason").first(),
        )
        .select(
            "root_id",
            "fail_component",
            fail_reason=pl.when("last").then("reason").otherwise(pl.format(FOR_GOOD + "{}", "reason")),
        )
    )
    losses = fold.losses.group_by("root_id").agg(pl.col("reason").min().alias("lost_reason"))
    return fails.join(losses, on="root_id", how="full", coalesce=True)


def _successors(fold: FoldInput) -> pl.LazyFrame:
    """Per message that was emitted more than once, its highest attempt in flight."""
    both = pl.concat([fold.pending.select(*MESSAGE, "attempt"), fold.inits.select(*MESSAGE, "attempt")])
    later = both.filter(pl.col("attempt") > 1)
    return later.group_by(MESSAGE).agg(pl.col("attempt").max().alias("successor"))


def _expired(fold: FoldInput) -> pl.Expr:
    """Whether a root is older than the hard timeout, or than the timeout while none of its tuples waits."""
    turns, hard_turns = fold.timeouts.turns, fold.timeouts.hard_turns
    age = fold.turn.number - pl.col("turn")
    expired = pl.lit(False) if turns is None else (age >= turns) & pl.col("waits").is_null()
    return expired if hard_turns is None else expired | (age >= hard_turns)


def _settled_or_pending(decided: pl.LazyFrame, fold: FoldInput) -> pl.LazyFrame:
    """Each decided row as it goes into the ledger."""
    live = pl.col("state") == State.PENDING
    return decided.select(
        pl.exclude("superseded", "rejected"),
        pl.when(~live).then(fold.now).alias("settled_at"),
        live.alias("live"),
    )


def _followers(decided: pl.LazyFrame, fold: FoldInput) -> pl.LazyFrame:
    """The row that follows each attempt that failed or timed out, unless the attempt was superseded.

    The row is `retrying` if there is a delay for it, else `dead_letter`. An attempt that was failed for good
    is not tried again.
    """
    is_failed = pl.col("state").is_in([State.FAILED, State.TIMED_OUT]) & ~pl.col("superseded")
    failed = _delayed(collect(decided.filter(is_failed)), fold.retry).lazy()
    again = pl.col("delay").is_not_null() & ~pl.col("rejected")
    return failed.with_columns(
        (pl.col("attempt") + again.cast(pl.Int32)).alias("attempt"),
        pl.when(again).then(pl.lit(State.RETRYING)).otherwise(pl.lit(State.DEAD_LETTER)).alias("state"),
        *(pl.when(again).then(0).otherwise(name).alias(name) for name in ("ack_val", "outstanding")),
        *(pl.when(~again).then(name).alias(name) for name in ("batch", "turn", "joined")),
        pl.when(again).then(pl.lit(fold.now) + pl.duration(microseconds="delay")).alias("retry_at"),
        pl.when(~again).then(fold.now).alias("settled_at"),
        pl.lit(0).alias("events"),
        again.alias("live"),
    ).drop("superseded", "rejected", "delay")


def _delayed(failed: pl.DataFrame, retry: RetryPolicy) -> pl.DataFrame:
    """Failed attempts with their `delay` in microseconds, null where the message is given up.

    The policy is asked once for all attempts that have the same values in the columns that it looks at.
    """
    alike = list(looked_at(retry))
    groups = failed.filter(~pl.col("rejected")).select(alike).unique()
    delays = (delay_after(retry, FailedAttempt.of(row)) for row in groups.iter_rows(named=True))
    micros = (None if delay is None else timedelta(seconds=delay) // _MICROSECOND for delay in delays)
    asked = groups.with_columns(pl.Series("delay", micros, pl.Int64))
    return failed.join(asked, on=alike, how="left", nulls_equal=True)


def _still_retrying(fold: FoldInput) -> pl.DataFrame:
    """Messages that go on waiting for their next attempt, and those whose spout is gone, as `lost`."""
    arrived = (
        pl.concat([fold.inits, fold.losses])
        .filter(pl.col("attempt") > 1)
        .group_by(MESSAGE)
        .agg(pl.col("attempt").max().alias("arrived"))
    )
    waiting = _joined(fold.live.filter(pl.col("state") == State.RETRYING), arrived, MESSAGE)
    gone = ~pl.col("spout").is_in(list(fold.spouts))
    rows = waiting.filter((pl.col("arrived") < pl.col("attempt")).fill_null(True)).select(
        "root_id",
        *_EMISSION,
        pl.when(gone).then(pl.lit(State.LOST)).otherwise("state").alias("state"),
        "ack_val",
        "outstanding",
        pl.when(gone).then(pl.lit(SPOUT_GONE)).otherwise("reason").alias("reason"),
        pl.when(~gone).then("component").alias("component"),
        "turn",
        "emitted_at",
        pl.when(~gone).then("retry_at").alias("retry_at"),
        pl.when(gone).then(fold.now).alias("settled_at"),
        pl.lit(0).alias("events"),
        (~gone).alias("live"),
    )
    return collect(rows)
