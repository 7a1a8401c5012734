"""The acker in plain Python: the readable truth that the fold is compared with.

Like Storm's `daemon/Acker.java` it adds up each root first and decides once, at the end. It departs from
Storm in asking whether a root failed before asking whether it is zero (Storm acks a root whose fail and
last ack come together), and in keeping a count beside the XOR, which two equal ids cannot balance.
Nothing here reads a clock, and the order in which a fold's events come makes no difference.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import reduce
from operator import xor
from typing import Any

from acker.core.events import LIVE, Event, Kind, LedgerRow, State
from acker.core.messages import MessageId
from acker.core.retry import FailedAttempt, RetryPolicy, delay_after
from acker.core.timeouts import Timeouts, Turn

_DESCRIPTION = ("source_offset", "attempt", "batch", "replaces", "emitted_at", "reason")


@dataclass(frozen=True)
class Ledger:
    """Everything that the folds so far have written."""

    fold: int = 0  # number of the newest fold
    turn: Turn | None = None
    live: tuple[LedgerRow, ...] = ()  # pending and retrying rows of the newest fold
    settled: tuple[LedgerRow, ...] = ()  # settled rows of every fold, oldest first
    late: int = 0  # events that the newest fold saw for roots that had settled


@dataclass
class _Root:
    """What one fold knows of one root: its pending row, if it has one, and its new events."""

    pending: LedgerRow | None = None
    events: list[Event] = field(default_factory=list)

    def of(self, *kinds: Kind) -> list[Event]:
        return [event for event in self.events if event.kind in kinds]

    def emissions(self) -> list[LedgerRow]:
        before = [self.pending] if self.pending else []
        return before + [_row(event) for event in self.of(Kind.INIT)]

    def arrivals(self) -> list[LedgerRow]:
        return [_row(event) for event in self.of(Kind.INIT) + self.of(Kind.LOST)]


def fold(
    ledger: Ledger,
    events: Iterable[Event],
    *,
    now: datetime,
    timeouts: Timeouts,
    retry: RetryPolicy,
    waiting: Collection[int] = (),
    held: Collection[tuple[int, str]] = (),
    spouts: Collection[str],
) -> Ledger:
    """Take in `events` and decide the state of every root that is live.

    Args:
        events: rows of `events` that no fold has seen.
        now: the fold's clock, UTC.
        waiting: ids of the roots of tuples that a bolt has yet to take.
        held: (root id, rich bolt) of tuples that a rich bolt holds back.
        spouts: names of the spouts that the topology has now.
    """
    turn = timeouts.turn(ledger.turn, now)
    roots = {row.root_id: _Root(row) for row in ledger.live if row.state == State.PENDING}
    for event in events:
        roots.setdefault(event.root_id, _Root()).events.append(event)
    in_flight = _newest(row for root in roots.values() for row in root.emissions())
    arrived = _newest(row for root in roots.values() for row in root.arrivals())

    rows = _still_retrying(ledger.live, arrived, spouts)
    late = 0
    attempts: dict[int, LedgerRow] = {}
    for root_id, root in roots.items():
        if root.emissions():
            attempt = _attempt(root, turn)
            newest = in_flight[attempt.message]
            holders = sorted({bolt for held_root, bolt in held if held_root == root_id})
            attempts[root_id] = _decide(attempt, root, newest, turn, timeouts, root_id in waiting, holders)
        elif root.of(Kind.LOST):
            rows.append(_first(root.arrivals()))
        else:
            late += len(root.events)
    joined, replacing = _joined(roots), _replaced_together(ledger.settled, rows, attempts)
    _settle_together(attempts, _connected([*joined, *replacing]))
    for attempt in attempts.values():
        rows.append(attempt)
        if attempt.state in (State.FAILED, State.TIMED_OUT) and attempt.attempt == in_flight[attempt.message]:
            rows.append(_next(attempt, retry, now, bool(roots[attempt.root_id].of(Kind.REJECT))))

    rows.sort(key=lambda row: (row.message, row.attempt, row.root_id, row.state))
    live = tuple(row for row in rows if row.state in LIVE)
    settled = tuple(replace(row, settled_at=now) for row in rows if row.state not in LIVE)
    return Ledger(ledger.fold + 1, turn, live, ledger.settled + settled, late)


def _attempt(root: _Root, turn: Turn) -> LedgerRow:
    """The root's pending row with its new events added up."""
    first = _first(root.emissions())
    balance, outstanding = (root.pending.ack_val, root.pending.outstanding) if root.pending else (0, 0)
    # Of all events these two alone start the time again, as in Storm's code, whatever its docs say.
    restarts = root.of(Kind.INIT) + root.of(Kind.RESET)
    return replace(
        first,
        ack_val=reduce(xor, (event.ack_val for event in root.events), balance),
        outstanding=outstanding + sum(event.emitted - event.consumed for event in root.events),
        turn=turn.number if restarts else first.turn,
    )


def _decide(
    attempt: LedgerRow,
    root: _Root,
    newest: int,
    turn: Turn,
    timeouts: Timeouts,
    waits: bool,
    holders: Sequence[str],
) -> LedgerRow:
    """The attempt in its new state. `newest` is the highest attempt of its message in flight."""
    if newest > attempt.attempt:
        return replace(attempt, state=State.FAILED, reason=f"superseded by attempt {newest}")
    fails = root.of(Kind.REJECT) or root.of(Kind.FAIL)
    if fails:
        fail = min(fails, key=lambda e: _nulls_first(e.logged_at, e.component, e.batch, e.reason))
        reason = f"for good: {fail.reason}" if fail.kind == Kind.REJECT else fail.reason
        return replace(attempt, state=State.FAILED, reason=reason, component=fail.component)
    # Two equal inits XOR to zero, which would ack a message that nobody processed.
    if len(root.emissions()) > 1:
        return replace(attempt, state=State.FAILED, reason="emitted twice")
    if attempt.ack_val == 0 and attempt.outstanding == 0:
        return replace(attempt, state=State.ACKED)
    assert attempt.turn is not None
    age = turn.number - attempt.turn
    expired = timeouts.turns is not None and age >= timeouts.turns and not waits
    if expired or (timeouts.hard_turns is not None and age >= timeouts.hard_turns):
        reason = f"not complete within {timeouts.message_timeout}"
        if holders:
            reason += f": neither acked nor failed by {', '.join(holders)}"
        return replace(attempt, state=State.TIMED_OUT, reason=reason, component=next(iter(holders), None))
    return attempt


def _joined(roots: Mapping[int, _Root]) -> Iterator[tuple[int, int]]:
    """Pairs of roots that share a tuple."""
    for root_id, root in roots.items():
        before = [root.pending.joined] if root.pending else []
        for other in before + [event.joined for event in root.of(Kind.JOIN)]:
            if other is not None:
                yield root_id, other


def _replaced_together(
    settled: Sequence[LedgerRow], others: Sequence[LedgerRow], attempts: dict[int, LedgerRow]
) -> Iterator[tuple[int, int]]:
    """Pairs of attempts that are to replace, by a replay, what was acked together.

    They share no tuple yet. As long as one of them is still to come the others are not complete, and fail
    where none will come.

    Args:
        others: rows of this fold of messages without an attempt in flight.
    """
    coming = {row.message for row in [*attempts.values(), *others] if row.state in LIVE}
    ended = [row for row in [*settled, *others] if row.state in (State.DEAD_LETTER, State.LOST)]
    newest = _newest(attempts.values())
    replacing = [row for row in attempts.values() if row.attempt == newest[row.message]]
    acked = [row for row in settled if row.state == State.ACKED and row.joined is not None]
    there = {row.replaces for row in replacing}
    for group in {row.joined for row in acked if row.root_id in there}:
        members = [row for row in acked if row.joined == group]
        missing = [row for row in members if row.root_id not in there]
        ends = [_end(row, ended) for row in missing if row.message not in coming]
        mine = [row for row in replacing if row.replaces in {member.root_id for member in members}]
        for attempt in mine:
            if any(ends) and attempt.state in (State.PENDING, State.ACKED):
                reason = f"to be replaced together with {min(filter(None, ends))}"
                attempt = replace(attempt, state=State.FAILED, reason=reason)
            elif missing and attempt.state == State.ACKED:
                attempt = replace(attempt, state=State.PENDING)
            attempts[attempt.root_id] = attempt
            yield mine[0].root_id, attempt.root_id


def _end(acked: LedgerRow, ended: Iterable[LedgerRow]) -> str | None:
    """How a message ended after an acked attempt; None where it did not."""
    later = [row for row in ended if row.message == acked.message and row.attempt > acked.attempt]
    last = max(later, key=lambda row: (row.attempt, row.state), default=None)
    return f"a message that is {last.state}\nThat is {last.message}." if last else None


def _connected(links: Iterable[tuple[int, int]]) -> list[set[int]]:
    """The groups of roots that are linked, over any number of links."""
    groups: dict[int, set[int]] = {}
    for root_id, other in links:
        both = groups.get(root_id, {root_id}) | groups.get(other, {other})
        groups |= dict.fromkeys(both, both)
    return list({id(group): group for group in groups.values()}.values())


def _settle_together(attempts: dict[int, LedgerRow], groups: Iterable[set[int]]) -> None:
    """Let each group be acked as a whole or fail as a whole; until then who is complete stays pending.

    Storm settles each root by itself; there a joined tuple of a message that failed is emitted again with
    its partner's replay or never. A root that is in flight no more cannot be acked with the others.
    """
    for group in groups:
        found = [attempts[root] for root in sorted(group) if root in attempts]
        fault = _first_fault(found, len(found) < len(group))
        complete = all(attempt.state == State.ACKED for attempt in found)
        for attempt in found:
            attempt = replace(attempt, joined=min(group))
            if attempt.state in (State.PENDING, State.ACKED) and fault:
                attempt = replace(attempt, state=State.FAILED, reason=fault[0], component=fault[1])
            elif attempt.state == State.ACKED and not complete:
                attempt = replace(attempt, state=State.PENDING)
            attempts[attempt.root_id] = attempt


def _first_fault(group: Iterable[LedgerRow], one_is_settled: bool) -> tuple[str, str | None] | None:
    """Why a group fails, and the component that failed it; None where nothing is wrong."""
    for attempt in group:
        if attempt.state not in (State.PENDING, State.ACKED):
            why = f"joined with a message that failed: {attempt.reason}\nThat is {attempt.message}."
            return why, attempt.component
    return ("joined with a message that has settled", None) if one_is_settled else None


def _next(failed: LedgerRow, retry: RetryPolicy, now: datetime, rejected: bool) -> LedgerRow:
    """What follows a failed attempt: the wait for the next one, or the end."""
    failure = FailedAttempt(
        failed.attempt,
        spout=failed.spout,
        component=failed.component,
        reason=failed.reason,
        timed_out=failed.state == State.TIMED_OUT,
    )
    delay = None if rejected else delay_after(retry, failure)
    if delay is None:
        return replace(failed, state=State.DEAD_LETTER)
    return replace(
        failed,
        state=State.RETRYING,
        attempt=failed.attempt + 1,
        joined=None,
        ack_val=0,
        outstanding=0,
        batch=None,
        turn=None,
        retry_at=now + timedelta(seconds=delay),
    )


def _still_retrying(
    live: Iterable[LedgerRow], arrived: dict[MessageId, int], spouts: Collection[str]
) -> list[LedgerRow]:
    """Rows of messages whose next attempt has not come; `lost` where no spout is left to emit it."""
    rows = [row for row in live if row.state == State.RETRYING and arrived.get(row.message, 0) < row.attempt]
    reason = "spout is no longer in the topology"
    return [
        row
        if row.spout in spouts
        else replace(row, state=State.LOST, reason=reason, component=None, retry_at=None)
        for row in rows
    ]


def _newest(rows: Iterable[LedgerRow]) -> dict[MessageId, int]:
    """Per message, its highest attempt."""
    return {row.message: row.attempt for row in sorted(rows, key=lambda row: row.attempt)}


def _row(event: Event) -> LedgerRow:
    """An init as a pending row, or a lost event as a settled one."""
    assert event.spout is not None and event.source_partition is not None
    assert event.source_offset is not None and event.attempt is not None
    lost = event.kind == Kind.LOST
    return LedgerRow(
        root_id=event.root_id,
        spout=event.spout,
        source_partition=event.source_partition,
        source_offset=event.source_offset,
        attempt=event.attempt,
        state=State.LOST if lost else State.PENDING,
        reason=event.reason if lost else None,
        batch=event.batch,
        replaces=event.replaces,
        emitted_at=None if lost else event.logged_at,
    )


def _first(rows: Sequence[LedgerRow]) -> LedgerRow:
    """A root that was emitted or lost twice is described by the lowest value of each field."""

    def lowest(name: str) -> Any:
        return min((value for row in rows if (value := getattr(row, name)) is not None), default=None)

    return replace(rows[0], **{name: lowest(name) for name in _DESCRIPTION})


def _nulls_first(*values: Any) -> list[tuple[bool, Any]]:
    """A sort key that orders None before everything else, as Spark does."""
    return [(value is not None, value) for value in values]
