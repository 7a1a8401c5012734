"""What must hold in every state, and where nothing is left to do.

An ack is judged from streams and journal, so that a fold's arithmetic is not its own witness.
"""

from collections.abc import Iterator

from tests.model.folding import waiting
from tests.model.publishing import agrees, refused_by, refused_upto
from tests.model.replaying import newest_rows
from tests.model.state import FAILURES, Fold, LedgerRow, Message, Root, Row, State, Target
from tests.model.world import Scenario


def violation(world: Scenario, before: State, s: State) -> str | None:
    """What a move has broken, if anything."""
    if s.copied and not before.copied:
        found = next(not_there(s), None)
        if found:
            return found
        is_moved = any(run.op != "backup" for run in before.processes)  # judged at the next publish
        return None if is_moved else next(wrong_in_tables(world, s, is_backup=True), None)
    if s.ledger is not before.ledger and s.ledger:
        found = next(wrong_in_fold(world, s), None)
        if found:
            return found
    if s.events is not before.events:
        found = next(dropped(world, s), None)
        if found:
            return found
    if s.targets is not before.targets:
        return next(wrong_in_tables(world, s), None)
    return None


def not_there(s: State) -> Iterator[str]:
    """What a table of a copy knows of, and what is not in the copy. A run that finds it so stops."""
    for component in sorted({c.component for c in s.events} | set(s.streams)):
        known = max(s.logged(component), s.stream(component).txn)
        if known > s.newest(component):
            yield f"wedge: {component} has batch {known}, and its plan is not in the copy"
    if s.ledger and s.ledger[-1].version > len(s.events):
        yield f"wedge: fold {len(s.ledger)} has read events that are not in the copy"


def wrong_in_fold(world: Scenario, s: State) -> Iterator[str]:
    newest = s.ledger[-1]
    emissions = s.emissions()
    for row in newest.settled:
        if row.state == "acked":
            yield from unproved(world, s, row.root, emissions)
        if row.reason == "twice":
            yield f"{named(row)} was emitted twice"
        if row.state == "timed out" and len(world.topologies) == 1:
            if row.root in waiting(world, s, s.topology, newest.version):
                yield f"false timeout of {named(row)}, whose tuple waits for a bolt"
            if is_forgotten(s, row.root, newest.version):
                yield f"false timeout of {named(row)}, of which no tuple is left"
        if world.spotless and row.state != "acked":
            yield f"{named(row)} {row.state} for nothing"
    yield from settled_again(s, newest)
    yield from tried_for_nothing(s, newest)


def unproved(world: Scenario, s: State, root: Root, emissions: dict[Root, int]) -> Iterator[str]:
    """Why a root was acked falsely."""
    name = f"false ack of {root.spout}:{root.offset}#{root.attempt}"
    if emissions.get(root, 0) != 1:
        yield f"{name}: it has {emissions.get(root, 0)} inits"
    if any(e.root == root and e.kind in FAILURES for c in s.events for e in c.events):
        yield f"{name}: it was failed"
    for component, stream in s.streams.items():
        for number, rows in stream.batches.items():
            mine = [row for row in rows if root in row.roots]
            if any(row.kind in FAILURES for row in mine):
                yield f"{name}: its tuple failed in {component}"
            edges = s.batch(component, number).edges
            if any(is_open(s, row, consumer) for row in mine if row.kind == "" for consumer in edges):
                yield f"{name}: its tuple in {component} batch {number} is not consumed"


def is_open(s: State, row: Row, consumer: str) -> bool:
    """Whether a tuple is not consumed on the edge to a bolt."""
    component, number, _ = row.id
    done = s.logged(consumer)
    if not done or s.batch(consumer, done).positions.get(component, 0) < number:
        return True
    return any(held.place == row.id for held in s.rows(consumer, [done], "held"))


def is_forgotten(s: State, root: Root, version: int) -> bool:
    """Whether nothing of a root is open, although it is not complete."""
    if any(e.root == root for c in s.events[version:] for e in c.events):
        return False
    rows = [
        (component, row)
        for component, stream in s.streams.items()
        for rows in stream.batches.values()
        for row in rows
    ]
    mine = [(component, row) for component, row in rows if root in row.roots and row.kind == ""]
    return not any(is_open(s, row, to) for name, row in mine for to in s.batch(name, row.id[1]).edges)


def settled_again(s: State, newest: Fold) -> Iterator[str]:
    earlier = {row.root for fold in s.ledger[:-1] for row in fold.settled if row.state != "lost"}
    for row in newest.settled:
        if row.root in earlier and row.state not in ("lost", "dead letter") and row.reason != "refused":
            yield f"{named(row)} settled twice"
    live = [row.root.message for row in newest.live]
    for row in newest.settled:
        if row.state == "dead letter" and row.reason == "refused" and row.root.message in live:
            yield f"{named(row)} is given up while its message goes on"
    for message in set(live):
        if live.count(message) > 1:
            yield f"{message[0]}:{message[1]} is in flight twice"


def tried_for_nothing(s: State, newest: Fold) -> Iterator[str]:
    before = s.ledger[-2].live if len(s.ledger) > 1 else ()
    rejected = {e.root for c in s.events[: newest.version] for e in c.events if e.kind == "reject"}
    for row in newest.live:
        if row.state == "retrying" and row not in before and row.root in rejected:
            yield f"{row.root.spout}:{row.root.offset} was failed for good and is tried again"


def dropped(world: Scenario, s: State) -> Iterator[str]:
    """Messages that a spout has logged as read, without a row that says so."""
    newest = s.events[-1] if s.events else None
    if newest is None or isinstance(s.batch(newest.component, newest.batch).input, dict):
        return
    spout = newest.component
    for batch in s.journal[spout][: s.logged(spout)]:
        rows = sum(len(c.events) for c in s.events if c.component == spout and c.batch == batch.number)
        tracked = [m for m in batch.input if (spout, m) not in world.untracked]
        if rows < len(tracked):
            yield f"loss: batch {batch.number} of {spout} was never emitted"


def wrong_in_tables(world: Scenario, s: State, is_backup: bool = False) -> Iterator[str]:
    for name, table in s.targets.items():
        if is_told(world, s, name) and not is_backup:
            continue
        counts, attempts = published(world, s, name)
        acked = acked_by(s, table.position)
        gone = refused_upto(s, table.position) | refused_by(s, name)
        kept = {message: root.attempt for message, root in acked.items() if root not in gone}
        for message, expected in kept.items():
            count = counts.get(message, 0)
            if count != 1:
                what = "loss" if count == 0 else "double"
                yield f"{what}: {name} has {count} rows of {message[0]}:{message[1]}, which is acked"
            elif not attempts.get(message, set()) <= {expected}:
                yield f"{name} has a row of an older attempt of {message[0]}:{message[1]}"
        for message, count in counts.items():
            if message not in kept and (message not in world.untracked or count > 1):
                yield f"{name} has {count} rows of {message[0]}:{message[1]}, which is not acked"


def is_told(world: Scenario, s: State, name: str) -> bool:
    """Whether a table is not what the store left, so that whoever wants to publish there is told."""
    found = s.targets.get(name, Target())
    return (found.strange and not found.txn) or not agrees(world, s, name)


def published(world: Scenario, s: State, name: str) -> tuple[dict[Message, int], dict[Message, set[int]]]:
    """How many rows of a table each message has a part in, and of which attempts, where the table tells."""
    counts: dict[Message, int] = {}
    attempts: dict[Message, set[int]] = {}
    is_sum = name in world.topologies[s.topology].sums
    for first, second in s.targets.get(name, Target()).rows:
        origins, count = (first, second) if is_sum else (second, 1)
        for message in origins:
            counts[message] = counts.get(message, 0) + count
        if not is_sum and first is not None:
            attempts.setdefault(first.message, set()).add(first.attempt)
    return counts, attempts


def acked_by(s: State, fold: int) -> dict[Message, Root]:
    """Message -> its newest attempt that was acked by a fold."""
    rows = (row for each in s.ledger[:fold] for row in each.settled if row.state == "acked")
    found: dict[Message, Root] = {}
    for row in rows:
        found[row.root.message] = max(
            row.root, found.get(row.root.message, row.root), key=lambda root: root.attempt
        )
    return found


def unfinished(world: Scenario, s: State) -> str | None:
    """What is wrong where nothing is left to do."""
    for row in s.ledger[-1].live if s.ledger else ():
        return f"wedge: {named(row)} stays {row.state}"
    settled = {row.root.message for fold in s.ledger for row in fold.settled}
    for spout in world.topologies[s.topology].spouts:
        for offset in range(1, world.messages.get(spout, 0) + 1):
            message = (spout, offset)
            if message not in settled and message not in world.untracked:
                return f"loss: {spout}:{offset} has no row"
            for name in world.topologies[s.topology].targets if message in world.untracked else ():
                count = published(world, s, name)[0].get(message, 0)
                if count != 1:
                    return f"{name} has {count} rows of {spout}:{offset}, which is not tracked"
    refused = refused_upto(s, len(s.ledger))
    for name in world.topologies[s.topology].targets:
        if is_told(world, s, name):
            continue
        counts, _ = published(world, s, name)
        for message, root in acked_by(s, len(s.ledger)).items():
            count = counts.get(message, 0)
            if root not in refused and count != 1:
                return f"loss: {name} has {count} rows of {message[0]}:{message[1]}, which is acked"
            if root in refused and count:
                return f"{name} has {count} rows of {message[0]}:{message[1]}, which was refused"
    return next(untold(world, s, refused), None)


def untold(world: Scenario, s: State, refused: set[Root]) -> Iterator[str]:
    """Messages whose acked attempt was refused, and that count as acked all the same; and the reverse."""
    for message, row in newest_rows(world, s, len(s.ledger)).items():
        if row.state == "acked" and row.root in refused:
            yield f"loss: {message[0]}:{message[1]} was refused, and nobody is told"


def named(row: LedgerRow) -> str:
    return f"{row.root.spout}:{row.root.offset}#{row.attempt}"
