"""Histories that the acker must judge alike wherever it runs, and what they are made of.

A scenario is data, one step per fold, so the plain acker and the fold of frames take the very same input.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import reduce
from operator import xor

from acker.core.events import Event, Kind, LedgerRow
from acker.core.retry import ExponentialBackoff, FailedAttempt, RetryPolicy
from acker.core.store.ids import BUCKETS
from acker.core.timeouts import Timeouts
from tests.kit.oracle import Ledger, fold

START = datetime(2026, 1, 1, tzinfo=UTC)  # at the edge of a window of each length below
SOURCE = "source"
PARTITION = "0"
TIMEOUTS = Timeouts(timedelta(minutes=10), windows=1)  # what comes as a window begins has two: 20 minutes
RETRY = ExponentialBackoff(initial_seconds=60, limit=2)

# Ids of tuples, as well mixed as real ones.
A, B, C, D = 0x1D8A6F03C95B274E, -0x62C7F9E4158D3BA1, 0x7B30E5A2946FD81C, -0x09E65D3BF8A2C471
E, F, G, H = 0x35F1C8B7602E9DA4, -0x4AD2930EE7C6185F, 0x5C9407DA1BF3E268, -0x2E7BB185D4690C3D


@dataclass(frozen=True)
class Particular:
    """A retry policy that looks at the failure.

    What timed out waits twice as long. What is hopeless, or bad in `count`, is given up.
    """

    def delay_seconds(self, failure: FailedAttempt) -> float | None:
        """See `RetryPolicy`."""
        if failure.reason in ("hopeless", "bad row in count") or failure > 2:
            return None
        return 120.0 if failure.timed_out else 60.0


@dataclass(frozen=True)
class Step:
    """The input of one fold, and what the fold should make of it."""

    now: datetime
    events: tuple[Event, ...] = ()
    waiting: frozenset[int] = frozenset()
    held: tuple[tuple[int, str], ...] = ()  # root and rich bolt
    spouts: tuple[str, ...] = (SOURCE,)
    # (source_offset, attempt, state) of each row that the fold writes: those live after it, and those
    # that it settles. Random scenarios state nothing.
    rows: tuple[tuple[int, int, str], ...] = ()
    late: int = 0


@dataclass(frozen=True)
class Scenario:
    """A named scenario and the settings that it runs under."""

    name: str
    steps: tuple[Step, ...]
    timeouts: Timeouts = TIMEOUTS
    retry: RetryPolicy = RETRY


def ledgers(scenario: Scenario) -> list[Ledger]:
    """The oracle's ledger after each step."""
    found: list[Ledger] = []
    for step in scenario.steps:
        ledger = found[-1] if found else Ledger()
        found.append(fold_step(ledger, step, scenario.timeouts, scenario.retry))
    return found


def fold_step(ledger: Ledger, step: Step, timeouts: Timeouts, retry: RetryPolicy) -> Ledger:
    """The oracle's ledger after one more step."""
    return fold(
        ledger,
        step.events,
        now=step.now,
        timeouts=timeouts,
        retry=retry,
        waiting=step.waiting,
        held=step.held,
        spouts=step.spouts,
    )


def written(before: Ledger, after: Ledger) -> tuple[LedgerRow, ...]:
    """The rows of `after` that its newest fold wrote, in the oracle's order."""
    rows = after.live + after.settled[len(before.settled) :]
    return tuple(sorted(rows, key=lambda r: (r.message, r.attempt, r.root_id, r.state)))


def root(offset: int, attempt: int = 1) -> int:
    """The root id of one attempt in a named scenario."""
    return attempt * BUCKETS + offset


def init(offset: int, *emitted: int, attempt: int = 1, batch: int = 1, replaces: int | None = None) -> Event:
    """The spout emits a message as tuples with these ids."""
    return Event(
        root_id=root(offset, attempt),
        kind=Kind.INIT,
        ack_val=reduce(xor, emitted, 0),
        emitted=len(emitted),
        spout=SOURCE,
        source_partition=PARTITION,
        source_offset=offset,
        attempt=attempt,
        replaces=replaces,
        component=SOURCE,
        batch=batch,
    )


def ack(
    offset: int, consumed: Sequence[int], emitted: Sequence[int] = (), by: str = "words", attempt: int = 1
) -> Event:
    """A component consumes tuples of a message and emits others for it."""
    return Event(
        root_id=root(offset, attempt),
        kind=Kind.ACK,
        ack_val=reduce(xor, [*consumed, *emitted], 0),
        emitted=len(emitted),
        consumed=len(consumed),
        component=by,
        batch=1,
    )


def fail(
    offset: int, consumed: Sequence[int], reason: str = "bad row", by: str = "words", attempt: int = 1
) -> Event:
    """A component consumes tuples of a message and fails them."""
    return replace(ack(offset, consumed, by=by, attempt=attempt), kind=Kind.FAIL, reason=reason)


def reject(
    offset: int, consumed: Sequence[int], reason: str = "no number", by: str = "words", attempt: int = 1
) -> Event:
    """A component consumes tuples of a message and fails them for good."""
    return replace(fail(offset, consumed, reason, by, attempt), kind=Kind.REJECT)


def reset(offset: int, attempt: int = 1) -> Event:
    """A component asks for more time for a message."""
    return replace(ack(offset, [], attempt=attempt), kind=Kind.RESET)


def join(offset: int, other: int, by: str = "pair", attempt: int = 1, other_attempt: int = 1) -> Event:
    """A component emits a tuple that belongs to a message and to another with a smaller root."""
    joined = root(other, other_attempt)
    return replace(ack(offset, [], by=by, attempt=attempt), kind=Kind.JOIN, joined=joined)


def lost(offset: int, attempt: int = 1, reason: str = "offset out of range") -> Event:
    """The spout finds that its source no longer holds a message."""
    return replace(init(offset, attempt=attempt), kind=Kind.LOST, reason=reason)


def step(
    minutes: float,
    *events: Event,
    rows: Iterable[tuple[int, int, str]] = (),
    waiting: Iterable[int] = (),
    held: Iterable[tuple[int, str]] = (),
    spouts: tuple[str, ...] = (SOURCE,),
    late: int = 0,
) -> Step:
    """A fold, minutes after the start, of events that were logged just then."""
    now = START + timedelta(minutes=minutes)
    logged = tuple(replace(event, logged_at=now) for event in events)
    return Step(now, logged, frozenset(waiting), tuple(held), spouts, tuple(rows), late)
