"""Trimming as `acker/operations/maintenance/trim.py` does it: reads, records how far it will go, deletes."""

from collections.abc import Iterator

from tests.model.publishing import logged_at, passed
from tests.model.state import Batch, Frozen, Process, State, Stream
from tests.model.world import Scenario

Outcome = tuple[str, State, Process | None]


def fix_fold(world: Scenario, s: State, me: Process) -> Iterator[Outcome]:
    if s.ledger:
        yield "fixes the fold", s, me._replace(step="positions", memory=len(s.ledger))


def read_positions(world: Scenario, s: State, me: Process) -> Iterator[Outcome]:
    before = s.trims[-1] if s.trims else Frozen()
    upto = positions(world, s, me.topology, me.memory, before)
    if upto != before:
        yield "chooses how far", s, me._replace(step="record", memory=(len(s.trims), upto))
    elif s.trims:
        yield "goes on with the last trim", s, me._replace(step="look again", memory=None)


def record(world: Scenario, s: State, me: Process) -> Iterator[Outcome]:
    number, upto = me.memory
    if len(s.trims) == number:
        s = s._replace(trims=(*s.trims, upto))
    yield f"records the trim of {dict(s.trims[-1])}", s, me._replace(step="look again", memory=None)


def look_again(world: Scenario, s: State, me: Process) -> Iterator[Outcome]:
    """Go on unless a replay has been planned meanwhile that is to replace what is to go."""
    first = needed(world, s, me.topology, len(s.ledger)) if world.on("trim looks again") else {}
    if all(first.get(name, newest + 1) > newest for name, newest in s.trims[-1].items()):
        yield "finds it still free", s, me._replace(step="delete")


def delete(world: Scenario, s: State, me: Process) -> Iterator[Outcome]:
    streams = s.streams
    for name, newest in s.trims[-1].items():
        stream: Stream = s.stream(name)
        left = Frozen({number: rows for number, rows in stream.batches.items() if number > newest})
        streams = streams.put(name, stream._replace(batches=left)) if left != stream.batches else streams
    if streams != s.streams:
        yield "deletes the rows", s._replace(streams=streams), None


def positions(world: Scenario, s: State, topology: int, fold: int, before: Frozen) -> Frozen:
    """Component -> the newest batch up to which all are settled, published and taken in."""
    folded = s.ledger[fold - 1]
    first: dict[str, int] = {}
    kept = [unpublished(world, s, topology), held_untracked(world, s)]
    if world.on("trim taken"):
        kept.append(untaken(s, folded.logged))
    kept.append(needed(world, s, topology, fold))
    for each in kept:
        for name, batch in each.items():
            first[name] = min(batch, first.get(name, batch))
    upto, moved = dict(before), True
    left = {
        name: [
            b
            for b in s.journal[name]
            if upto.get(name, 0) < b.number <= min(newest, first.get(name, newest + 1) - 1)
        ]
        for name, newest in folded.logged.items()
    }
    while moved:
        moved = False
        for name, batches in left.items():
            while batches and is_whole(batches[0], upto):
                upto[name] = batches.pop(0).number
                moved = True
    return Frozen(upto)


def is_whole(batch: Batch, upto: dict[str, int]) -> bool:
    """Whether all that a bolt has taken in by a batch is to go; a spout takes nothing in."""
    if not isinstance(batch.input, Frozen):
        return True
    return all(number <= upto.get(name, 0) for name, number in batch.positions.items())


def untaken(s: State, logged: Frozen) -> dict[str, int]:
    """Component -> the first of its batches that a bolt among their edges has yet to take in and fold."""
    first: dict[str, int] = {}
    for stream, batches in s.journal.items():
        for bolt in {bolt for batch in batches for bolt in batch.edges}:
            done = logged.get(bolt, 0)
            taken = s.batch(bolt, done).positions.get(stream, 0) if done else 0
            waiting = s.numbers_for(stream, bolt, taken, logged.get(stream, 0))
            if waiting:
                first[stream] = min(waiting[0], first.get(stream, waiting[0]))
    return first


def needed(world: Scenario, s: State, topology: int, fold: int) -> dict[str, int]:
    """Spout -> the first of its batches with a root that is in flight, unpublished, or to be replaced."""
    rows = []
    if world.on("trim settled") and (world.on("pinned") or fold >= s.compacted):
        rows += s.ledger[fold - 1].live
    gone = [root for each in s.refusals[refused_everywhere(world, s, topology) :] for root in each.roots]
    if world.on("trim published"):
        rows += [row for each in s.ledger[passed(world, s, topology) :] for row in each.settled]
    roots = [row.root for row in rows if row.state != "retrying"]
    roots += gone if world.on("trim refused") else []
    first: dict[str, int] = {}
    if world.on("trim replaced"):
        roots += [row.replaces for row in rows if row.replaces is not None]
        for spout in {root.spout for each in s.ledger for row in each.settled for root in [row.root]}:
            unseen = s.journal.get(spout, ())[s.ledger[fold - 1].logged.get(spout, 0) :]
            if any(e.replaces for b in unseen if b.kind == "replay" for e in b.input):
                first[spout] = 0
    for root in roots:
        first[root.spout] = min(root.batch, first.get(root.spout, root.batch))
    return first


def refused_everywhere(world: Scenario, s: State, topology: int) -> int:
    """How many of the refusals every table has given up the roots of."""
    fold = passed(world, s, topology)
    return s.ledger[fold - 1].refusals if fold else 0


def unpublished(world: Scenario, s: State, topology: int) -> dict[str, int]:
    """Component -> the first of its batches that can have untracked tuples which are not published."""
    if not world.untracked or not world.on("trim published"):
        return {}
    logged = logged_at(s, passed(world, s, topology))
    return {name: logged.get(name, 0) + 1 for name in world.topologies[topology].targets.values()}


def held_untracked(world: Scenario, s: State) -> dict[str, int]:
    """Component -> the first of its batches in which an untracked tuple lies that is held back."""
    first: dict[str, int] = {}
    if not world.untracked or not world.on("trim untracked"):
        return first
    for bolt in {bolt.name for topology in world.topologies for bolt in topology.bolts}:
        for row in s.rows(bolt, [s.logged(bolt)], "held"):
            assert row.place is not None
            stream, number, _ = row.place
            if not row.roots:
                first[stream] = min(number, first.get(stream, number))
    return first


STEPS = {
    "fold": fix_fold,
    "positions": read_positions,
    "record": record,
    "look again": look_again,
    "delete": delete,
}
