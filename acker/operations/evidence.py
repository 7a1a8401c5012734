"""What a store says that a target should hold."""

from acker.core.ledger import read_fold
from acker.core.schemas import LEDGER, component_of, stream
from acker.core.trims import counted_trim, newest_trim
from acker.journal.journal import Journal
from acker.operations.publish import former_streams
from acker.targets.base import Evidence, Target
from acker.targets.by_key import trimmed
from acker.topology.topology import Topology


def evidence_of(
    topology: Topology, journal: Journal, name: str, target: Target, upto: int
) -> Evidence | None:
    """What a target should hold of the folds up to one; None where its stream has emitted nothing yet."""
    if journal.open(stream(name)) is None:
        return None
    former = former_streams(topology, journal, target)
    streams = {each: journal.require(stream(each)) for each in (name, *former)}
    fold = read_fold(journal.require(LEDGER), upto) if upto else None
    counted = counted_trim(journal.store)  # before what is kept, which later trimmings leave readable
    return Evidence(
        ledger=journal.require(LEDGER),
        stream=name,
        streams=streams,
        position=max([upto, *former.values()]),
        folded=fold.logged.get(component_of(name), 0) if fold else 0,
        trim=newest_trim(journal.store),
        counted=counted,
        kept={each: table for each in streams if (table := journal.store.open(trimmed(each))) is not None},
    )
