"""The sums of published rows, kept before a trimming deletes the rows from their stream.

So an audit vouches for a published table of rows although the stream does not have the rows any more.
"""

from collections.abc import Mapping

import polars as pl

from acker.core.digests import NoDigest
from acker.core.snapshot.downstream import downstream_batches
from acker.core.snapshot.journal import Journal
from acker.core.snapshot.kept import keep_rows, nothing_gone
from acker.core.snapshot.ledger import read_fold
from acker.core.snapshot.trims import Trim
from acker.core.store.schemas import LEDGER, stream
from acker.core.stream_names import component_of
from acker.operations.publish import former_streams
from acker.targets.base import published_fold
from acker.targets.by_content import gone_rows
from acker.topology.topology import Topology


def keep_sums_of_trimmed_rows(
    topology: Topology, journal: Journal, before: Trim, announced: Trim, number: int
) -> None:
    """Keep the sums of the rows that a trimming deletes, of each stream that is published row by row.

    Args:
        before: the newest trimming that was counted.
        announced: the trimming after that one.
        number: the number under which the announced trimming is counted.
    """
    positions = _positions(topology, journal)
    try:
        gone = {
            name: _gone(journal, name, position, before, announced) for name, position in positions.items()
        }
    except NoDigest:
        return  # and the audit says that nothing is kept
    for name, rows in gone.items():
        keep_rows(journal.store, name, rows, number)


def _gone(journal: Journal, name: str, position: int, before: Trim, announced: Trim) -> pl.DataFrame:
    """The sums of the rows that an announced trimming deletes from a stream, by the fold that acked them.

    Args:
        position: the newest fold that the stream's target has. Rows of no message count if that fold, or one
            before it, has read their batch.
        before: the newest trimming that was counted. Rows that it deleted do not count.

    Raises:
        NoDigest: a column is of a type that has no digest.
    """
    if journal.open(stream(name)) is None:
        return nothing_gone()  # it has emitted nothing yet
    logged = read_fold(journal.require(LEDGER), position).logged if position else {}
    upto = logged.get(component_of(name), 0)
    batches = _caused(journal, name, before, announced)
    return gone_rows(journal, name, before, announced, upto, batches)


def _positions(topology: Topology, journal: Journal) -> Mapping[str, int]:
    """Stream that feeds, or has fed, a target of rows -> the newest fold that the target has of it."""
    found: dict[str, int] = {}
    for name, publication in topology.publications.items():
        if publication.target.has_roots:
            found |= former_streams(topology, journal, publication.target)
            found[name] = published_fold(journal, publication.target, name)
    return found


def _caused(journal: Journal, name: str, before: Trim, after: Trim) -> list[int]:
    """The batches of a stream that were caused by the batches of spouts that a trimming deletes."""
    spouts = [spout for spout in after.upto if spout not in _bolts(journal)]
    emissions = [
        (spout, batch)
        for spout in spouts
        for batch in range(before.upto.get(spout, 0) + 1, after.upto[spout] + 1)
    ]
    return downstream_batches(journal, emissions).get(component_of(name), [])


def _bolts(journal: Journal) -> set[str]:
    return {bolt for bolts in journal.edges.values() for bolt in bolts}
