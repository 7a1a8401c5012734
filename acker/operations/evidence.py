"""The contents that a target should have, according to a store."""

from acker.core.snapshot.journal import Journal
from acker.core.snapshot.kept import kept_rows
from acker.core.snapshot.ledger import read_fold
from acker.core.snapshot.refusals import recorded, refused_roots
from acker.core.snapshot.trims import counted_trim, newest_trim
from acker.core.store.schemas import LEDGER, stream
from acker.core.stream_names import component_of
from acker.operations.publish import former_streams
from acker.targets.base import Evidence, Target
from acker.targets.by_key import trimmed
from acker.topology.topology import Topology


def evidence_of(
    topology: Topology,
    journal: Journal,
    name: str,
    target: Target,
    upto: int,
    contents: bool = False,
    read_topics: bool = False,
) -> Evidence | None:
    """The contents that a target should have of the folds up to one; None where its stream has no tuple yet.

    Args:
        contents: whether messages are to be compared by what their rows say.
        read_topics: whether the records of topics are to be read as well.
    """
    if journal.open(stream(name)) is None:
        return None
    former = former_streams(topology, journal, target)
    streams = {each: journal.require(stream(each)) for each in (name, *former)}
    counted = counted_trim(journal.store)  # before what is kept, which later trimmings leave readable
    position = max([upto, *former.values()])
    fold = read_fold(journal.require(LEDGER), upto) if upto else None
    return Evidence(
        ledger=journal.require(LEDGER),
        stream=name,
        streams=streams,
        position=position,
        folded=_folded(journal, name, upto),
        trim=newest_trim(journal.store),
        counted=counted,
        kept_rows=kept_rows(journal.store, [*streams], counted, position),
        former={each: _folded(journal, each, fold) for each, fold in former.items()},
        may_be_untracked=topology.may_be_untracked(name),
        contents=contents,
        read_topics=read_topics,
        topology=topology.name,
        kept={each: table for each in streams if (table := journal.store.open(trimmed(each))) is not None},
        refused=refused_roots(recorded(journal), streams, fold),
        refused_here=refused_roots(recorded(journal), streams, None),
    )


def _folded(journal: Journal, name: str, fold: int) -> int:
    """The newest batch of a stream's component that a fold has read; 0 where there is none.

    Args:
        fold: the number of the fold; 0 before the first.
    """
    logged = read_fold(journal.require(LEDGER), fold).logged if fold else {}
    return logged.get(component_of(name), 0)
