"""Committed offsets: how far each partition of a spout is emitted, and how far all of it is settled.

Both are exclusive, as Kafka's offsets are. A position that the source never had holds nothing back; one live
message does, as in Storm's OffsetManager. Read without Spark. Sources that take them are told, as a Kafka
consumer group is.
"""

import logging
from collections.abc import Mapping
from dataclasses import dataclass

from acker.components.spout import SpoutComponent
from acker.core.errors import SourceError
from acker.core.snapshot.journal import Journal
from acker.core.snapshot.ledger import unfolded
from acker.core.store.schemas import EVENTS, LEDGER
from acker.core.store.tables import query
from acker.spouts import Committing
from acker.topology.topology import Topology

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class PartitionOffsets:
    """How far one partition of a spout is."""

    spout: str
    source_partition: str
    emitted_upto: int  # one past the last position that was read
    committed_upto: int | None  # everything before it is settled; None where nothing is committed yet
    behind: int  # positions from the first live message on, 0 where none is live


def partition_offsets(topology: Topology, journal: Journal) -> list[PartitionOffsets]:
    """Every partition of which a spout has emitted something, by spout and partition."""
    logged = {spout.name: journal.logged(spout.name) for spout in topology.spouts}
    live = _live(journal, logged)
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


def _live(journal: Journal, logged: Mapping[str, int]) -> dict[tuple[str, str], tuple[int, int | None]]:
    """(spout, partition) with live messages -> the lowest of them, and the highest settled one below it.

    Live are the newest fold's live rows, and what was emitted or lost in batches that no fold has seen.
    """
    fold = journal.fold
    rows = query(
        f"""
        WITH live AS (
            SELECT spout, source_partition, source_offset FROM ledger
            WHERE live_in = {fold.number if fold else 0}
            UNION ALL
            SELECT spout, source_partition, source_offset FROM events
            WHERE kind IN ('init', 'lost') AND ({unfolded(fold, logged)})),
        lowest AS (
            SELECT spout, source_partition, min(source_offset) AS lowest
            FROM live GROUP BY spout, source_partition),
        settled AS (
            SELECT spout AS s, source_partition AS p, source_offset AS o FROM ledger WHERE live_in IS NULL)
        SELECT spout, source_partition, lowest, max(o) AS settled
        FROM lowest LEFT JOIN settled ON spout = s AND source_partition = p AND o < lowest
        GROUP BY spout, source_partition, lowest
        """,
        ledger=journal.require(LEDGER),
        events=journal.require(EVENTS),
    )
    return {(row["spout"], row["source_partition"]): (row["lowest"], row["settled"]) for row in rows}


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
