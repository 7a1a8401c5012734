"""What stays as it is while a scenario is explored: its topologies, its messages, and the rules that hold."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

from tests.model.rules import RULES
from tests.model.state import Message


class Bolt(NamedTuple):
    """A bolt and what its function does.

    Args:
        kind: `each` makes one tuple of each. `join` makes one of those in a batch that have the same offset;
            `all` of all in a batch. `match` is a rich bolt that does as `join`, and holds back what has no
            partner yet. `later` is one that makes a tuple of each, and holds offset 1 back for one batch.
        partners: of how many messages a match is made.
    """

    name: str
    inputs: tuple[str, ...]
    kind: str = "each"
    partners: int = 2


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
        return found is not None and found.kind in ("match", "later")


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
        rejected: those of `bad` whose failure is for good.
        refused: (table, offset) of messages whose rows a table refuses once it has got another rule.
        gone: messages that the source may no longer hold when they are replayed.
        untracked: messages that are not tracked.
        ticks: how often the clock moves by more than a timeout.
        patient: whether attempts never time out.
        hands: replays by hand.
        ops: what may happen at any time beside spouts' and bolts' batches, folds and publishing. A backup or
            a move happens once, beside the runs that are at work.
        processes: how many runs may be at work at once.
        read: how many messages a spout reads at a time.
        spotless: whether no attempt may fail.
        begin: runs that have ended before anything else happens.
        settled_first: whether all messages are settled and published before anything else happens.
        off: rules that are left out.
    """

    name: str
    topologies: tuple[Topology, ...]
    messages: Mapping[str, int]
    attempts: int = 2
    bad: frozenset[tuple[str, int]] = frozenset()
    rejected: frozenset[tuple[str, int]] = frozenset()
    refused: frozenset[tuple[str, int]] = frozenset()
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
    begin: tuple[str, ...] = ()
    settled_first: bool = False
    off: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        unknown = self.off - set(RULES)
        assert not unknown, unknown

    def on(self, rule: str) -> bool:
        assert rule in RULES, rule
        return rule not in self.off

    def without(self, *rules: str) -> "Scenario":
        return replace(self, off=frozenset(rules))
