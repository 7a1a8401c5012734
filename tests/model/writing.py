"""The write of a batch: what a spout reads or a bolt makes of its inputs, as one commit of the stream.

Whatever the user's code or the source may do is one outcome each.
"""

from collections.abc import Callable, Iterable, Iterator
from itertools import chain, combinations, groupby

from tests.model.held import held_back
from tests.model.state import (
    Batch,
    Emission,
    Frozen,
    Message,
    Process,
    Root,
    Row,
    State,
    Stream,
)
from tests.model.world import Scenario

Outcome = tuple[str, State, Process | None]


def write(world: Scenario, s: State, me: Process) -> Iterator[Outcome]:
    """Append what the batch emits, fails and holds back to the stream, in one commit."""
    batch, fold, trims = me.memory
    after = me._replace(step="log", memory=(batch, False))
    stream = s.stream(batch.component)
    if stream.txn >= batch.number and world.on("append once"):
        yield "has been written meanwhile", s, after
        return
    for what, rows in outcomes(world, s, me, batch, fold, trims):
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
    world: Scenario, s: State, me: Process, batch: Batch, fold: int, trims: int
) -> Iterator[tuple[str, list[Row]]]:
    """What a run of the batch may add to the stream. The first is that all goes well.

    Args:
        fold, trims: the newest fold, and how many trims there were, when the run looked.
    """
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
        rows = emitted(world, batch, messages, lost)
        yield failing(lost, "does not find"), [late(world, s, me, row, trims) for row in rows]


def late(world: Scenario, s: State, me: Process, row: Row, trims: int) -> Row:
    """A spout's row, failed where published sums could not take back what it is to replace."""
    old = row.replaces
    if old is None or not trims or not world.topologies[me.topology].sums or not world.on("late replay"):
        return row
    return row._replace(kind="fail") if old.batch <= s.trims[trims - 1].get(old.spout, 0) else row


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
    final = {root for root in failed if (batch.component, root.offset) in world.rejected}
    rows = [
        Row(blank, "reject" if final & set(row.roots) else "fail", row.roots, row.origins) for row in bad
    ] + let_go
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
