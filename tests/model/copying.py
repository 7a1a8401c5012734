"""Backups and moves, as `acker/operations/maintenance/backup.py` and `restore.py` do them: a table at a time.

What is explored after that is the copy alone. Whoever worked on the original is gone. So what the original
publishes late it publishes while it is copied.
"""

from collections.abc import Iterator

from tests.model.state import Copying, Frozen, Part, Process, State, Target
from tests.model.world import Scenario

Outcome = tuple[str, State, Process | None]


def look(world: Scenario, s: State, me: Process) -> Iterator[Outcome]:
    """The newest trimming before the first table is opened."""
    yield "begins", s, me._replace(step="open", memory=Copying(len(s.trims), parts(world, s, me)))


def parts(world: Scenario, s: State, me: Process) -> tuple[Part, ...]:
    """All tables in the order in which they are opened: what refers to something is opened before that."""
    bolts = [bolt.name for topology in world.topologies for bolt in topology.bolts]
    spouts = [name for topology in world.topologies for name in topology.spouts]
    tables = world.topologies[me.topology].targets if me.op == "backup" else ()
    published = [("known", ""), *(("targets", name) for name in tables)]
    streams = [("streams", name) for name in dict.fromkeys([*reversed(bolts), *spouts])]
    found = (
        *published,
        ("ledger", ""),
        ("events", ""),
        *streams,
        ("journal", ""),
        ("refusals", ""),
        ("trims", ""),
    )
    return found if world.on("backup order") else found[::-1]


def pin(world: Scenario, s: State, me: Process) -> Iterator[Outcome]:
    """Open the next table."""
    copying: Copying = me.memory
    (field, name), *left = copying.left
    pinned = dict(copying.pinned)
    if name:
        there = getattr(s, field)
        pinned[field] = pinned.get(field, Frozen())
        if name in there:
            pinned[field] = pinned[field].put(name, there[name])
    else:
        pinned[field] = getattr(s, field)
    if field == "ledger":
        pinned["compacted"] = s.compacted
    memory = copying._replace(left=tuple(left), pinned=Frozen(pinned))
    yield f"opens {name or field}", s, me._replace(step="open" if left else "look again", memory=memory)


def look_again(world: Scenario, s: State, me: Process) -> Iterator[Outcome]:
    """Open all anew where a trimming was announced or a batch logged; else go on with the copy alone."""
    copying: Copying = me.memory
    is_trimmed = len(s.trims) != copying.trims and world.on("backup looks again")
    if is_trimmed or (s.events != copying.pinned["events"] and world.on("backup of a moment")):
        yield "has to open all anew", s, me._replace(step="look", memory=None)
        return
    copy = s._replace(processes=(), copied=True, **copying.pinned)
    if world.on("own id"):
        fold = len(copy.ledger)
        own = {
            name: Target(
                0, each.rows, min(each.position, fold), each.id, each.strange or each.position > fold
            )
            for name, each in copy.targets.items()
        }
        known = {name: (min(each, fold), who) for name, (each, who) in copy.known.items()}
        copy = copy._replace(targets=Frozen(own), known=Frozen(known))
    yield "is done, and the copy goes on", copy, None


def may_start(world: Scenario, s: State, op: str) -> bool:
    """Whether a copy may be begun: one in a history; of a move once nobody works on the store."""
    if op not in world.ops or s.copied or any(run.op in COPIES for run in s.processes):
        return False
    return op != "move" or not s.processes or not world.on("closed")


def is_closed(world: Scenario, s: State) -> bool:
    """Whether a move keeps everybody else from the store."""
    return world.on("closed") and any(run.op == "move" for run in s.processes)


COPIES = ("backup", "move", "beside")
STEPS = {"look": look, "open": pin, "look again": look_again}
