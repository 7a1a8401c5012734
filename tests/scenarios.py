"""Histories that the acker must judge alike wherever it runs: small named ones, and seeded random ones.

A history is data, one step per fold, so the plain acker and the fold of frames take the very same input.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import reduce
from itertools import accumulate
from operator import xor
from random import Random

from hypothesis import settings
from hypothesis import strategies as st

from acker.events import Event, Kind, LedgerRow, State
from acker.oracle import Ledger, fold
from acker.retry import ExponentialBackoff
from acker.timeouts import Timeouts

settings.register_profile("any machine", deadline=None)  # a slow machine breaks no property
settings.load_profile("any machine")

START = datetime(2026, 1, 1, tzinfo=UTC)  # at the edge of a window of each length below
SOURCE = "source"
PARTITION = "0"
TIMEOUTS = Timeouts(timedelta(minutes=10), windows=1)  # what comes as a window begins has two: 20 minutes
RETRY = ExponentialBackoff(initial_seconds=60, limit=2)

# Ids of tuples, as well mixed as real ones.
A, B, C, D = 0x1D8A6F03C95B274E, -0x62C7F9E4158D3BA1, 0x7B30E5A2946FD81C, -0x09E65D3BF8A2C471
E, F, G, H = 0x35F1C8B7602E9DA4, -0x4AD2930EE7C6185F, 0x5C9407DA1BF3E268, -0x2E7BB185D4690C3D


@dataclass(frozen=True)
class Step:
    """The input of one fold, and what the fold should make of it."""

    now: datetime
    events: tuple[Event, ...] = ()
    waiting: frozenset[int] = frozenset()
    spouts: tuple[str, ...] = (SOURCE,)
    # (source_offset, attempt, state) of each row that the fold writes: those live after it, and those
    # that it settles. Random histories state nothing.
    rows: tuple[tuple[int, int, str], ...] = ()
    late: int = 0


@dataclass(frozen=True)
class Scenario:
    """A named history and the settings that it runs under."""

    name: str
    steps: tuple[Step, ...]
    timeouts: Timeouts = TIMEOUTS
    retry: ExponentialBackoff = RETRY


def ledgers(scenario: Scenario) -> list[Ledger]:
    """The oracle's ledger after each step."""
    found: list[Ledger] = []
    for step in scenario.steps:
        ledger = found[-1] if found else Ledger()
        found.append(fold_step(ledger, step, scenario.timeouts, scenario.retry))
    return found


def fold_step(ledger: Ledger, step: Step, timeouts: Timeouts, retry: ExponentialBackoff) -> Ledger:
    """The oracle's ledger after one more step."""
    return fold(
        ledger,
        step.events,
        now=step.now,
        timeouts=timeouts,
        retry=retry,
        waiting=step.waiting,
        spouts=step.spouts,
    )


def written(before: Ledger, after: Ledger) -> tuple[LedgerRow, ...]:
    """The rows of `after` that its newest fold wrote, in the oracle's order."""
    rows = after.live + after.settled[len(before.settled) :]
    return tuple(sorted(rows, key=lambda r: (*r.message, r.attempt, r.root_id, r.state)))


def root(offset: int, attempt: int = 1) -> int:
    """The root id of one attempt in a named scenario."""
    return offset * 100 + attempt


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
    spouts: tuple[str, ...] = (SOURCE,),
    late: int = 0,
) -> Step:
    """A fold, minutes after the start, of events that were logged just then."""
    now = START + timedelta(minutes=minutes)
    logged = tuple(replace(event, logged_at=now) for event in events)
    return Step(now, logged, frozenset(waiting), spouts, tuple(rows), late)


SCENARIOS = (
    Scenario(
        "a message whose tuple is consumed is acked",
        (
            step(0, init(1, A), rows=[(1, 1, "pending")]),
            step(1, ack(1, [A]), rows=[(1, 1, "acked")]),
        ),
    ),
    Scenario(
        "a message that nobody reads is acked at once",
        (step(0, init(1), rows=[(1, 1, "acked")]),),
    ),
    Scenario(
        "a branching tree is acked with its last leaf",
        (
            step(0, init(1, A), ack(1, [A], [B, C, D], by="split"), rows=[(1, 1, "pending")]),
            step(1, ack(1, [B, C], [E], by="words"), rows=[(1, 1, "pending")]),
            step(2, ack(1, [D]), ack(1, [E], by="count"), rows=[(1, 1, "acked")]),
        ),
    ),
    Scenario(
        "an aggregate of four holds the first message until the second has come",
        (
            step(
                0,
                init(1, A, B),
                ack(1, [A], [C], by="left"),
                ack(1, [B], [D], by="right"),
                rows=[(1, 1, "pending")],
            ),
            step(
                1,
                init(2, E, F),
                ack(2, [E], [G], by="left"),
                ack(2, [F], [H], by="right"),
                ack(1, [C, D], by="four"),
                ack(2, [G, H], by="four"),
                rows=[(1, 1, "acked"), (2, 1, "acked")],
            ),
        ),
    ),
    Scenario(
        "a tuple anchored to two messages belongs to both trees",
        (
            step(
                0,
                init(1, A),
                init(2, B),
                ack(1, [A], [C], by="pair"),
                ack(2, [B], [C], by="pair"),
                rows=[(1, 1, "pending"), (2, 1, "pending")],
            ),
            step(1, ack(1, [C]), ack(2, [C]), rows=[(1, 1, "acked"), (2, 1, "acked")]),
        ),
    ),
    Scenario(
        "messages that are joined are acked together, when the last of them is complete",
        (
            step(
                0,
                init(1, A, D),
                init(2, B),
                ack(1, [A], [C], by="pair"),
                ack(2, [B], [C], by="pair"),
                join(2, 1),
                rows=[(1, 1, "pending"), (2, 1, "pending")],
            ),
            step(1, ack(1, [C]), ack(2, [C]), rows=[(1, 1, "pending"), (2, 1, "pending")]),
            step(2, ack(1, [D], by="other"), rows=[(1, 1, "acked"), (2, 1, "acked")]),
        ),
    ),
    Scenario(
        "of messages that are joined in a chain one failure fails all",
        (
            step(
                0,
                *(init(n, [A, B, C, D][n]) for n in range(4)),
                join(2, 1),
                rows=[(n, 1, "pending") for n in range(4)],
            ),
            step(
                1,
                join(3, 2),
                *(ack(n, [[A, B, C, D][n]]) for n in range(3)),
                fail(3, [D]),
                rows=[(0, 1, "acked")]
                + [(n, n_th, state) for n in (1, 2, 3) for n_th, state in ((1, "failed"), (2, "retrying"))],
            ),
        ),
    ),
    Scenario(
        "a message that is joined with one that has settled fails",
        (
            step(
                0,
                init(1, A),
                fail(1, [A]),
                init(2, B),
                rows=[(1, 1, "failed"), (1, 2, "retrying"), (2, 1, "pending")],
            ),
            step(1, join(2, 1), ack(2, [B]), rows=[(1, 2, "retrying"), (2, 1, "failed"), (2, 2, "retrying")]),
        ),
    ),
    Scenario(
        "a message whose partner times out is tried again with it",
        (
            step(0, init(1, A), rows=[(1, 1, "pending")]),
            step(10, init(2, B), join(2, 1), ack(2, [B]), rows=[(1, 1, "pending"), (2, 1, "pending")]),
            step(
                20,
                rows=[(1, 1, "timed_out"), (1, 2, "retrying"), (2, 1, "failed"), (2, 2, "retrying")],
            ),
        ),
    ),
    Scenario(
        "the same anchor twice is one edge of the tree",
        (
            step(0, init(1, A, B), ack(1, [A, B], [C], by="pair"), rows=[(1, 1, "pending")]),
            step(1, ack(1, [C]), rows=[(1, 1, "acked")]),
        ),
    ),
    Scenario(
        "an ack may come before its init within a fold",
        (step(0, ack(1, [A]), init(1, A), rows=[(1, 1, "acked")]),),
    ),
    Scenario(
        "a fail wins over a zero in the same fold",
        (step(0, init(1, A), fail(1, [A]), rows=[(1, 1, "failed"), (1, 2, "retrying")]),),
    ),
    Scenario(
        "a fail of one leaf fails the tree, and the other leaf's ack is late",
        (
            step(0, init(1, A, B), rows=[(1, 1, "pending")]),
            step(1, fail(1, [A]), rows=[(1, 1, "failed"), (1, 2, "retrying")]),
            step(2, ack(1, [B]), rows=[(1, 2, "retrying")], late=1),
        ),
    ),
    Scenario(
        "two identical inits cancel and are still no ack",
        (step(0, init(1, A), init(1, A), rows=[(1, 1, "failed"), (1, 2, "retrying")]),),
    ),
    Scenario(
        "a second init fails a pending root, although all is consumed",
        (
            step(0, init(1, A), rows=[(1, 1, "pending")]),
            step(
                1,
                init(1, A, batch=2),
                ack(1, [A]),
                ack(1, [A]),
                rows=[(1, 1, "failed"), (1, 2, "retrying")],
            ),
        ),
    ),
    Scenario(
        "a tuple that is acked twice never completes and times out",
        (
            step(0, init(1, A), ack(1, [A]), ack(1, [A]), rows=[(1, 1, "pending")]),
            step(10, rows=[(1, 1, "pending")]),
            step(20, rows=[(1, 1, "timed_out"), (1, 2, "retrying")]),
        ),
    ),
    Scenario(
        "two equal ids make a zero that the count does not believe",
        (
            step(0, init(1, A), rows=[(1, 1, "pending")]),
            step(1, ack(1, [A], [B, B]), rows=[(1, 1, "pending")]),
            step(2, ack(1, [B, B]), rows=[(1, 1, "acked")]),
        ),
    ),
    Scenario(
        "a count of nothing outstanding is no ack while the XOR differs",
        (step(0, init(1, A), ack(1, [B]), rows=[(1, 1, "pending")]),),
    ),
    Scenario(
        "late acks and fails of a settled root are counted and change nothing",
        (
            step(0, init(1, A), ack(1, [A]), rows=[(1, 1, "acked")]),
            step(1, fail(1, [A]), ack(1, [A]), ack(2, [B]), rows=[], late=3),
        ),
    ),
    Scenario(
        "a late success of a timed out attempt does not ack its message",
        (
            step(0, init(1, A), rows=[(1, 1, "pending")]),
            step(10, rows=[(1, 1, "pending")]),
            step(20, rows=[(1, 1, "timed_out"), (1, 2, "retrying")]),
            step(30, ack(1, [A]), rows=[(1, 2, "retrying")], late=1),
        ),
    ),
    Scenario(
        "of three messages the second is not acked, and times out past ten minutes",
        (
            step(0, init(1, A), init(2, B), init(3, C), rows=[(n, 1, "pending") for n in (1, 2, 3)]),
            step(2, rows=[(1, 1, "pending"), (2, 1, "pending"), (3, 1, "pending")]),
            step(5, ack(1, [A]), rows=[(1, 1, "acked"), (2, 1, "pending"), (3, 1, "pending")]),
            step(7, rows=[(2, 1, "pending"), (3, 1, "pending")]),
            step(9, ack(3, [C]), rows=[(2, 1, "pending"), (3, 1, "acked")]),
            step(10, rows=[(2, 1, "pending")]),
            step(12, rows=[(2, 1, "timed_out"), (2, 2, "retrying")]),
        ),
        timeouts=Timeouts(timedelta(minutes=10), windows=5),
    ),
    Scenario(
        "the last moment of a window is still the window",
        (
            step(0, init(1, A), rows=[(1, 1, "pending")]),
            step(10, rows=[(1, 1, "pending")]),
            step(19.999, rows=[(1, 1, "pending")]),
            step(20, rows=[(1, 1, "timed_out"), (1, 2, "retrying")]),
        ),
    ),
    Scenario(
        "an ack in the fold that would time its root out still counts",
        (
            step(0, init(1, A), rows=[(1, 1, "pending")]),
            step(10, rows=[(1, 1, "pending")]),
            step(20, ack(1, [A]), rows=[(1, 1, "acked")]),
        ),
    ),
    Scenario(
        "a root that is reset survives twice its timeout",
        (
            step(0, init(1, A), init(2, B), rows=[(1, 1, "pending"), (2, 1, "pending")]),
            step(10, reset(1), rows=[(1, 1, "pending"), (2, 1, "pending")]),
            step(20, rows=[(1, 1, "pending"), (2, 1, "timed_out"), (2, 2, "retrying")]),
            step(30, rows=[(1, 1, "timed_out"), (1, 2, "retrying"), (2, 2, "retrying")]),
        ),
    ),
    Scenario(
        "an ack does not start the time again",
        (
            step(0, init(1, A), rows=[(1, 1, "pending")]),
            step(10, ack(1, [A], [B]), rows=[(1, 1, "pending")]),
            step(20, rows=[(1, 1, "timed_out"), (1, 2, "retrying")]),
        ),
    ),
    Scenario(
        "with timeouts off a root stays pending for ever",
        (
            step(0, init(1, A), rows=[(1, 1, "pending")]),
            step(10, rows=[(1, 1, "pending")]),
            step(1_000_000, rows=[(1, 1, "pending")]),
            step(1_000_001, ack(1, [A]), rows=[(1, 1, "acked")]),
        ),
        timeouts=Timeouts(None),
    ),
    Scenario(
        "an outage of three timeouts is one turn of the window",
        (
            step(0, init(1, A), rows=[(1, 1, "pending")]),
            step(30, rows=[(1, 1, "pending")]),
            step(40, rows=[(1, 1, "timed_out"), (1, 2, "retrying")]),
        ),
    ),
    Scenario(
        "a clock that was set back makes nobody older",
        (
            step(0, init(1, A), rows=[(1, 1, "pending")]),
            step(10, rows=[(1, 1, "pending")]),
            step(-30, rows=[(1, 1, "pending")]),
            step(-40, rows=[(1, 1, "pending")]),
            step(-20, rows=[(1, 1, "timed_out"), (1, 2, "retrying")]),
        ),
    ),
    Scenario(
        "a clock that jitters back and forth turns a window once",
        (
            step(0, init(1, A), rows=[(1, 1, "pending")]),
            step(10, rows=[(1, 1, "pending")]),
            step(9.999, rows=[(1, 1, "pending")]),
            step(10, rows=[(1, 1, "pending")]),
            step(20, rows=[(1, 1, "timed_out"), (1, 2, "retrying")]),
        ),
    ),
    Scenario(
        "a root whose tuples wait for a bolt is not timed out",
        (
            step(0, init(1, A), init(2, B), rows=[(1, 1, "pending"), (2, 1, "pending")]),
            step(10, waiting=[root(1)], rows=[(1, 1, "pending"), (2, 1, "pending")]),
            step(20, waiting=[root(1)], rows=[(1, 1, "pending"), (2, 1, "timed_out"), (2, 2, "retrying")]),
            step(30, waiting=[root(1)], rows=[(1, 1, "pending"), (2, 2, "retrying")]),
            step(31, rows=[(1, 1, "timed_out"), (1, 2, "retrying"), (2, 2, "retrying")]),
        ),
    ),
    Scenario(
        "the hard limit times out roots whose tuples wait",
        (
            step(0, init(1, A), rows=[(1, 1, "pending")]),
            step(10, waiting=[root(1)], rows=[(1, 1, "pending")]),
            step(20, waiting=[root(1)], rows=[(1, 1, "pending")]),
            step(30, waiting=[root(1)], rows=[(1, 1, "timed_out"), (1, 2, "retrying")]),
        ),
        timeouts=Timeouts(timedelta(minutes=10), windows=1, hard_timeout=timedelta(minutes=20)),
    ),
    Scenario(
        "a message that failed is recovered by its second attempt",
        (
            step(0, init(1, A), fail(1, [A]), rows=[(1, 1, "failed"), (1, 2, "retrying")]),
            step(1, init(1, B, attempt=2), rows=[(1, 2, "pending")]),
            step(2, ack(1, [B], attempt=2), rows=[(1, 2, "acked")]),
        ),
    ),
    Scenario(
        "a message whose attempts are used up is a dead letter",
        (
            step(0, init(1, A), fail(1, [A]), rows=[(1, 1, "failed"), (1, 2, "retrying")]),
            step(
                1, init(1, B, attempt=2), fail(1, [B], attempt=2), rows=[(1, 2, "failed"), (1, 3, "retrying")]
            ),
            step(2, rows=[(1, 3, "retrying")]),
            step(
                3,
                init(1, C, attempt=3),
                fail(1, [C], attempt=3),
                rows=[(1, 3, "dead_letter"), (1, 3, "failed")],
            ),
            step(4, rows=[]),
        ),
    ),
    Scenario(
        "with a limit of 0 the first failure and the first timeout are final",
        (
            step(
                0,
                init(1, A),
                fail(1, [A]),
                init(2, B),
                rows=[(1, 1, "dead_letter"), (1, 1, "failed"), (2, 1, "pending")],
            ),
            step(10, rows=[(2, 1, "pending")]),
            step(20, rows=[(2, 1, "dead_letter"), (2, 1, "timed_out")]),
        ),
        retry=ExponentialBackoff(limit=0),
    ),
    Scenario(
        "a message that is gone from its source before its retry is lost",
        (
            step(0, init(1, A), fail(1, [A]), rows=[(1, 1, "failed"), (1, 2, "retrying")]),
            step(1, lost(1, attempt=2), rows=[(1, 2, "lost")]),
        ),
    ),
    Scenario(
        "a message that was gone before its first attempt is lost",
        (step(0, init(1, A), ack(1, [A]), lost(2), rows=[(1, 1, "acked"), (2, 1, "lost")]),),
    ),
    Scenario(
        "a message that is found lost twice is lost once",
        (step(0, lost(1), lost(1), rows=[(1, 1, "lost")]),),
    ),
    Scenario(
        "a root that was found lost, too, goes by its init",
        (
            step(0, lost(1), init(1, A), reset(2), lost(2), rows=[(1, 1, "pending"), (2, 1, "lost")]),
            step(1, ack(1, [A]), rows=[(1, 1, "acked")]),
        ),
    ),
    Scenario(
        "an attempt is superseded by the init of its successor and not tried again",
        (
            step(0, init(1, A), rows=[(1, 1, "pending")]),
            step(1, ack(1, [A]), init(1, B, attempt=2), rows=[(1, 1, "failed"), (1, 2, "pending")]),
            step(2, ack(1, [B], attempt=2), rows=[(1, 2, "acked")]),
        ),
    ),
    Scenario(
        "of three attempts in one fold the highest supersedes the others",
        (
            step(
                0,
                init(1, A),
                init(1, B, attempt=2),
                init(1, C, attempt=3),
                ack(1, [C], attempt=3),
                rows=[(1, 1, "failed"), (1, 2, "failed"), (1, 3, "acked")],
            ),
        ),
    ),
    Scenario(
        "an init that comes after its successor's is superseded by the pending row",
        (
            step(0, init(1, B, attempt=2), rows=[(1, 2, "pending")]),
            step(1, init(1, A), fail(1, [A]), rows=[(1, 1, "failed"), (1, 2, "pending")]),
        ),
    ),
    Scenario(
        "a message waits for its next attempt although an earlier one is emitted again",
        (
            step(
                0, init(1, B, attempt=2), fail(1, [B], attempt=2), rows=[(1, 2, "failed"), (1, 3, "retrying")]
            ),
            step(1, init(1, A), rows=[(1, 1, "pending"), (1, 3, "retrying")]),
        ),
    ),
    Scenario(
        "a retrying message is not acked by the zero of its old root",
        (
            step(0, init(1, A, B), fail(1, [A]), rows=[(1, 1, "failed"), (1, 2, "retrying")]),
            step(1, ack(1, []), rows=[(1, 2, "retrying")], late=1),
            step(2, ack(1, [B]), rows=[(1, 2, "retrying")], late=1),
        ),
    ),
    Scenario(
        "a message that is to be retried is lost when its spout is gone",
        (
            step(0, init(1, A), fail(1, [A]), rows=[(1, 1, "failed"), (1, 2, "retrying")]),
            step(1, spouts=(), rows=[(1, 2, "lost")]),
            step(2, spouts=(), rows=[]),
        ),
    ),
    Scenario(
        "a root in flight completes although its spout is gone",
        (
            step(0, init(1, A), rows=[(1, 1, "pending")]),
            step(1, spouts=("other",), rows=[(1, 1, "pending")]),
            step(2, ack(1, [A]), spouts=("other",), rows=[(1, 1, "acked")]),
        ),
    ),
    Scenario(
        "an acked message that is replayed by hand goes its way again",
        (
            step(0, init(1, A), ack(1, [A]), rows=[(1, 1, "acked")]),
            step(1, init(1, B, attempt=2, replaces=root(1)), rows=[(1, 2, "pending")]),
            step(2, fail(1, [B], attempt=2), rows=[(1, 2, "failed"), (1, 3, "retrying")]),
            step(3, init(1, C, attempt=3, replaces=root(1)), ack(1, [C], attempt=3), rows=[(1, 3, "acked")]),
        ),
    ),
    Scenario(
        "messages that were acked together are replaced together",
        (
            step(0, init(1), init(2), join(2, 1), rows=[(1, 1, "acked"), (2, 1, "acked")]),
            step(1, init(1, attempt=2, replaces=root(1)), rows=[(1, 2, "pending")]),
            step(2, init(2, B, attempt=2, replaces=root(2)), rows=[(1, 2, "pending"), (2, 2, "pending")]),
            step(3, ack(2, [B], attempt=2), rows=[(1, 2, "acked"), (2, 2, "acked")]),
            step(4, init(2, A, attempt=3, replaces=root(2, 2)), rows=[(2, 3, "pending")]),
            step(
                5,
                init(1, C, attempt=3, replaces=root(1, 2)),
                fail(1, [C], attempt=3),
                rows=[
                    (n, n_th, state) for n in (1, 2) for n_th, state in ((3, "dead_letter"), (3, "failed"))
                ],
            ),
        ),
    ),
    Scenario(
        "a message that is to be replaced together with one that is lost fails",
        (
            step(0, init(1), init(2), join(2, 1), rows=[(1, 1, "acked"), (2, 1, "acked")]),
            step(
                1,
                init(1, attempt=2, replaces=root(1)),
                lost(2, attempt=2),
                rows=[(1, 2, "failed"), (1, 3, "retrying"), (2, 2, "lost")],
            ),
            step(2, init(1, attempt=3, replaces=root(1)), rows=[(1, 3, "dead_letter"), (1, 3, "failed")]),
        ),
    ),
)


def histories() -> st.SearchStrategy[Scenario]:
    """Random histories, named by their seeds."""
    return st.integers(0, 2**32 - 1).map(random_history)


BOLTS = ("split", "words", "pair", "count")  # tuples go from left to right, and may skip bolts
SPOUTS = (SOURCE, "other")
REPLAYED = {  # how likely the next attempt of a message is to come, by the state of its newest row
    State.RETRYING: 0.7,
    State.PENDING: 0.05,
    State.ACKED: 0.1,
    State.DEAD_LETTER: 0.2,
    State.LOST: 0.05,
}


def random_history(seed: int) -> Scenario:
    """A history under random settings whose folds come at random times, sometimes late."""
    rng = Random(seed)
    length = timedelta(minutes=10)
    lasting = Timeouts(length, windows=rng.choice([1, 2]), hard_timeout=rng.choice([None, 2 * length]))
    timeouts = rng.choice([Timeouts(None), lasting, lasting, lasting])
    retry = ExponentialBackoff(initial_seconds=rng.choice([0, 60]), limit=rng.randrange(3))
    minutes = [rng.choice([-15, -5, 0, 5, 10, 10, 20, 40]) for _ in range(rng.randint(3, 11))]
    clock = [START + timedelta(minutes=past) for past in accumulate(minutes)]
    return _history(rng, Scenario(f"seed {seed}", (), timeouts, retry), clock)


def _history(rng: Random, scenario: Scenario, clock: Iterable[datetime]) -> Scenario:
    """The scenario with the trees of some messages, spread over its folds, with faults.

    An init is folded no later than its root's other events, which is all that the pipeline promises of
    their order. The oracle's own ledger tells which messages to replay, as it would in life.
    """
    ledger = Ledger()
    spouts: tuple[str, ...] = SPOUTS
    steps: list[Step] = []
    delayed: list[Event] = []
    for batch, now in enumerate(clock, start=1):
        spouts = (SOURCE,) if rng.random() < 0.1 else spouts
        events, delayed = _split(rng, delayed)
        for emission in _emissions(rng, ledger, batch, spouts, now):
            reports = _damaged(rng, tree(rng, emission)) if emission.kind == Kind.INIT else [emission]
            seen, unseen = _split(rng, reports[1:])
            events += [reports[0], *seen]
            delayed += unseen
        events += _second_inits(rng, ledger, events, now)
        events += _joins(rng, ledger, events, now)
        rng.shuffle(events)
        roots = sorted({row.root_id for row in ledger.live} | {event.root_id for event in events})
        waiting = frozenset(root_id for root_id in roots if rng.random() < 0.2)
        steps.append(Step(now, tuple(events), waiting, spouts))
        ledger = fold_step(ledger, steps[-1], scenario.timeouts, scenario.retry)
    return replace(scenario, steps=tuple(steps))


def tree(rng: Random, emission: Event) -> list[Event]:
    """The events of one message's tree or DAG without a fault: its init, then an ack per bolt and batch."""
    ids: dict[str, list[int]] = {bolt: [] for bolt in BOLTS}
    first = _emit(rng, ids, BOLTS)
    events = [replace(emission, ack_val=reduce(xor, first, 0), emitted=len(first))]
    for index, bolt in enumerate(BOLTS):
        middle = rng.randint(0, len(ids[bolt]))
        for batch, consumed in enumerate([ids[bolt][:middle], ids[bolt][middle:]], start=1):
            if consumed:
                emitted = _emit(rng, ids, BOLTS[index + 1 :])
                events.append(
                    Event(
                        root_id=emission.root_id,
                        kind=Kind.ACK,
                        ack_val=reduce(xor, consumed + emitted),
                        emitted=len(emitted),
                        consumed=len(consumed),
                        component=bolt,
                        batch=batch,
                        logged_at=emission.logged_at,
                    )
                )
    return events


def emission(rng: Random, spout: str, offset: int, attempt: int, batch: int, now: datetime) -> Event:
    """An init without tuples, of a new root."""
    return Event(
        root_id=_id(rng),
        kind=Kind.INIT,
        spout=spout,
        source_partition=PARTITION,
        source_offset=offset,
        attempt=attempt,
        component=spout,
        batch=batch,
        logged_at=now - timedelta(seconds=rng.randrange(60)),
    )


def _emit(rng: Random, ids: dict[str, list[int]], consumers: Sequence[str]) -> list[int]:
    """Ids of up to three new tuples, one for each bolt that reads it; a tuple that nobody reads has none."""
    edges = [(_id(rng), bolt) for _ in range(rng.randrange(4)) for bolt in consumers if rng.random() < 0.5]
    for tuple_id, bolt in edges:
        ids[bolt].append(tuple_id)
    return [tuple_id for tuple_id, _ in edges]


def _id(rng: Random) -> int:
    return rng.getrandbits(64) - 2**63


def _split(rng: Random, events: Sequence[Event]) -> tuple[list[Event], list[Event]]:
    """Events that the next fold sees, and those that it does not see yet."""
    seen: list[Event] = []
    unseen: list[Event] = []
    for event in events:
        (seen if rng.random() < 0.6 else unseen).append(event)
    return seen, unseen


def _emissions(rng: Random, ledger: Ledger, batch: int, spouts: Sequence[str], now: datetime) -> list[Event]:
    """Inits and lost events of a few new messages and of some replays."""
    history = (State.FAILED, State.TIMED_OUT)
    rows = [row for row in ledger.settled + ledger.live if row.state not in history]
    newest = {row.message: row for row in sorted(rows, key=lambda r: r.attempt)}
    events = [
        emission(rng, rng.choice(spouts), 10 * batch + n, 1, batch, now) for n in range(rng.randrange(3))
    ]
    for row in newest.values():
        if row.spout in spouts and rng.random() < REPLAYED[row.state]:
            attempt = row.attempt if row.state == State.RETRYING else row.attempt + 1
            event = emission(rng, row.spout, row.source_offset, attempt, batch, now)
            replaces = row.root_id if row.state == State.ACKED else row.replaces
            events.append(replace(event, replaces=replaces))
    in_flight = {row.message[::2] for row in newest.values() if row.state == State.PENDING}
    return [
        replace(event, kind=Kind.LOST, reason="offset out of range")
        if rng.random() < 0.1 and (event.spout, event.source_offset) not in in_flight
        else event
        for event in events
    ]


def _damaged(rng: Random, events: list[Event]) -> list[Event]:
    """Half of all trees as they are; of the others some acks never come, fail, come twice or miscount."""
    if rng.random() < 0.5:
        return events
    found = [events[0]]
    for event in events[1:]:
        failed = replace(event, kind=Kind.FAIL, reason=f"bad row in {event.component}")
        reset = replace(event, kind=Kind.RESET, ack_val=0, emitted=0, consumed=0)
        miscounted = replace(event, emitted=event.emitted + 2)
        found += rng.choice([[], [failed], [event, event], [miscounted], [event, reset], [event], [event]])
    return found


def _joins(rng: Random, ledger: Ledger, events: Sequence[Event], now: datetime) -> list[Event]:
    """Tuples that belong to two roots, which are new, pending or, rarely, settled."""
    roots = {row.root_id for row in ledger.live} | {event.root_id for event in events}
    roots |= {row.root_id for row in ledger.settled if rng.random() < 0.02}
    pairs = [rng.sample(sorted(roots), 2) for _ in range(rng.choice([0, 0, 1, 3])) if len(roots) > 1]
    return [
        Event(max(pair), Kind.JOIN, joined=min(pair), component="pair", batch=1, logged_at=now)
        for pair in pairs
    ]


def _second_inits(rng: Random, ledger: Ledger, events: Sequence[Event], now: datetime) -> list[Event]:
    """Inits of roots that have one, now or in the ledger."""
    inits = [event for event in events if event.kind == Kind.INIT]
    again = [replace(event, logged_at=now) for event in inits if rng.random() < 0.05]
    for row in ledger.live:
        if row.state == State.PENDING and rng.random() < 0.05:
            event = emission(rng, row.spout, row.source_offset, row.attempt, (row.batch or 0) + 1, now)
            again.append(replace(event, root_id=row.root_id, replaces=row.replaces))
    return again
