"""The log of a batch: its events, derived from committed rows, as `acker/batches/log.py` derives them."""

from collections.abc import Iterable, Iterator

from tests.model.held import held_in
from tests.model.state import (
    FAILURES,
    Batch,
    Commit,
    Event,
    Frozen,
    Process,
    Root,
    Row,
    State,
    by_root,
)
from tests.model.world import Scenario
from tests.model.writing import outcomes, taken_in

Outcome = tuple[str, State, Process | None]


def log(world: Scenario, s: State, me: Process) -> Iterator[Outcome]:
    """Append the batch's events, derived from committed rows, in one commit."""
    batch, is_failed = me.memory
    if s.logged(batch.component) >= batch.number and world.on("log once"):
        yield "has been logged meanwhile", s, None
        return
    what = f"logs batch {batch.number}" + (" as a fail of all its inputs" if is_failed else "")
    if not isinstance(batch.input, Frozen):
        yield what, committed(s, batch, spout_events(world, s, batch)), None
        return
    if is_failed:
        yield what, committed(s, batch, failed_events(world, s, batch)), None
        return
    for again, own in computed_again(world, s, me, batch):
        first, second = bolt_events(world, s, batch, own)
        if world.on("one commit") or not second:
            yield what + again, committed(s, batch, [*first, *second]), None
        else:
            late = me._replace(step="log the rest", memory=(batch, tuple(second)))
            yield f"{what}: what it consumed", committed(s, batch, first), late


def log_the_rest(world: Scenario, s: State, me: Process) -> Iterator[Outcome]:
    batch, events = me.memory
    yield f"logs what batch {batch.number} emitted", committed(s, batch, events), None


def committed(s: State, batch: Batch, events: Iterable[Event]) -> State:
    return s._replace(events=(*s.events, Commit(batch.component, batch.number, tuple(events))))


def computed_again(world: Scenario, s: State, me: Process, batch: Batch) -> Iterator[tuple[str, list[Row]]]:
    """The rows that a log takes for the batch's own: those that were committed."""
    rows = list(s.stream(batch.component).batches.get(batch.number, ()))
    if world.on("committed rows"):
        yield "", rows
        return
    for what, again in outcomes(world, s, me, batch, len(s.ledger), len(s.trims)):
        yield (
            f", computed again{what}",
            [r._replace(id=(*r.id[:1], batch.number, i)) for i, r in enumerate(again)],
        )


def spout_events(world: Scenario, s: State, batch: Batch) -> Iterator[Event]:
    for row in s.stream(batch.component).batches.get(batch.number, ()):
        for root in row.roots:
            if row.kind == "lost":
                yield Event(root, "lost", replaces=row.replaces)
                continue
            ids = frozenset((row.id, consumer) for consumer in batch.edges if row.kind == "")
            yield Event(root, "init", ids, len(ids), replaces=row.replaces)
            if row.kind in FAILURES:
                yield Event(root, row.kind)


def bolt_events(world: Scenario, s: State, batch: Batch, own: list[Row]) -> tuple[list[Event], list[Event]]:
    """What the batch consumed, emitted and joined; apart only where the protocol's rule is left out."""
    consumed = by_root(consumed_by(world, s, batch, own))
    out = by_root((r.roots, r.id, to, 1) for r in own if r.kind == "" for to in batch.edges)
    failed = {root: row.kind for row in own if row.kind in FAILURES for root in row.roots}
    failed |= {root: row.kind for row in own if row.kind == "reject" for root in row.roots}
    joins = [
        Event(root, "join", joined=row.roots[0]) for row in own if row.kind == "" for root in row.roots[1:]
    ]
    nothing = (frozenset(), 0)

    def event(root: Root, parts: list[tuple[frozenset[object], int]]) -> Event:
        ids: frozenset[object] = frozenset()
        for part, _ in parts:
            ids ^= part
        outstanding = parts[-1][1] - parts[0][1] if len(parts) > 1 else parts[0][1]
        return Event(root, failed.get(root, "ack"), ids, outstanding)  # type: ignore[arg-type]

    if world.on("one commit"):
        found = [event(r, [consumed.get(r, nothing), out.get(r, nothing)]) for r in {**consumed, **out}]
        moved = [e for e in found if e.ack_val or e.outstanding or e.kind in FAILURES]
        return moved + joins, []
    first = [Event(root, failed.get(root, "ack"), ids, -n) for root, (ids, n) in consumed.items()]
    return first, [Event(root, "ack", ids, n) for root, (ids, n) in out.items()] + joins


def consumed_by(
    world: Scenario, s: State, batch: Batch, own: list[Row]
) -> Iterator[tuple[tuple[Root, ...], object, str, int]]:
    """What the batch was given, and what the batch before held, but for what it holds itself."""
    me = batch.component
    for taken in taken_in(world, s, batch):
        yield from ((row.roots, row.id, me, 1) for row in taken)
    if world.on("held"):
        yield from ((row.roots, row.place, me, 1) for row in held_in(s, me, batch.number - 1))
        yield from ((row.roots, row.place, me, -1) for row in own if row.kind == "held")


def failed_events(world: Scenario, s: State, batch: Batch) -> list[Event]:
    """A fail of all that the batch was given, and of what the batch before held."""
    own = list(s.stream(batch.component).batches.get(batch.number, ()))
    parts = list(consumed_by(world, s, batch, own))
    if not world.on("given up held"):
        parts = [
            (row.roots, row.id, batch.component, 1) for taken in taken_in(world, s, batch) for row in taken
        ]
    kind = "fail" if world.on("given up") else "ack"
    return [Event(root, kind, ids, -count) for root, (ids, count) in by_root(parts).items()]
