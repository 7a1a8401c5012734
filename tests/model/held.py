"""What a rich bolt holds back (`acker/core/snapshot/streams.py`), and how orphans fail (`acker/batches`)."""

from collections.abc import Iterator

from tests.model.state import Batch, Frozen, Process, Row, State, Taken
from tests.model.world import Scenario


def held_in(s: State, component: str, batch: int) -> list[Row]:
    return list(s.rows(component, [batch], "held"))


def held_back(world: Scenario, s: State, component: str, batch: int, fold: int) -> list[Row]:
    """What a component held back in a batch, of messages that were in flight in a fold or came after it.

    Args:
        fold: how many folds there were when the caller looked.
    """
    rows = [row for row in held_in(s, component, batch) if place_is_there(s, row)]
    if not fold:
        return rows
    newest = s.ledger[fold - 1]
    live = {row.root for row in newest.live if row.state == "pending"}
    known = newest.logged.get(component, 0)
    return [row for row in rows if row.since > known or all(root in live for root in row.roots)]


def place_is_there(s: State, row: Row) -> bool:
    """Whether the tuple that is held still lies where it lay."""
    assert row.place is not None
    component, batch, _ = row.place
    return batch in s.stream(component).batches


def oldest(world: Scenario, s: State, component: str, batch: int) -> dict[str, int]:
    """Stream -> the oldest batch of it in which a tuple lies that is held back."""
    found: dict[str, int] = {}
    for row in held_back(world, s, component, batch, len(s.ledger)):
        assert row.place is not None
        stream, number, _ = row.place
        found[stream] = min(number, found.get(stream, number))
    return found


def gone_edges(world: Scenario, s: State, topology: int) -> dict[tuple[str, str], int]:
    """(stream, bolt) that is read no more -> the newest batch that was planned for it."""
    return {
        (stream, bolt): batch.number
        for stream, batches in s.journal.items()
        for batch in batches
        for bolt in batch.edges
        if world.topologies[topology].unread(stream, bolt)
    }


def retire_look(world: Scenario, s: State, me: Process) -> Iterator[tuple[str, State, Process | None]]:
    """Finish what the bolt has left, if nobody is to run it, or plan to fail what waits for it."""
    left = s.unfinished(me.component)
    if left is not None:
        yield f"takes up batch {left.number}", s, me._replace(step="check", memory=left)
        return
    newest = me.memory - 1
    positions = s.batch(me.component, newest).positions if newest else {}
    for (stream, bolt), number in sorted(gone_edges(world, s, me.topology).items()):
        if bolt != me.component:
            continue
        taken = positions.get(stream, 0)
        offered = s.numbers_for(stream, bolt, taken, s.logged(stream))
        upto = taken if taken >= number else max(offered, default=taken)
        is_gone = world.topologies[me.topology].bolt(bolt) is None
        holds = is_gone and bool(held_back(world, s, bolt, newest, len(s.ledger)))
        if upto != taken or holds:
            planned = {name: Taken(at, at) for name, at in positions.items()} | {stream: Taken(taken, upto)}
            batch = Batch(bolt, me.memory, "retire", Frozen(planned), ())
            yield f"finds {stream} unread", s, me._replace(step="plan", memory=batch)
            return
