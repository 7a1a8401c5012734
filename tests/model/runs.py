"""Which runs may start in a state, and what each of their next steps may do."""

from collections.abc import Iterator

from tests.model import batches, copying, folding, publishing, replaying, trimming
from tests.model.held import gone_edges, held_back, retire_look
from tests.model.state import Process, State
from tests.model.world import Scenario

Move = tuple[str, State]

STEPS = {
    "run": batches.STEPS,
    "give up": batches.STEPS,
    "retire": {**batches.STEPS, "look": retire_look},
    "due": {**batches.STEPS, **replaying.DUE},
    "by hand": replaying.BY_HAND,
    "fold": folding.STEPS,
    "publish": publishing.STEPS,
    "trim": trimming.STEPS,
    "backup": copying.STEPS,
    "move": copying.STEPS,
    "beside": copying.STEPS,
}


def moves(world: Scenario, s: State) -> Iterator[Move]:
    """Every state that may come next, with what happens."""
    for index, run in enumerate(s.processes):
        others = s.processes[:index] + s.processes[index + 1 :]
        yield from steps(world, s._replace(processes=others), run)
        yield f"{run.op} {run.component} is killed", s._replace(processes=others)
    at_work = sum(run.op not in copying.COPIES for run in s.processes)
    if at_work < world.processes and not copying.is_closed(world, s):
        for run, state in starts(world, s):
            yield from steps(world, state, run)
    for op in copying.COPIES:
        if copying.may_start(world, s, op):
            yield from steps(world, s, Process(op, "", "look", s.topology))
    yield from surroundings(world, s)


def steps(world: Scenario, s: State, run: Process) -> Iterator[Move]:
    """What a run may do next; `s` is without it."""
    for what, after, then in STEPS[run.op][run.step](world, s, run):
        runs = tuple(sorted((*after.processes, then), key=repr)) if then else after.processes
        yield f"{run.op} {run.component}: {what}".replace(" :", ":"), after._replace(processes=runs)


def starts(world: Scenario, s: State) -> Iterator[tuple[Process, State]]:
    """Runs that have something to do."""
    yield from ((run, s) for run in regular(world, s))
    yield from occasional(world, s)


def regular(world: Scenario, s: State) -> Iterator[Process]:
    """Runs that go on by themselves: what an undisturbed pipeline does, in this order."""
    topology = world.topologies[s.topology]
    for bolt in sorted(retirable(world, s)):
        yield Process("retire", bolt, "number", s.topology)
    for name in topology.spouts:
        if s.unfinished(name) or batches.next_messages(world, s, Process("run", name, "", s.topology)):
            yield Process("run", name, "number", s.topology)
    for bolt in topology.bolts:
        me = Process("run", bolt.name, "", s.topology, s.newest(bolt.name) + 1)
        if s.unfinished(bolt.name) or batches.next_tuples(world, s, me):
            yield Process("run", bolt.name, "number", s.topology)
    if has_to_fold(world, s):
        yield Process("fold", "", "ledger", s.topology)
    for table in topology.targets:
        if publishing.to_publish(world, s, s.topology, table):
            yield Process("publish", table, "look", s.topology)
    for name in topology.spouts:
        if s.ledger and any(r.state == "retrying" and r.root.spout == name for r in s.ledger[-1].live):
            yield Process("due", name, "ledger", s.topology)


def has_to_fold(world: Scenario, s: State) -> bool:
    if not s.ledger:
        return bool(s.events)
    newest = s.ledger[-1]
    turned = s.clock > newest.turn and not world.patient and bool(newest.live)
    gone = any(
        r.state == "retrying" and r.root.spout not in world.topologies[s.topology].spouts for r in newest.live
    )
    refused = newest.refusals < len(s.refusals)
    return newest.version < len(s.events) or turned or refused or (gone and world.on("spout gone"))


def retirable(world: Scenario, s: State) -> set[str]:
    """Bolts with an edge that is gone and on which something waits."""
    if not world.on("retire"):
        return set()
    found = set()
    for (stream, bolt), newest in gone_edges(world, s, s.topology).items():
        number = s.newest(bolt)
        taken = s.batch(bolt, number).positions.get(stream, 0) if number else 0
        is_gone = world.topologies[s.topology].bolt(bolt) is None
        waits = taken < newest and s.numbers_for(stream, bolt, taken, s.logged(stream))
        holds = is_gone and held_back(world, s, bolt, number, len(s.ledger))
        if waits or holds or (is_gone and s.unfinished(bolt)):
            found.add(bolt)
    return found


def occasional(world: Scenario, s: State) -> Iterator[tuple[Process, State]]:
    """Runs that somebody asks for."""
    if s.asked < len(world.hands) and replaying.has_wanted(world, s):
        yield Process("by hand", "", "hand ledger", s.topology), s._replace(asked=s.asked + 1)
    if "give up" in world.ops:
        for bolt in world.topologies[s.topology].bolts:
            left = s.unfinished(bolt.name)
            if left is not None:
                yield Process("give up", bolt.name, "check", s.topology, left), s
    if "trim" in world.ops and s.ledger:
        yield Process("trim", "", "fold", s.topology), s


def surroundings(world: Scenario, s: State) -> Iterator[Move]:
    """What happens by itself: the clock, a change of the topology, maintenance."""
    if s.clock < world.ticks:
        yield "a timeout passes", s._replace(clock=s.clock + 1)
    if s.topology + 1 < len(world.topologies):
        yield "the topology changes", s._replace(topology=s.topology + 1)
    if not s.mishaps:
        if "drop" in world.ops:
            yield from ((f"{name} is dropped", publishing.dropped(s, name)) for name in s.targets)
        if "away" in world.ops and s.ledger:
            yield "the store is away", publishing.away(s)
    if "again" in world.ops:
        for name in s.targets:
            if (after := publishing.again(world, s, name)) is not None:
                yield f"{name} is to be published again", after
    for table in sorted({table for table, _ in world.refused} - s.strict):
        there = publishing.offsets_in(world, s, table)
        if not any((table, offset) in world.refused for offset in there):
            yield f"{table} gets another rule", s._replace(strict=s.strict | {table})
    if "compact" in world.ops and s.compacted < len(s.ledger):
        yield "the ledger is compacted", s._replace(compacted=len(s.ledger))


def undisturbed(world: Scenario, s: State) -> Move | None:
    """The state after the next whole run where nothing goes wrong; None where nothing is left to do."""
    for run in regular(world, s):
        what, after = finished(world, s, run)
        if after != s:
            return what, after
    live = s.ledger[-1].live if s.ledger else ()
    if not world.patient and any(row.state == "pending" for row in live):
        return "a timeout passes", s._replace(clock=s.clock + 1)
    return None


def finished(world: Scenario, s: State, run: Process) -> tuple[str, State]:
    """A run to its end, with the first outcome of each step."""
    said, then = [], run
    while then is not None:
        found = next(iter(STEPS[then.op][then.step](world, s, then)), None)
        if found is None:
            break
        what, s, after = found
        said.append(f"{run.op} {run.component}: {what}")
        then = after  # type: ignore[assignment]
    return "; ".join(said), s
