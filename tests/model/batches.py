"""Plan, write and log of a batch, step by step, as `pipeline/batch.py` and `acker/log.py` take them.

A step is a function of the world, the state and the run that takes it, and yields (what happens, the state after it,
the run after it or None where it ends). Whatever the user's code or the source may do is one outcome each.
"""

from collections.abc import Callable, Iterable, Iterator
from itertools import chain, combinations, groupby

from tests.model.held import held_back, held_in, oldest
from tests.model.state import (
    Batch,
    Commit,
    Emission,
    Event,
    Frozen,
    Message,
    Process,
    Root,
    Row,
    State,
    Stream,
    Taken,
    by_root,
)
from tests.model.world import Scenario

Outcome = tuple[str, State, Process | None]
Step = Callable[[Scenario, State, Process], Iterator[Outcome]]


def number(world: Scenario, s: State, me: Process) -> Iterator[Outcome]:
    """The first look of a run at its component: the number that it would plan."""
    yield "looks", s, me._replace(step="look", memory=s.newest(me.component) + 1)


def look(world: Scenario, s: State, me: Process) -> Iterator[Outcome]:
    """Take up what is unfinished, or choose the next input."""
    left = s.unfinished(me.component)
    if left is not None and world.on("one batch"):
        yield f"takes up batch {left.number}", s, me._replace(step="check", memory=left)
        return
    topology = world.topologies[me.topology]
    choose = next_messages if me.component in topology.spouts else next_tuples
    chosen = choose(world, s, me)
    if chosen is not None:
        batch = Batch(me.component, me.memory, "next", chosen, topology.edges(me.component))
        yield "chooses its input", s, me._replace(step="plan", memory=batch)


def next_messages(world: Scenario, s: State, me: Process) -> tuple[int, ...] | None:
    """The offsets that a spout reads next."""
    plans = [b for b in s.journal.get(me.component, ()) if b.kind == "next"]
    after = max(chain.from_iterable(b.input for b in plans), default=0)
    rest = range(after + 1, world.messages.get(me.component, 0) + 1)
    room = world.read if world.max_pending is None else min(world.read, room_for_new(world, s, me.component))
    return tuple(rest[: max(room, 0)]) or None


def room_for_new(world: Scenario, s: State, spout: str) -> int:
    assert world.max_pending is not None
    live = [row.root for row in (s.ledger[-1].live if s.ledger else ()) if row.state == "pending"]
    version = s.ledger[-1].version if s.ledger else 0
    new = [e.root for commit in s.events[version:] for e in commit.events if e.kind == "init"]
    roots = [root for root in live + new if root.spout == spout or not world.on("max_pending")]
    return world.max_pending - len(roots)


def next_tuples(world: Scenario, s: State, me: Process) -> Frozen | None:
    """The new batches of a bolt's inputs, by stream."""
    topology = world.topologies[me.topology]
    bolt = topology.bolt(me.component)
    assert bolt is not None
    newest = me.memory - 1
    before = s.batch(me.component, newest).positions if newest else {}
    positions = dict.fromkeys(bolt.inputs, 0) | before
    if not world.on("positions"):
        positions = {stream: positions[stream] for stream in bolt.inputs}
    planned = {}
    for stream, taken in positions.items():
        upto = taken
        if stream in bolt.inputs:
            ready = s.logged(stream) if world.on("logged batches") else s.stream(stream).txn
            if world.on("edges"):
                upto = max(s.numbers_for(stream, bolt.name, taken, ready), default=taken)
            else:
                upto = max(ready, taken)
        planned[stream] = Taken(taken, upto)
    if all(each.after == each.upto for each in planned.values()):
        return None
    if topology.holds(bolt.name) and world.on("held mark"):
        for stream, first in oldest(world, s, bolt.name, newest).items():
            planned[stream] = planned[stream]._replace(held=first)
    return Frozen(planned)


def plan(world: Scenario, s: State, me: Process) -> Iterator[Outcome]:
    """Append the batch to the journal, if its number is free, and follow what has the number."""
    batch: Batch = me.memory
    s, mine = appended(s, batch)
    followed = s.batch(batch.component, batch.number) if world.on("journal's row") else batch
    if batch.kind == "replay" and not mine and world.on("won"):
        yield "leaves, since its number is taken", s, None
        return
    what = f"plans batch {batch.number}: {described(batch)}" if mine else f"follows batch {batch.number}"
    yield what, s, me._replace(step="check", memory=followed)


def appended(s: State, batch: Batch) -> tuple[State, bool]:
    plans = s.journal.get(batch.component, ())
    if batch.number != len(plans) + 1:
        return s, False
    return s._replace(journal=s.journal.put(batch.component, (*plans, batch))), True


def described(batch: Batch) -> str:
    if isinstance(batch.input, Frozen):
        return f"{batch.kind} " + ", ".join(
            f"{s} ({t.after}, {t.upto}]" for s, t in sorted(batch.input.items())
        )
    found = [f"{e.offset} attempt {e.attempt}" if isinstance(e, Emission) else str(e) for e in batch.input]
    return f"{batch.kind} " + ", ".join(found)


def check(world: Scenario, s: State, me: Process) -> Iterator[Outcome]:
    """See whether the batch is written, and if not, whether it can still be run."""
    batch: Batch = me.memory
    if s.stream(batch.component).txn >= batch.number:
        yield "finds it written", s, me._replace(step="log", memory=(batch, False))
    elif isinstance(batch.input, Frozen) and (me.op == "give up" or refused(world, s, me, batch)):
        yield "cannot run it", s, me._replace(step="log", memory=(batch, True))
    elif me.op != "retire":
        yield "runs it", s, me._replace(step="write", memory=(batch, len(s.ledger)))


def refused(world: Scenario, s: State, me: Process, batch: Batch) -> bool:
    """Whether the topology of today does not read what a bolt's batch takes in."""
    taken = [stream for stream, each in batch.input.items() if each.after < each.upto] or list(batch.input)
    gone = any(world.topologies[me.topology].unread(stream, batch.component) for stream in taken)
    return gone or batch.kind == "retire"


def write(world: Scenario, s: State, me: Process) -> Iterator[Outcome]:
    """Append what the batch emits, fails and holds back to the stream, in one commit."""
    batch, fold = me.memory
    after = me._replace(step="log", memory=(batch, False))
    stream = s.stream(batch.component)
    if stream.txn >= batch.number and world.on("append once"):
        yield "has been written meanwhile", s, after
        return
    for what, rows in outcomes(world, s, me, batch, fold):
        there = stream.batches.get(batch.number, ())
        rows = tuple(
            r._replace(id=(batch.component, batch.number, len(there) + i)) for i, r in enumerate(rows)
        )
        new = Stream(max(batch.number, stream.txn), stream.batches.put(batch.number, there + rows))
        yield (
            f"writes batch {batch.number}{what}",
            s._replace(streams=s.streams.put(batch.component, new)),
            after,
        )


def outcomes(
    world: Scenario, s: State, me: Process, batch: Batch, fold: int
) -> Iterator[tuple[str, list[Row]]]:
    """What a run of the batch may add to the stream. The first is that all goes well."""
    if isinstance(batch.input, Frozen):
        given = [row for taken in taken_in(world, s, batch) for row in taken]
        held = held_back(world, s, batch.component, batch.number - 1, fold)
        for failed in chosen(sorted(bad_roots(world, batch.component, given))):
            yield failing(failed), transformed(world, s, me, batch, given, held, failed)
        return
    messages = [
        (e.offset, e.attempt, e.replaces) if isinstance(e, Emission) else (e, 1, None) for e in batch.input
    ]
    gone = {
        offset for offset, attempt, _ in messages if attempt > 1 and (batch.component, offset) in world.gone
    }
    for lost in chosen(sorted(gone)):
        yield failing(lost, "does not find"), emitted(world, batch, messages, lost)


def chosen(items: list[object]) -> Iterator[set[object]]:
    return (set(some) for size in range(len(items) + 1) for some in combinations(items, size))


def failing(failed: set[object], verb: str = "fails") -> str:
    return f", {verb} {', '.join(named(each) for each in sorted(failed))}" if failed else ""  # type: ignore[type-var]


def named(each: object) -> str:
    return f"{each.spout}:{each.offset}#{each.attempt}" if isinstance(each, Root) else str(each)


def bad_roots(world: Scenario, component: str, given: Iterable[Row]) -> set[Root]:
    return {root for row in given for root in row.roots if (component, root.offset) in world.bad}


def emitted(
    world: Scenario, batch: Batch, messages: Iterable[tuple[int, int, Root | None]], lost: set[object]
) -> list[Row]:
    """A spout's rows."""
    rows = []
    for offset, attempt, replaces in messages:
        message: Message = (batch.component, offset)
        root = Root(*message, attempt, batch.number if world.on("root's batch") else 0)
        roots = () if message in world.untracked else (root,)
        kind = "lost" if offset in lost else ""
        rows.append(Row(("", 0, 0), kind, roots, frozenset([message]), replaces=replaces))
    return rows


def taken_in(world: Scenario, s: State, batch: Batch) -> list[list[Row]]:
    """Per input stream the tuples that are new to a bolt's batch."""
    return [list(s.rows(stream, inputs(world, s, batch, stream))) for stream in sorted(batch.input)]


def inputs(world: Scenario, s: State, batch: Batch, stream: str) -> list[int]:
    taken = batch.input[stream]
    if not world.on("edges"):
        return list(range(taken.after + 1, taken.upto + 1))
    return s.numbers_for(stream, batch.component, taken.after, taken.upto)


def transformed(
    world: Scenario,
    s: State,
    me: Process,
    batch: Batch,
    given: list[Row],
    held: list[Row],
    failed: set[object],
) -> list[Row]:
    """What a bolt makes of the tuples that it is given, and of those that it holds back: `held` rows."""
    bolt = world.topologies[me.topology].bolt(batch.component)
    kind, partners = (bolt.kind, bolt.partners) if bolt else ("each", 1)
    blank = ("", 0, 0)
    if kind not in ("match", "later"):  # a bolt of another kind holds back nothing any more
        let_go = [Row(blank, "fail", row.roots, row.origins) for row in held]
        held = []
    else:
        let_go = []
    bad = [row for row in given if failed & set(row.roots)]
    keys = {"each": lambda row: row, "later": lambda row: row, "all": lambda row: 0}
    key: Callable[[Row], object] = keys.get(kind, offset)
    good = sorted([*(row for row in given if row not in bad), *held], key=offset)
    rows = [Row(blank, "fail", row.roots, row.origins) for row in bad] + let_go
    for _, same in groupby(good, key=key):
        group = list(same)
        origins = frozenset(chain.from_iterable(row.origins for row in group))
        later = kind == "later" and offset(group[0]) == 1 and group[0].kind != "held"
        if later or (kind == "match" and len(origins) < partners):
            rows += [as_held(row, batch) for row in group]
        else:
            roots = tuple(sorted(set(chain.from_iterable(row.roots for row in group))))
            rows.append(Row(blank, "", roots, origins))
    return rows


def as_held(row: Row, batch: Batch) -> Row:
    if row.kind == "held":
        return row
    return Row(("", 0, 0), "held", row.roots, row.origins, row.id, batch.number)


def offset(row: Row) -> int:
    return min(offset for _, offset in row.origins)


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
    for what, again in outcomes(world, s, me, batch, len(s.ledger)):
        yield (
            f", computed again{what}",
            [r._replace(id=(*r.id[:1], batch.number, i)) for i, r in enumerate(again)],
        )


def spout_events(world: Scenario, s: State, batch: Batch) -> Iterator[Event]:
    for row in s.stream(batch.component).batches.get(batch.number, ()):
        for root in row.roots:
            if row.kind == "lost":
                yield Event(root, "lost", replaces=row.replaces)
            else:
                ids = frozenset((row.id, consumer) for consumer in batch.edges)
                yield Event(root, "init", ids, len(ids), replaces=row.replaces)


def bolt_events(world: Scenario, s: State, batch: Batch, own: list[Row]) -> tuple[list[Event], list[Event]]:
    """What the batch consumed, emitted and joined; apart only where the protocol's rule is left out."""
    consumed = by_root(consumed_by(world, s, batch, own))
    out = by_root((r.roots, r.id, to, 1) for r in own if r.kind == "" for to in batch.edges)
    failed = {root for row in own if row.kind == "fail" for root in row.roots}
    joins = [
        Event(root, "join", joined=row.roots[0]) for row in own if row.kind == "" for root in row.roots[1:]
    ]
    nothing = (frozenset(), 0)

    def event(root: Root, parts: list[tuple[frozenset[object], int]]) -> Event:
        ids: frozenset[object] = frozenset()
        for part, _ in parts:
            ids ^= part
        outstanding = parts[-1][1] - parts[0][1] if len(parts) > 1 else parts[0][1]
        return Event(root, "fail" if root in failed else "ack", ids, outstanding)  # type: ignore[arg-type]

    if world.on("one commit"):
        found = [event(r, [consumed.get(r, nothing), out.get(r, nothing)]) for r in {**consumed, **out}]
        moved = [e for e in found if e.ack_val or e.outstanding or e.kind == "fail"]
        return moved + joins, []
    first = [Event(root, "fail" if root in failed else "ack", ids, -n) for root, (ids, n) in consumed.items()]
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


STEPS: dict[str, Step] = {
    "number": number,
    "look": look,
    "plan": plan,
    "check": check,
    "write": write,
    "log": log,
    "log the rest": log_the_rest,
}
