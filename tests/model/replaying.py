"""Replays of what is due and by hand, as `replay.py` and `selection.py` of `acker/operations` plan them."""

from collections.abc import Iterable, Iterator

from tests.model.batches import appended
from tests.model.publishing import refused_upto
from tests.model.state import Batch, Emission, LedgerRow, Message, Process, State
from tests.model.world import Hand, Scenario

Outcome = tuple[str, State, Process | None]


def ledger(world: Scenario, s: State, me: Process) -> Iterator[Outcome]:
    """Fix the ledger: the first look of a snapshot."""
    yield "reads the ledger", s, me._replace(step="events", memory=len(s.ledger))


def events(world: Scenario, s: State, me: Process) -> Iterator[Outcome]:
    """Fix what is logged."""
    yield "reads what is logged", s, me._replace(step="choose", memory=(me.memory, s.logged(me.component)))


def choose(world: Scenario, s: State, me: Process) -> Iterator[Outcome]:
    """Fix the journal, and choose what is due in the fold but for what later replays have emitted.

    It leaves where a batch is unfinished.
    """
    fold, logged = me.memory
    if s.newest(me.component) != logged:
        return
    live = s.ledger[fold - 1].live if fold else ()
    due = [
        Emission(row.root.offset, row.attempt, row.replaces)
        for row in live
        if row.state == "retrying" and row.root.spout == me.component
    ]
    batch = replay_batch(world, s, me, me.component, due, fold)
    if batch is not None:
        then = "plan" if world.on("one journal") else "late number"
        yield f"chooses what is due in fold {fold}", s, me._replace(step=then, memory=batch)


def late_number(world: Scenario, s: State, me: Process) -> Iterator[Outcome]:
    """Take the number after all else: where the rule of one journal is left out."""
    if s.unfinished(me.component) is None:
        batch = me.memory._replace(number=s.newest(me.component) + 1)
        yield "takes its number", s, me._replace(step="plan", memory=batch)


def replay_batch(
    world: Scenario, s: State, me: Process, spout: str, messages: Iterable[Emission], fold: int
) -> Batch | None:
    """The batch with the next number, of the messages that no replay above the fold has emitted."""
    folded = s.ledger[fold - 1].logged.get(spout, 0) if fold else 0
    later = [b for b in s.journal.get(spout, ())[folded:] if b.kind == "replay"] if world.on("seen") else []
    emitted = {e.offset for batch in later for e in batch.input}
    found = tuple(sorted(m for m in messages if m.offset not in emitted))
    edges = world.topologies[me.topology].edges(spout)
    return Batch(spout, s.newest(spout) + 1, "replay", found, edges) if found else None


def hand_ledger(world: Scenario, s: State, me: Process) -> Iterator[Outcome]:
    """Fix the ledger."""
    yield "fixes the fold", s, me._replace(step="hand events", memory=len(s.ledger))


def hand_events(world: Scenario, s: State, me: Process) -> Iterator[Outcome]:
    """Fix what is logged, for all spouts."""
    spouts = world.topologies[me.topology].spouts
    logged = tuple((spout, s.logged(spout)) for spout in spouts)
    yield "reads what is logged", s, me._replace(step="select", memory=(me.memory, logged))


def hand_select(world: Scenario, s: State, me: Process) -> Iterator[Outcome]:
    """Fix the journal once nothing is unfinished, and choose by each message's newest row.

    Partners that were acked or given up together come along. What is unfinished another run finishes, in the
    model, and a new look begins.
    """
    fold, logged = me.memory
    if world.on("hand looks") and any(s.newest(spout) != number for spout, number in logged):
        return
    hand = world.hands[s.asked - 1]
    newest = newest_rows(world, s, fold)
    found = [row for row in newest.values() if wanted(world, hand, row)]
    if world.on("partners"):
        found += partners(s, found, newest)
    if refused(world, s, me, found):
        return
    batches = []
    for spout, _ in logged:
        chosen = [emission(world, s, row) for row in found if row.root.spout == spout]
        batch = replay_batch(world, s, me, spout, chosen, fold)
        if batch is not None:
            batches += parted(world, s, batch, found)
    if batches:
        yield f"chooses from fold {fold}", s, me._replace(step="plans", memory=tuple(batches))


def parted(world: Scenario, s: State, batch: Batch, found: Iterable[LedgerRow]) -> list[Batch]:
    """Batches of about as many messages as a spout reads at a time; what settled together is in one."""
    groups = {row.root.offset: groups_of(s, row) for row in found if row.root.spout == batch.component}
    parts: list[list[Emission]] = []
    for each in batch.input:
        mine = [part for part in parts if any(groups[e.offset] & groups[each.offset] for e in part)]
        if not mine and (not parts or len(parts[-1]) >= world.read):
            parts.append([])
        (mine or parts)[-1].append(each)
    return [
        batch._replace(number=batch.number + place, input=tuple(part)) for place, part in enumerate(parts)
    ]


def hand_plan(world: Scenario, s: State, me: Process) -> Iterator[Outcome]:
    """Plan the batches, or start over where a number is taken, and finish the first of a spout.

    Whoever comes next finishes the others.
    """
    if world.on("all or none"):
        after = s
        for batch in me.memory:
            after, mine = appended(after, batch)
            if not mine and world.on("won"):
                yield "starts over", s, me._replace(step="hand ledger", memory=None)
                return
        what = f"plans {', '.join(f'{b.component} batch {b.number}' for b in me.memory)}"
        for first in {batch.component: batch for batch in reversed(me.memory)}.values():
            yield what, after, me._replace(op="run", component=first.component, step="check", memory=first)
        return
    first, *rest = me.memory
    s, mine = appended(s, first)
    what = f"plans {first.component} batch {first.number}" if mine else f"leaves {first.component}"
    yield what, s, me._replace(memory=tuple(rest)) if rest else None


def newest_rows(world: Scenario, s: State, fold: int) -> dict[Message, LedgerRow]:
    """Each message's newest row as of a fold; without the rule from what maintenance has left of it."""
    pinned = world.on("pinned")
    folds = s.ledger[:fold] if pinned else s.ledger
    rows = [row for each in folds for row in each.settled if row.state not in ("failed", "timed out")]
    if pinned or fold >= s.compacted:
        rows += s.ledger[fold - 1].live if fold else ()
    found: dict[Message, LedgerRow] = {}
    for row in rows:
        before = found.get(row.root.message)
        if before is None or row.attempt >= before.attempt:
            found[row.root.message] = row
    return found


def has_wanted(world: Scenario, s: State) -> bool:
    """Whether the next replay by hand finds anything to replay."""
    hand = world.hands[s.asked]
    return any(wanted(world, hand, row) for row in newest_rows(world, s, len(s.ledger)).values())


def wanted(world: Scenario, hand: Hand, row: LedgerRow) -> bool:
    free = row.state != "pending" or not world.on("in flight alone")
    chosen = row.state in hand.states or (row.state == "pending" and not world.on("in flight alone"))
    return free and chosen and (not hand.messages or row.root.message in hand.messages)


def acked_row(s: State, message: Message) -> LedgerRow | None:
    rows = [r for fold in s.ledger for r in fold.settled if r.state == "acked" and r.root.message == message]
    return max(rows, key=lambda row: row.attempt, default=None)


def standing_row(world: Scenario, s: State, message: Message) -> LedgerRow | None:
    """The row of the acked attempt that a replay is to replace."""
    found = acked_row(s, message)
    gone = refused_upto(s, len(s.ledger)) if world.on("nothing to replace") else set()
    return None if found is None or found.root in gone else found


def groups_of(s: State, row: LedgerRow) -> set[object]:
    acked = acked_row(s, row.root.message)
    return {row.joined, acked.joined if acked else None} - {None}


def partners(s: State, found: list[LedgerRow], newest: dict[Message, LedgerRow]) -> list[LedgerRow]:
    groups = {group for row in found for group in groups_of(s, row)}
    others = [row for row in newest.values() if row not in found and row.state != "pending"]
    return [row for row in others if groups_of(s, row) & groups]


def emission(world: Scenario, s: State, row: LedgerRow) -> Emission:
    acked = standing_row(world, s, row.root.message)
    attempt = row.attempt + (row.state != "retrying")
    return Emission(row.root.offset, attempt, acked.root if acked else None)


def refused(world: Scenario, s: State, me: Process, found: Iterable[LedgerRow]) -> bool:
    """Published sums cannot take back what was trimmed."""
    if not world.topologies[me.topology].sums or not s.trims:
        return False
    acked = [standing_row(world, s, row.root.message) for row in found]
    return any(row is not None and row.root.batch <= s.trims[-1].get(row.root.spout, 0) for row in acked)


DUE = {"ledger": ledger, "events": events, "choose": choose, "late number": late_number}
BY_HAND = {
    "hand ledger": hand_ledger,
    "hand events": hand_events,
    "select": hand_select,
    "plans": hand_plan,
}
