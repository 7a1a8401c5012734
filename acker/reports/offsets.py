"""Committed positions: how far each partition of a spout is emitted, and how far all of it is settled.

Both are exclusive, as Kafka's offsets are. A position that the source never had holds nothing back; one live
message does, as in Storm's OffsetManager. Read without Spark.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from deltalake import DeltaTable

from acker.components.base import Component
from acker.core.delta import Store, last_number, query
from acker.core.ledger import Fold, unfolded
from acker.core.schemas import EVENTS, LEDGER
from acker.journal.inputs import SourceRange
from acker.journal.journal import Journal
from acker.topology.topology import Topology


@dataclass(frozen=True)
class Position:
    """How far one partition of a spout is."""

    spout: str
    source_partition: str
    emitted_upto: int  # one past the last position that was read
    committed_upto: int | None  # everything before it is settled; None where nothing is committed yet
    behind: int  # positions from the first live message on, 0 where none is live


def positions(topology: Topology, store: Store, fold: Fold | None) -> list[Position]:
    """Every partition of which a spout has emitted something, by spout and partition.

    Args:
        fold: the newest fold, read before anything that this reads, or None before the first.
    """
    events = store.require(EVENTS)
    logged = {spout.name: last_number(events, spout.name) for spout in topology.spouts}
    live = _live(store, fold, events, logged)
    journal = Journal(store, topology.roles)
    found = []
    for spout in topology.spouts:
        for partition, end in sorted(_emitted(journal, spout, logged[spout.name]).items()):
            lowest, settled = live.get((spout.name, partition), (end, end - 1))
            committed = None if settled is None else settled + 1
            found.append(Position(spout.name, partition, end, committed, end - lowest))
    return found


def _emitted(journal: Journal, spout: Component, logged: int) -> dict[str, int]:
    """Partition -> one past the last position of the spout's logged batches."""
    assert spout.source is not None
    ends: dict[str, int] = {}
    for batch in journal.rows(f"component = '{spout.name}' AND kind = 'next' AND batch <= {logged}"):
        assert isinstance(batch.input, SourceRange)
        for partition, end in spout.source.ends(batch.input.described).items():
            ends[partition] = max(end, ends.get(partition, end))
    return ends


def _live(
    store: Store, fold: Fold | None, events: DeltaTable, logged: Mapping[str, int]
) -> dict[tuple[str, str], tuple[int, int | None]]:
    """(spout, partition) with live messages -> the lowest of them, and the highest settled one below it.

    Live are the newest fold's live rows, and what was emitted or lost in batches that no fold has seen.
    """
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
        ledger=store.require(LEDGER, fold.ledger_version if fold else None),
        events=events,
    )
    return {(row["spout"], row["source_partition"]): (row["lowest"], row["settled"]) for row in rows}
