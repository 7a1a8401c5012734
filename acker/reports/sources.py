"""What the sources hold beyond what their spouts have planned, looked at without Spark."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from acker.components.spout import SpoutComponent, history
from acker.core.errors import AckerError
from acker.journal.journal import Journal
from acker.spouts import HasBacklog
from acker.topology.topology import Topology


@dataclass(frozen=True)
class SourceBacklog:
    """The backlog of one spout, as `acker.spouts.Backlog` has it, or why it is unknown."""

    spout: str
    unread: Mapping[str, int] | None  # None where it is unknown
    oldest: datetime | None = None
    left_out: Mapping[str, int] = field(default_factory=dict)
    unknown: str | None = None
    ends: Mapping[str, int] = field(default_factory=dict)


def amounts(unread: Mapping[str, int]) -> str:
    """What is unread, for people: "3 files, 512 bytes"."""
    return ", ".join(f"{n:,} {unit.removesuffix('s') if n == 1 else unit}" for unit, n in unread.items())


def reasons(left_out: Mapping[str, int]) -> str:
    """What a source holds that is never read, for people: "1 named *.part, 2 before start"."""
    return ", ".join(f"{count:,} {why}" for why, count in left_out.items())


def never_read(sources: Sequence[SourceBacklog], journal: Journal) -> list[str]:
    """Sentences on the spouts that have found nothing to read so far, each with what it leaves out."""
    found = []
    for source in sources:
        if source.unread == {} and journal.newest_of(source.spout, "next") is None:
            said = f"it leaves out {reasons(source.left_out)}" if source.left_out else "its source is empty"
            found.append(f"Spout {source.spout} has found nothing to read so far: {said}.")
    return found


def left_out(sources: Sequence[SourceBacklog]) -> dict[str, dict[str, int]]:
    """Spouts whose sources hold what is never read: why -> how much of it."""
    return {source.spout: dict(source.left_out) for source in sources if source.left_out}


def source_backlogs(topology: Topology, journal: Journal) -> list[SourceBacklog]:
    """The backlog of each spout, in the topology's order."""
    return [_backlog(spout, journal) for spout in topology.spouts]


def _backlog(spout: SpoutComponent, journal: Journal) -> SourceBacklog:
    if not isinstance(spout.source, HasBacklog):
        return SourceBacklog(spout.name, None, unknown="the spout has no method `backlog`")
    try:
        found = spout.source.backlog(history(journal, spout.name))
    except AckerError as error:
        return SourceBacklog(spout.name, None, unknown=str(error))
    except Exception as error:  # of the spout's author; what else there is to tell is told
        return SourceBacklog(spout.name, None, unknown=f"{type(error).__name__}: {error}")
    if found is None:
        return SourceBacklog(spout.name, None, unknown="the spout cannot tell")
    return SourceBacklog(spout.name, found.unread, found.oldest, found.left_out, ends=found.ends)
