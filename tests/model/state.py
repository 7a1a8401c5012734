"""What the model's world looks like at one moment: the tables that are committed, and the runs at work.

A state is immutable and hashable. A tuple's id is a symbol of its own and XOR is a symmetric difference of
sets of them, so that a zero is always the protocol's and never the arithmetic's.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

Message = tuple[str, int]  # spout, source offset
TupleId = tuple[str, int, int]  # component, batch, row


class Frozen(dict[Any, Any]):
    """A mapping that can be hashed."""

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(frozenset(self.items()))

    def put(self, key: Any, value: Any) -> "Frozen":
        return Frozen({**self, key: value})


class Root(NamedTuple):
    """One emission of a message. As in `root_id`, the batch is part of it."""

    spout: str
    offset: int
    attempt: int
    batch: int

    @property
    def message(self) -> Message:
        return self.spout, self.offset


class Emission(NamedTuple):
    """One message that a replay emits again."""

    offset: int
    attempt: int
    replaces: Root | None


class Taken(NamedTuple):
    """What a bolt's batch takes in of one stream: the batches in (after, upto]."""

    after: int
    upto: int
    held: int = 0  # the oldest batch in which a tuple lies that is held back; 0 where none is

    def can_give(self, numbers: Iterable[int]) -> bool:
        after = min(self.after, self.held - 1) if self.held else self.after
        return any(after < number <= self.upto for number in numbers)


FAILURES = ("fail", "reject")  # kinds of rows and of events


class Batch(NamedTuple):
    """A row of the journal."""

    component: str
    number: int
    kind: str  # next, replay, retire
    input: Any  # of a bolt: stream -> Taken; of a spout: offsets, or emissions
    edges: tuple[str, ...]

    @property
    def positions(self) -> dict[str, int]:
        return {stream: taken.upto for stream, taken in self.input.items()}


class Row(NamedTuple):
    """A row of a stream."""

    id: TupleId
    kind: str  # "": a tuple; fail, reject, held, lost
    roots: tuple[Root, ...]  # none where it is not tracked
    origins: frozenset[Message]
    place: TupleId | None = None  # of a held tuple, where it lies
    since: int = 0  # of a held tuple, the batch that took it in first
    replaces: Root | None = None  # of a spout's


class Stream(NamedTuple):
    """A stream's table."""

    txn: int = 0
    batches: Frozen = Frozen()  # number -> its rows


class Event(NamedTuple):
    """A row of `events`."""

    root: Root
    kind: str  # init, ack, fail, reject, join, lost
    ack_val: frozenset[tuple[TupleId, str]] = frozenset()  # tuple ids by edge
    outstanding: int = 0  # emitted − consumed
    joined: Root | None = None
    replaces: Root | None = None


class Commit(NamedTuple):
    """One commit of `events`: all events of one batch."""

    component: str
    batch: int
    events: tuple[Event, ...]


class LedgerRow(NamedTuple):
    """A row of the ledger."""

    root: Root
    attempt: int  # on retrying the one to come
    state: str
    ack_val: frozenset[tuple[TupleId, str]] = frozenset()
    outstanding: int = 0
    turn: int = 0
    reason: str = ""
    joined: Root | None = None
    replaces: Root | None = None


class Fold(NamedTuple):
    """One commit of the ledger."""

    version: int  # of events, up to which it has read
    logged: Frozen  # component -> its newest batch at that version
    turn: int
    live: tuple[LedgerRow, ...]
    settled: tuple[LedgerRow, ...]
    refusals: int = 0  # that it has read


class Refusal(NamedTuple):
    """One commit of what a published table would not take, after the ack."""

    table: str
    roots: frozenset[Root]


class Target(NamedTuple):
    """A published table."""

    txn: int = 0
    rows: tuple[Any, ...] = ()  # (root, origins) of each row; of aggregates (origins, count)
    former: int = 0  # of a copy, what its original had published, up to the fold that was copied
    id: int = 0  # another one where it was made anew
    strange: bool = False  # another store has published to it what this one does not know of

    @property
    def position(self) -> int:
        return self.txn or self.former


class Process(NamedTuple):
    """A run at work. What it has read so far is its memory, and may be old."""

    op: str
    component: str
    step: str
    topology: int
    memory: Any = None


Part = tuple[str, str]  # a field of the state, and in it the table's name, if it has several


class Copying(NamedTuple):
    """How far a backup or a move has come."""

    trims: int  # how many there were before its first table
    left: tuple[Part, ...]
    pinned: Frozen = Frozen()  # field -> what the copy has there


class State(NamedTuple):
    """Everything."""

    journal: Frozen = Frozen()  # component -> batches
    streams: Frozen = Frozen()  # component -> Stream
    events: tuple[Commit, ...] = ()
    ledger: tuple[Fold, ...] = ()
    targets: Frozen = Frozen()  # name -> Target
    refusals: tuple[Refusal, ...] = ()
    strict: frozenset[str] = frozenset()  # published tables that have got another rule
    trims: tuple[Frozen, ...] = ()  # each: component -> its newest batch that may be gone
    compacted: int = 0  # live rows of folds before this one are gone from the ledger's newest version
    clock: int = 0
    topology: int = 0
    asked: int = 0  # replays by hand
    processes: tuple[Process, ...] = ()
    copied: bool = False  # this is the copy of a store
    known: Frozen = Frozen()  # table -> the newest fold that the store knows to be in it, and who it was
    mishaps: int = 0  # tables that were dropped, stores that were away

    def newest(self, component: str) -> int:
        return len(self.journal.get(component, ()))

    def batch(self, component: str, number: int) -> Batch:
        found: Batch = self.journal[component][number - 1]
        return found

    def logged(self, component: str, version: int | None = None) -> int:
        return max((c.batch for c in self.events[:version] if c.component == component), default=0)

    def unfinished(self, component: str) -> Batch | None:
        logged = self.logged(component)
        return None if self.newest(component) == logged else self.batch(component, logged + 1)

    def stream(self, component: str) -> Stream:
        found: Stream = self.streams.get(component, Stream())
        return found

    def rows(self, component: str, batches: Iterable[int], kind: str = "") -> Iterator[Row]:
        there = self.stream(component).batches
        return (row for number in batches for row in there.get(number, ()) if row.kind == kind)

    def numbers_for(self, stream: str, consumer: str, after: int, upto: int) -> list[int]:
        """Batches of a stream in (after, upto] that have the consumer among their edges."""
        return [b.number for b in self.journal.get(stream, ())[after:upto] if consumer in b.edges]

    def emissions(self) -> dict[Root, int]:
        """Root -> how many inits it has."""
        found: dict[Root, int] = {}
        for commit in self.events:
            for event in commit.events:
                if event.kind == "init":
                    found[event.root] = found.get(event.root, 0) + 1
        return found


def by_root(
    parts: Iterable[tuple[tuple[Root, ...], TupleId, str, int]],
) -> Mapping[Root, tuple[frozenset[Any], int]]:
    """Per root the symmetric difference of the ids of its tuples by edge, and how many these are.

    Args:
        parts: of each tuple and edge: roots, id, consumer, and 1 or −1.
    """
    found: dict[Root, tuple[frozenset[Any], int]] = {}
    for roots, tuple_id, consumer, count in parts:
        for root in roots:
            ids, total = found.get(root, (frozenset(), 0))
            found[root] = ids ^ {(tuple_id, consumer)}, total + count
    return found
