"""How far a bolt takes each of its inputs, so that the tuples of one message arrive together.

The branches of a topology are not planned at one moment. So a spout's new batch, such as a replay, may be
taken in by the bolt of one branch and not yet by the bolt of the other. A bolt that joins both branches would
find no partners for the tuples of this batch, then or later, and the message would be acked all the same. So
of each stream a bolt takes only the batches whose messages have passed all branches.
"""

from collections.abc import Mapping, Sequence

from acker.core.snapshot.journal import Journal
from acker.core.stream_names import component_of
from acker.topology.topology import Topology

Reach = dict[str, int]  # spout -> number of one of its batches


def meeting(
    topology: Topology, journal: Journal, bolt: str, taken: Mapping[str, int], upto: Mapping[str, int]
) -> dict[str, int]:
    """Input stream -> the last of its batches that the bolt takes, so that branches of a message meet.

    Args:
        taken: input stream -> the last batch that the bolt has taken in.
        upto: input stream -> the last batch that the bolt could take in.
    """
    paths = _Paths(topology, journal)
    found = dict(upto)
    offered = {name: journal.numbers_for(name, bolt, taken[name], upto[name]) for name in upto}
    while True:
        passed = {name: paths.passed(name, bolt, end) for name, end in found.items()}
        before = dict(found)
        for name in found:
            others = [reach for other, reach in passed.items() if other != name]
            while found[name] > taken[name] and _is_ahead(paths.seen(name, found[name]), others):
                found[name] = max((n for n in offered[name] if n < found[name]), default=taken[name])
        if found == before:
            return found


def _is_ahead(seen: Reach, others: Sequence[Reach]) -> bool:
    return any(number > reach.get(spout, number) for reach in others for spout, number in seen.items())


class _Paths:
    """The batches of spouts from which the tuples in a topology's streams come."""

    def __init__(self, topology: Topology, journal: Journal) -> None:
        self._topology = topology
        self._journal = journal
        self._ends: dict[tuple[str, int], dict[str, int]] = {}

    def seen(self, name: str, number: int) -> Reach:
        """Spout -> its newest batch of which tuples may be in a stream, up to one of the stream's batches.

        Args:
            name: the name of the stream.
            number: the last batch of the stream that counts.
        """
        component = component_of(name)
        inputs = self._topology.components[component].inputs
        if not inputs:
            return {component: number}
        found: Reach = {}
        for upstream in inputs:
            for spout, newest in self.seen(upstream, self._end(component, number, upstream)).items():
                found[spout] = max(newest, found.get(spout, newest))
        return found

    def passed(self, name: str, consumer: str, number: int) -> Reach:
        """Spout -> the batch up to which a consumer has all tuples that come to it by a stream.

        Args:
            name: the name of the stream.
            consumer: the component that reads the stream.
            number: the last batch of the stream that the consumer takes in.
        """
        component = component_of(name)
        # What is not meant for the consumer holds up nothing.
        newest = self._journal.logged(component)
        left = self._journal.numbers_for(name, consumer, number, newest)
        whole = left[0] - 1 if left else newest
        inputs = self._topology.components[component].inputs
        if not inputs:
            return {component: whole}
        found: Reach = {}
        for upstream in inputs:
            end = self._end(component, whole, upstream)
            for spout, last in self.passed(upstream, component, end).items():
                found[spout] = min(last, found.get(spout, last))
        return found

    def _end(self, bolt: str, number: int, upstream: str) -> int:
        """The last batch of a stream that a bolt has taken in with one of its own; 0 where there is none."""
        if not number:
            return 0
        if (bolt, number) not in self._ends:
            self._ends[bolt, number] = self._journal.read(bolt, number).spans.ends
        return self._ends[bolt, number].get(upstream, 0)
