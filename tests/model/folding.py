"""A fold, step by step: it fixes the ledger and the clock, then one version of events, and commits."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from tests.model.state import FAILURES, Event, Fold, Frozen, LedgerRow, Message, Process, Root, State
from tests.model.world import Scenario

Outcome = tuple[str, State, Process | None]


def read_ledger(world: Scenario, s: State, me: Process) -> Iterator[Outcome]:
    yield "fixes the ledger", s, me._replace(step="version", memory=(len(s.ledger), s.clock))


def fix_version(world: Scenario, s: State, me: Process) -> Iterator[Outcome]:
    """Fix the version of events, and with it which tuples wait."""
    previous, clock = me.memory
    version = len(s.events)
    if world.on("one version"):
        memory = previous, clock, version, waiting(world, s, me.topology, version)
        yield "fixes events", s, me._replace(step="refusals", memory=memory)
    else:
        yield "fixes events", s, me._replace(step="waiting", memory=(previous, clock, version))


def read_waiting(world: Scenario, s: State, me: Process) -> Iterator[Outcome]:
    """Look for waiting tuples as of now: where the rule of one version is left out."""
    found = waiting(world, s, me.topology, len(s.events))
    yield "looks for waiting tuples", s, me._replace(step="refusals", memory=(*me.memory, found))


def read_refusals(world: Scenario, s: State, me: Process) -> Iterator[Outcome]:
    """Fix what published tables have refused."""
    after = me._replace(step="commit", memory=(*me.memory, len(s.refusals)))
    if world.refused:
        yield "fixes what was refused", s, after
    else:
        yield from commit(world, s, after)


def waiting(world: Scenario, s: State, topology: int, version: int) -> frozenset[Root]:
    """Roots of tuples in logged batches that a bolt among their edges, and still there, has not logged."""
    found: set[Root] = set()
    for bolt in world.topologies[topology].bolts:
        done = s.logged(bolt.name, version)
        positions = s.batch(bolt.name, done).positions if done else {}
        for stream in bolt.inputs:
            numbers = s.numbers_for(stream, bolt.name, positions.get(stream, 0), s.logged(stream, version))
            found.update(root for row in s.rows(stream, numbers) for root in row.roots)
    return frozenset(found)


def commit(world: Scenario, s: State, me: Process) -> Iterator[Outcome]:
    """Append the fold, if its number is free."""
    previous, clock, version, wait, refusals = me.memory
    if len(s.ledger) > previous and world.on("fold once"):
        yield f"fold {previous + 1} is there already", s, None
        return
    before = s.ledger[previous - 1] if previous else Fold(0, Frozen(), clock, (), ())
    old = [row for each in s.ledger[:previous] for row in each.settled]
    spouts = world.topologies[me.topology].spouts
    rows = decide(world, before, old, new_events(s, before, version), clock, wait, spouts)
    rows += refused_rows(world, s, before, refusals, [*old, *rows])
    live = tuple(row for row in rows if row.state in ("pending", "retrying"))
    settled = tuple(row for row in rows if row not in live)
    logged = Frozen({name: s.logged(name, version) for name in s.journal})
    fold = Fold(version, logged, clock, live, settled, refusals)
    what = f"commits fold {len(s.ledger) + 1}: {', '.join(described(row) for row in rows)}"
    if world.on("fold's position"):
        yield what, s._replace(ledger=(*s.ledger, fold)), None
        return
    half = fold._replace(version=before.version, logged=before.logged)
    later = me._replace(step="position", memory=(len(s.ledger), fold))
    yield what + ", but not its position", s._replace(ledger=(*s.ledger, half)), later


def commit_position(world: Scenario, s: State, me: Process) -> Iterator[Outcome]:
    index, fold = me.memory
    yield "commits the position", s._replace(ledger=(*s.ledger[:index], fold, *s.ledger[index + 1 :])), None


def refused_rows(
    world: Scenario, s: State, before: Fold, upto: int, rows: Sequence[LedgerRow]
) -> list[LedgerRow]:
    """What becomes of acked messages that a table has refused: they are given up, unless they go on."""
    refused = {root for each in s.refusals[before.refusals : upto] for root in each.roots}
    found = []
    for row in [row for row in rows if row.state == "acked" and row.root in refused]:
        found.append(row._replace(state="failed", reason="refused", replaces=None))
        others = [each for each in rows if each.root.message == row.root.message]
        later = any(each.attempt > row.attempt for each in others) and world.on("later attempt")
        if not later and not any((each.root, each.state) == (row.root, "dead letter") for each in others):
            found.append(found[-1]._replace(state="dead letter"))
    return found


def described(row: LedgerRow) -> str:
    return f"{row.root.spout}:{row.root.offset}#{row.attempt} {row.state}"


def new_events(s: State, before: Fold, version: int) -> list[Event]:
    """Events of batches that no fold has seen."""
    new = (c for c in s.events[:version] if c.batch > before.logged.get(c.component, 0))
    return [event for commit in new for event in commit.events]


def decide(
    world: Scenario,
    before: Fold,
    settled: Sequence[LedgerRow],
    events: Iterable[Event],
    turn: int,
    wait: frozenset[Root],
    spouts: Iterable[str],
) -> list[LedgerRow]:
    """The rows of a fold, as `tests/kit/oracle.py` decides them."""
    pending = {row.root: row for row in before.live if row.state == "pending"}
    retrying = [row for row in before.live if row.state == "retrying"]
    if not world.on("retrying apart"):
        pending |= {row.root: row for row in retrying}
    by_root: dict[Root, list[Event]] = {root: [] for root in pending}
    for event in events:
        by_root.setdefault(event.root, []).append(event)
    arrived = [e for found in by_root.values() for e in found if e.kind in ("init", "lost")]
    in_flight = _newest([*pending, *(e.root for e in arrived if e.kind == "init")])
    attempts: dict[Root, LedgerRow] = {}
    rows: list[LedgerRow] = []
    for root, found in by_root.items():
        inits = [e for e in found if e.kind == "init"]
        if root in pending or inits:
            attempt = added_up(root, pending.get(root), found, turn)
            emissions = len(inits) + (root in pending)
            attempts[root] = judge(
                world, attempt, found, emissions, in_flight[root.message], turn, root in wait
            )
        elif any(e.kind == "lost" for e in found):
            rows.append(LedgerRow(root, root.attempt, "lost"))
    came = _newest(e.root for e in arrived)
    still = [row for row in retrying if came.get(row.root.message, 0) < row.attempt]
    gone = [row for row in still if row.root.spout not in spouts and world.on("spout gone")]
    rows += [row._replace(state="lost") if row in gone else row for row in still if row.root not in attempts]
    if world.on("together"):
        links = replaced_together(settled, rows, attempts) if world.on("replaced together") else []
        settle_together(world, attempts, connected([*joined(pending, by_root), *links]))
    rows += attempts.values()
    rows += [
        follower(world, row)
        for row in attempts.values()
        if row.state in ("failed", "timed out") and row.reason != "superseded"
    ]
    return sorted(rows, key=lambda row: (row.root, row.attempt, row.state))


def _newest(roots: Iterable[Root]) -> dict[Message, int]:
    found: dict[Message, int] = {}
    for root in roots:
        found[root.message] = max(root.attempt, found.get(root.message, 0))
    return found


def added_up(root: Root, row: LedgerRow | None, events: Iterable[Event], turn: int) -> LedgerRow:
    row = row or LedgerRow(root, root.attempt, "pending", turn=turn)
    for event in events:
        row = row._replace(
            ack_val=row.ack_val ^ event.ack_val,
            outstanding=row.outstanding + event.outstanding,
            replaces=event.replaces or row.replaces,
        )
    return row


def judge(
    world: Scenario, row: LedgerRow, events: list[Event], emissions: int, newest: int, turn: int, waits: bool
) -> LedgerRow:
    """One attempt in its new state; the first that holds."""
    zero = not row.ack_val and (row.outstanding == 0 or not world.on("count"))
    failed = any(e.kind in FAILURES for e in events)
    rejected = any(e.kind == "reject" for e in events) and world.on("for good")
    if newest > row.attempt and world.on("superseded"):
        return row._replace(state="failed", reason="superseded")
    if zero and emissions == 1 and failed and not world.on("fail first"):
        return row._replace(state="acked")
    if failed:
        return row._replace(state="failed", reason="reject" if rejected else "fail")
    if emissions > 1 and world.on("one init"):
        return row._replace(state="failed", reason="twice")
    if zero:
        return row._replace(state="acked")
    if not world.patient and turn > row.turn and not (waits and world.on("waiting")):
        return row._replace(state="timed out", reason="timeout")
    return row._replace(state="pending")


def joined(
    pending: Mapping[Root, LedgerRow], events: Mapping[Root, Iterable[Event]]
) -> list[tuple[Root, Root]]:
    """Pairs of roots that share a tuple."""
    links = [(root, row.joined) for root, row in pending.items() if row.joined]
    return links + [(e.root, e.joined) for found in events.values() for e in found if e.joined]


def replaced_together(
    settled: Sequence[LedgerRow], others: Sequence[LedgerRow], attempts: dict[Root, LedgerRow]
) -> list[tuple[Root, Root]]:
    """Pairs of attempts that replace what was acked together; none is complete while one is to come."""
    live = {row.root.message for row in [*attempts.values(), *others] if row.state in ("pending", "retrying")}
    ended = [row for row in [*settled, *others] if row.state in ("dead letter", "lost")]
    newest = _newest(attempts)
    replacing = [row for row in attempts.values() if row.attempt == newest[row.root.message]]
    there = {row.replaces for row in replacing}
    acked = [row for row in settled if row.state == "acked" and row.joined]
    links = []
    for group in {row.joined for row in acked if row.root in there}:
        members = {row.root for row in acked if row.joined == group}
        missing = members - there
        ends = [
            row
            for row in ended
            for old in missing
            if row.root.message == old.message not in live and row.attempt > old.attempt
        ]
        mine = [row for row in replacing if row.replaces in members]
        for row in mine:
            links.append((mine[0].root, row.root))
            if ends and row.state in ("pending", "acked"):
                attempts[row.root] = row._replace(state="failed", reason="partner")
            elif missing and row.state == "acked":
                attempts[row.root] = row._replace(state="pending")
    return links


def connected(links: Iterable[tuple[Root, Root]]) -> list[set[Root]]:
    found: dict[Root, set[Root]] = {}
    for one, other in links:
        both = found.get(one, {one}) | found.get(other, {other})
        found |= dict.fromkeys(both, both)
    return list({id(group): group for group in found.values()}.values())


def settle_together(world: Scenario, attempts: dict[Root, LedgerRow], joined: list[set[Root]]) -> None:
    """Let each group be acked as a whole or fail as a whole."""
    for group in joined:
        found = [attempts[root] for root in sorted(group) if root in attempts]
        fault = any(row.state not in ("pending", "acked") for row in found)
        fault |= len(found) < len(group) and world.on("settled partner")
        complete = all(row.state == "acked" for row in found)
        for row in found:
            row = row._replace(joined=min(group))
            if row.state in ("pending", "acked") and fault:
                row = row._replace(state="failed", reason="partner")
            elif row.state == "acked" and not complete:
                row = row._replace(state="pending")
            attempts[row.root] = row


def follower(world: Scenario, row: LedgerRow) -> LedgerRow:
    """What follows a failed attempt: a wait for the next one, or the end."""
    if row.attempt >= world.attempts or row.reason == "reject":
        return row._replace(state="dead letter")
    return LedgerRow(row.root, row.attempt + 1, "retrying", replaces=row.replaces, reason=row.reason)


STEPS = {
    "ledger": read_ledger,
    "version": fix_version,
    "waiting": read_waiting,
    "refusals": read_refusals,
    "commit": commit,
    "position": commit_position,
}
