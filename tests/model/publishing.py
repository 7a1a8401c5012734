"""Publishing, as `acker/operations/publish.py` does it: fold by fold, one commit per fold and table.

What a table refuses is recorded, and the publish begins anew.
"""

from collections.abc import Iterable, Iterator

from tests.model.state import Frozen, LedgerRow, Process, Refusal, Root, Row, State, Target
from tests.model.world import Scenario

Outcome = tuple[str, State, Process | None]


def look(world: Scenario, s: State, me: Process) -> Iterator[Outcome]:
    """Find the first fold that the table lacks, and record what it has. `me.component` is the table."""
    folds = to_publish(world, s, me.topology, me.component)
    if folds:
        table = s.targets.get(me.component, Target())
        then = me._replace(step="publish", memory=(folds[0], table.id, len(s.refusals)))
        found = recorded(s, me.component, table.txn, table.id) if world.on("learns") else s
        yield f"finds fold {folds[0]} to publish", found, then


def to_publish(world: Scenario, s: State, topology: int, table: str) -> list[int]:
    """Folds after the table's position that acked something, or were the first to see untracked tuples."""
    if not agrees(world, s, table):
        return []
    return after(world, s, topology, table, s.targets.get(table, Target()).position)


def agrees(world: Scenario, s: State, table: str) -> bool:
    """Whether store and table say the same of where the publisher stands. Else that is told, and no more."""
    found, (fold, who) = s.targets.get(table, Target()), s.known.get(table, (0, 0))
    if world.on("strangers") and found.strange:
        return False
    return not world.on("standing") or not fold or (found.id == who and found.position >= fold)


def after(world: Scenario, s: State, topology: int, table: str, position: int) -> list[int]:
    component = world.topologies[topology].targets[table]
    if component not in s.streams:
        return []
    return [
        number
        for number in range(position + 1, len(s.ledger) + 1)
        if acked_in(s, number) or untracked_in(s, component, number) or refused_in(world, s, number)
    ]


def acked_in(s: State, fold: int) -> list[LedgerRow]:
    return [row for row in s.ledger[fold - 1].settled if row.state == "acked"]


def untracked_in(s: State, component: str, fold: int) -> list[Row]:
    after = s.ledger[fold - 2].logged.get(component, 0) if fold > 1 else 0
    upto = s.ledger[fold - 1].logged.get(component, 0)
    return [row for row in s.rows(component, range(after + 1, upto + 1)) if not row.roots]


def publish(world: Scenario, s: State, me: Process) -> Iterator[Outcome]:
    """Append the fold's tuples, and take out what earlier attempts had published, in one commit."""
    table, (fold, _, known) = s.targets.get(me.component, Target()), me.memory
    if table.txn >= fold and world.on("target's txn"):
        yield f"fold {fold} is there already", s, None
        return
    topology = world.topologies[me.topology]
    component = topology.targets[me.component]
    own = refused_by(s, me.component, known)
    acked = {row.root for row in acked_in(s, fold)} - (own if world.on("left out") else set())
    bad = {row.roots[0] for row in tuples_of(world, s, component, acked) if is_refused(world, s, me, row)}
    if bad:
        bad |= acked_with(s, fold, bad) if world.on("refused partners") else set()
        memory = known, frozenset(bad)
        if world.on("refusal first"):
            yield f"finds that {me.component} refuses it", s, me._replace(step="refuse", memory=memory)
            return
        acked -= bad
    replaced = leaving(world, s, fold, own)
    new = tuples_of(world, s, component, acked) + untracked_in(s, component, fold)
    if me.component in topology.sums:
        rows = added(table.rows, new, tuples_of(world, s, component, replaced))
    else:
        kept = [row for row in table.rows if row[0] not in replaced]
        rows = tuple(
            sorted(kept + [(row.roots[0] if row.roots else None, row.origins) for row in new], key=repr)
        )
    what = f"publishes fold {fold} to {me.component}"
    done = table._replace(txn=max(fold, table.txn), rows=rows)
    yield what, s._replace(targets=s.targets.put(me.component, done)), me._replace(step="record")


def record(world: Scenario, s: State, me: Process) -> Iterator[Outcome]:
    """Let the store know as well, of the table that was looked at."""
    yield f"records fold {me.memory[0]} of {me.component}", recorded(s, me.component, *me.memory[:2]), None


def recorded(s: State, table: str, fold: int, who: int) -> State:
    newest, _ = s.known.get(table, (0, 0))
    return s if newest >= fold else s._replace(known=s.known.put(table, (fold, who)))


def refuse(world: Scenario, s: State, me: Process) -> Iterator[Outcome]:
    """Record what a table refuses, unless more was recorded meanwhile. The next run publishes the rest."""
    known, bad = me.memory
    if len(s.refusals) == known or not world.on("one refusal"):
        s = s._replace(refusals=(*s.refusals, Refusal(me.component, bad)))
        what = (
            f"records that {me.component} refuses {', '.join(f'{r.spout}:{r.offset}' for r in sorted(bad))}"
        )
        yield what, s, None
    else:
        yield "leaves, since more was recorded meanwhile", s, None


def is_refused(world: Scenario, s: State, me: Process, row: Row) -> bool:
    """Whether a table would not take a tuple."""
    offsets = {offset for _, offset in row.origins}
    return me.component in s.strict and any((me.component, offset) in world.refused for offset in offsets)


def offsets_in(world: Scenario, s: State, table: str) -> set[int]:
    """Offsets of the messages that rows of a table are made of."""
    is_sum = table in world.topologies[s.topology].sums
    rows = s.targets.get(table, Target()).rows
    return {offset for row in rows for _, offset in row[0 if is_sum else 1]}


def refused_by(s: State, table: str, upto: int | None = None) -> set[Root]:
    """All roots that a table has refused, as far as it was recorded."""
    return {root for each in s.refusals[:upto] if each.table == table for root in each.roots}


def acked_with(s: State, fold: int, roots: set[Root]) -> set[Root]:
    """The roots that a fold acked together with some."""
    rows = acked_in(s, fold)
    groups = {row.joined for row in rows if row.root in roots} - {None}
    return {row.root for row in rows if row.joined in groups}


def refused_upto(s: State, fold: int) -> set[Root]:
    """The roots whose refusal a fold, or one before it, has read."""
    upto = s.ledger[fold - 1].refusals if fold else 0
    return {root for each in s.refusals[:upto] for root in each.roots}


def refused_in(world: Scenario, s: State, fold: int) -> set[Root]:
    """The roots whose refusal a fold was the first to read."""
    return refused_upto(s, fold) - refused_upto(s, fold - 1) if world.on("refused everywhere") else set()


def leaving(world: Scenario, s: State, fold: int, own: set[Root]) -> set[Root]:
    """The roots whose tuples leave a table with a fold: what is replaced, and what was refused."""
    replaced = {row.replaces for row in acked_in(s, fold) if row.replaces} if world.on("replace") else set()
    refused = refused_in(world, s, fold)
    if world.on("leaves once"):
        earlier = {row.replaces for number in range(1, fold) for row in acked_in(s, number)}
        replaced, refused = replaced - refused_upto(s, fold - 1), refused - earlier
    return (replaced | refused) - (own if world.on("never there") else set())


def added(
    before: Iterable[tuple[object, int]], new: Iterable[Row], old: Iterable[Row]
) -> tuple[tuple[object, int], ...]:
    """Running counts by what a row was made of."""
    counts = dict(before)
    for rows, sign in ((new, 1), (old, -1)):
        for row in rows:
            counts[row.origins] = counts.get(row.origins, 0) + sign
    return tuple(sorted(((key, n) for key, n in counts.items() if n), key=repr))


def tuples_of(world: Scenario, s: State, component: str, roots: set[Root]) -> list[Row]:
    """Tuples that these roots vouch for; of a joined tuple the smallest root does."""
    emissions = {(root.spout, batch) for root in roots for batch in emitting(s, root)}
    batches = terminal_batches(s, component, emissions)
    return [row for row in s.rows(component, batches) if row.roots and row.roots[0] in roots]


def emitting(s: State, root: Root) -> list[int]:
    """The spout's batch that emitted a root."""
    return [c.batch for c in s.events if c.component == root.spout and any(e.root == root for e in c.events)]


def terminal_batches(s: State, component: str, emissions: Iterable[tuple[str, int]]) -> list[int]:
    """Batches of a stream that can hold tuples caused by these batches of spouts, by the journal."""
    reached: dict[str, set[int]] = {}
    for spout, batch in emissions:
        reached.setdefault(spout, set()).add(batch)
    growing = list(reached)
    while growing:
        stream = growing.pop()
        readers = {bolt for batch in s.journal.get(stream, ()) for bolt in batch.edges}
        for bolt in readers:
            plans = [b for b in s.journal.get(bolt, ()) if stream in b.input]
            found = {b.number for b in plans if b.input[stream].can_give(reached[stream])}
            if not found <= reached.setdefault(bolt, set()):
                reached[bolt] |= found
                growing.append(bolt)
    return sorted(reached.get(component, ()))


def passed(world: Scenario, s: State, topology: int) -> int:
    """The newest fold up to which every publisher has published all that was acked."""
    waiting = [
        after(world, s, topology, table, known_position(world, s, table))
        for table in world.topologies[topology].targets
    ]
    return min((folds[0] - 1 for folds in waiting if folds), default=len(s.ledger))


def known_position(world: Scenario, s: State, table: str) -> int:
    """How far a table is as store and table say; 0 where they do not agree."""
    position = s.targets.get(table, Target()).position
    if not agrees(world, s, table):
        return 0
    return min(position, s.known.get(table, (0, 0))[0]) if world.on("trim known") else position


def dropped(s: State, table: str) -> State:
    """A table that was deleted, and is made anew by whoever publishes."""
    anew = Target(id=s.targets[table].id + 1)
    return s._replace(targets=s.targets.put(table, anew), mishaps=s.mishaps + 1)


def away(s: State) -> State:
    """What runs find while the store is not mounted: the tables, and no store."""
    left = {
        name: Target(rows=each.rows, id=each.id, strange=bool(each.position))
        for name, each in s.targets.items()
    }
    return State(targets=Frozen(left), topology=s.topology, clock=s.clock, mishaps=s.mishaps + 1)


def again(world: Scenario, s: State, table: str) -> State | None:
    """All is published again to a table that was dropped, by an id of its own, when nobody is at work."""
    found = s.targets.get(table, Target())
    if agrees(world, s, table) or found.strange or found.rows or s.processes:
        return None
    anew = found._replace(txn=0, former=0)
    return s._replace(targets=s.targets.put(table, anew), known=s.known.put(table, (0, found.id)))


def logged_at(s: State, fold: int) -> Frozen:
    return s.ledger[fold - 1].logged if fold else Frozen()


STEPS = {"look": look, "publish": publish, "record": record, "refuse": refuse}
