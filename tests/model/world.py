"""What stays as it is while a scenario is explored: its topologies, its messages, and the rules that hold."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from tests.model.rules import RULES
from tests.model.state import Message


class Bolt(NamedTuple):
    """A bolt and what its function does.

    Args:
        kind: `each` makes one tuple of each. `join` makes one of those in a batch that have the same offset.
            `match` is a rich bolt that does the same and holds back what has no partner yet; a tuple with
            `alone` among its origins it does not hold back.
    """

    name: str
    inputs: tuple[str, ...]
    kind: str = "each"
    partners: int = 2  # how many origins make a match complete


@dataclass(frozen=True)
class Topology:
    """A graph, and which streams are published: table -> component; into running sums where so named."""

    spouts: tuple[str, ...]
    bolts: tuple[Bolt, ...]
    targets: Mapping[str, str]
    sums: tuple[str, ...] = ()

    def edges(self, component: str) -> tuple[str, ...]:
        return tuple(bolt.name for bolt in self.bolts if component in bolt.inputs)

    def bolt(self, name: str) -> Bolt | None:
        return next((bolt for bolt in self.bolts if bolt.name == name), None)

    def unread(self, stream: str, bolt: str) -> bool:
        found = self.bolt(bolt)
        return found is None or stream not in found.inputs

    def holds(self, name: str) -> bool:
        found = self.bolt(name)
        return found is not None and found.kind == "match"


class Hand(NamedTuple):
    """A replay by hand: of messages in these states, and at these positions, if any are named."""

    states: tuple[str, ...]
    messages: tuple[Message, ...] = ()


@dataclass(frozen=True)
class Scenario:
    """A small world and what may happen in it.

    Args:
        topologies: the first at the start; a change goes on to the next.
        messages: spout -> how many it has to read; their offsets are 1, 2, …
        attempts: of a message, at most.
        bad: (component, offset) of messages that may fail there, each time anew.
        gone: messages that the source may no longer hold when they are replayed.
        untracked: messages that are not tracked.
        ticks: how often the clock moves by more than a timeout.
        patient: whether attempts never time out.
        hands: replays by hand.
        ops: what may happen at any time beside spouts' and bolts' batches, folds and publishing.
        doubled: components, or `fold` and the like, of which two runs may be at work; all if none is named.
        processes: how many runs may be at work at once.
        read: how many messages a spout reads at a time.
        spotless: whether no attempt may fail.
        begin: steps that are taken first, undisturbed: how many of the undisturbed continuation.
    """

    name: str
    topologies: tuple[Topology, ...]
    messages: Mapping[str, int]
    attempts: int = 2
    bad: frozenset[tuple[str, int]] = frozenset()
    gone: frozenset[Message] = frozenset()
    untracked: frozenset[Message] = frozenset()
    ticks: int = 0
    patient: bool = True
    hands: tuple[Hand, ...] = ()
    ops: frozenset[str] = frozenset()
    processes: int = 2
    read: int = 9
    max_pending: int | None = None
    spotless: bool = False
    settled_first: bool = False  # explore from where all is settled and published
    only: frozenset[str] = frozenset()  # ops that may start at all; all if empty
    off: frozenset[str] = field(default_factory=frozenset)  # rules that are left out

    def __post_init__(self) -> None:
        unknown = self.off - set(RULES)
        assert not unknown, unknown

    def on(self, rule: str) -> bool:
        assert rule in RULES, rule
        return rule not in self.off

    def without(self, *rules: str) -> "Scenario":
        return replace(self, off=frozenset(rules))

    @property
    def has_holds(self) -> bool:
        return any(bolt.kind == "match" for t in self.topologies for bolt in t.bolts)
