"""The batches downstream of a message: those that can hold tuples of some emissions."""

from acker.core.snapshot.journal import Journal
from acker.core.store.schemas import LEDGER
from acker.core.stream_names import component_of


def downstream_batches(journal: Journal, emissions: list[tuple[str, int]]) -> dict[str, list[int]]:
    """Component -> its batches that can hold tuples caused by the given batches of spouts.

    The journal says which batches each batch took in. So the search goes down from batch to batch, also
    through bolts that are gone. By this search a publish reads only the batches of the messages that its fold
    acked, and not the stream's history.

    Args:
        emissions: spouts and the numbers of their batches.

    Raises:
        StoreError: the journal lacks a batch.
    """
    reached: dict[str, set[int]] = {}
    for spout, batch in emissions:
        newest = journal.planned(spout)
        if newest < batch:
            raise journal.rolled_back(spout, newest, LEDGER, batch)
        reached.setdefault(spout, set()).add(batch)
    edges = journal.edges
    growing = list(reached)
    while growing:
        upstream = growing.pop(0)
        numbers = sorted(reached[upstream])
        readers = [(name, bolt) for name in edges if component_of(name) == upstream for bolt in edges[name]]
        for name, bolt in readers:
            found = set(journal.given(bolt, name, numbers))
            if not found <= reached.setdefault(bolt, set()):
                reached[bolt] |= found
                growing.append(bolt)
    return {component: sorted(numbers) for component, numbers in reached.items()}
