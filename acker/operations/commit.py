"""Telling sources how far all of their messages are settled, as a Kafka consumer group is told."""

import logging

from acker.core.errors import SourceError
from acker.core.snapshot.journal import Journal
from acker.operations.offsets import partition_offsets
from acker.spouts import Committing
from acker.topology.topology import Topology

log = logging.getLogger(__name__)


def commit_offsets(topology: Topology, journal: Journal) -> None:
    """Commit the position of each partition to the sources that take it; a source that refuses stops nothing.

    All are committed each time, also those that did not move: brokers forget what is old.
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
