"""Planning a batch, step by step, as `acker/batches/batch.py` does it.

A step is a function of the world, the state and the run that takes it, and yields (what happens, the state
after it, the run after it or None where it ends).
"""

from collections.abc import Callable, Iterator
from itertools import chain

from tests.model.held import oldest
from tests.model.logs import log, log_the_rest
from tests.model.state import (
    Batch,
    Emission,
    Frozen,
    Process,
    State,
    Taken,
)
from tests.model.world import Scenario
from tests.model.writing import write

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
        yield "runs it", s, me._replace(step="write", memory=(batch, len(s.ledger), len(s.trims)))


def refused(world: Scenario, s: State, me: Process, batch: Batch) -> bool:
    """Whether the topology of today does not read what a bolt's batch takes in."""
    taken = [stream for stream, each in batch.input.items() if each.after < each.upto] or list(batch.input)
    gone = any(world.topologies[me.topology].unread(stream, batch.component) for stream in taken)
    return gone or batch.kind == "retire"


STEPS: dict[str, Step] = {
    "number": number,
    "look": look,
    "plan": plan,
    "check": check,
    "write": write,
    "log": log,
    "log the rest": log_the_rest,
}
