"""Random scenarios from seeds: the trees of some messages, spread over folds, with faults."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from functools import reduce
from itertools import accumulate
from operator import xor
from random import Random

from hypothesis import strategies as st

from acker.core.events import Event, Kind, State
from acker.core.retry import ExponentialBackoff
from acker.core.store.ids import BUCKETS, hash64
from acker.core.timeouts import Timeouts
from tests.kit.fold_steps import PARTITION, SOURCE, START, Particular, Scenario, Step, fold_step
from tests.kit.oracle import Ledger


def random_scenarios() -> st.SearchStrategy[Scenario]:
    """Random scenarios, named by their seeds."""
    return st.integers(0, 2**32 - 1).map(random_scenario)


BOLTS = ("split", "words", "pair", "count")  # tuples go from left to right, and may skip bolts
SPOUTS = (SOURCE, "other")
REPLAYED = {  # how likely the next attempt of a message is to come, by the state of its newest row
    State.RETRYING: 0.7,
    State.PENDING: 0.05,
    State.ACKED: 0.1,
    State.DEAD_LETTER: 0.2,
    State.LOST: 0.05,
}


def random_scenario(seed: int) -> Scenario:
    """A scenario under random settings whose folds come at random times, sometimes late."""
    rng = Random(seed)
    length = timedelta(minutes=10)
    lasting = Timeouts(length, windows=rng.choice([1, 2]), hard_timeout=rng.choice([None, 2 * length]))
    timeouts = rng.choice([Timeouts(None), lasting, lasting, lasting])
    backoff = ExponentialBackoff(initial_seconds=rng.choice([0, 60]), limit=rng.randrange(3))
    retry = rng.choice([backoff, backoff, Particular()])
    minutes = [rng.choice([-15, -5, 0, 5, 10, 10, 20, 40]) for _ in range(rng.randint(3, 11))]
    clock = [START + timedelta(minutes=past) for past in accumulate(minutes)]
    return _with_steps(rng, Scenario(f"seed {seed}", (), timeouts, retry), clock)


def _with_steps(rng: Random, scenario: Scenario, clock: Iterable[datetime]) -> Scenario:
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
        held = tuple((each, bolt) for each in roots for bolt in BOLTS[:2] if rng.random() < 0.2)
        steps.append(Step(now, tuple(events), waiting, held, spouts))
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
        root_id=_id(rng) // BUCKETS * BUCKETS + hash64(f"{spout}/{offset}") % BUCKETS,
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
    ended = (State.FAILED, State.TIMED_OUT)
    rows = [row for row in ledger.settled + ledger.live if row.state not in ended]
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
    in_flight = {(row.spout, row.source_offset) for row in newest.values() if row.state == State.PENDING}
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
        rejected = replace(event, kind=Kind.REJECT, reason=f"never in {event.component}")
        reset = replace(event, kind=Kind.RESET, ack_val=0, emitted=0, consumed=0)
        miscounted = replace(event, emitted=event.emitted + 2)
        found += rng.choice(
            [[], [failed], [rejected], [event, event], [miscounted], [event, reset], [event], [event]]
        )
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
