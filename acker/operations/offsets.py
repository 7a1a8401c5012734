"""Committed offsets: how far each partition of a spout is emitted, and how far all its messages are settled.

Both numbers are exclusive, as Kafka's offsets are. A position that the source never had does not hold the
committed offset back. A live message does, as in Storm's OffsetManager. The offsets are read without Spark.
They are committed to sources that take them, such as a Kafka consumer group.
"""

import logging
from dataclasses import dataclass

from acker.components.spout import SpoutComponent
from acker.core.errors import SourceError
from acker.core.snapshot.in_flight import lowest_live
from acker.core.snapshot.journal import Journal
from acker.spouts import Committing
from acker.topology.topology import Topology

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class PartitionOffsets:
    """The offsets of one partition of a spout."""

    spout: str
    source_partition: str
    emitted_upto: int  # one past the last position that was read
    committed_upto: int | None  # everything before it is settled; None where nothing is committed yet
    behind: int  # positions from the first live message on, 0 where none is live


def partition_offsets(topology: Topology, journal: Journal) -> list[PartitionOffsets]:
    """Every partition of which a spout has emitted something, by spout and partition."""
    logged = {spout.name: journal.logged(spout.name) for spout in topology.spouts}
    live = lowest_live(journal, logged)
    found = []
    for spout in topology.spouts:
        for partition, end in sorted(_emitted(journal, spout, logged[spout.name]).items()):
            lowest, settled = live.get((spout.name, partition), (end, end - 1))
            committed = None if settled is None else settled + 1
            found.append(PartitionOffsets(spout.name, partition, end, committed, end - lowest))
    return found


def _emitted(journal: Journal, spout: SpoutComponent, logged: int) -> dict[str, int]:
    """Partition -> one past the last position of the spout's logged batches."""
    newest = journal.newest_of(spout.name, "next")
    if isinstance(spout.source, Committing) and newest is not None and newest.number <= logged:
        ranges = [
            newest.input.to_json()
        ]  # which names all partitions, so a fold need not read what was before
    else:
        ranges = journal.described(spout.name, logged)
    ends: dict[str, int] = {}
    for described in ranges:
        for partition, end in spout.source.ends(described).items():
            ends[partition] = max(end, ends.get(partition, end))
    return ends


def commit_offsets(topology: Topology, journal: Journal) -> None:
    """Commit the position of each partition to the sources that take it; a source that refuses stops nothing.

    All positions are committed each time, also those that did not move: brokers forget old ones.
    """
    spouts = {
        spout.name: spout.source
        for spout in topology.spouts
        if isinstance(spout.source, Committing) and spout.source.commits
    }
    if not spouts:
        return
    found = partition_offsets(topology, journal)
    for name, source in spouts.items():
        mine = {
            each.source_partition: each.committed_upto
            for each in found
            if each.spout == name and each.committed_upto is not None
        }
        try:
            source.commit(mine)
        except SourceError as error:
            log.error(
                "The offsets of %s are not committed: %s The fold stands, and the next one tries again.",
                name,
                error,
            )
