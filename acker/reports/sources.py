"""The backlogs of sources: input that their spouts have not planned yet, looked at without Spark."""

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, fields
from datetime import datetime

from acker.components.spout import SpoutComponent, history
from acker.core.errors import AckerError
from acker.core.patience import Unanswered, within
from acker.core.snapshot.journal import Journal
from acker.spouts import Changed, HasBacklog
from acker.topology.topology import Topology

_SECONDS = 60  # that a source may take to answer
_MOST_AT_ONCE = 32
_NO_METHOD = "the spout has no method `backlog`"


@dataclass(frozen=True)
class SourceBacklog:
    """The backlog of one spout, as `acker.spouts.Backlog` has it, or why it is unknown."""

    spout: str
    unread: Mapping[str, int] | None  # None where it is unknown
    oldest: datetime | None = None
    left_out: Mapping[str, int] = field(default_factory=dict)
    unknown: str | None = None
    ends: Mapping[str, int] = field(default_factory=dict)
    changed: Changed | None = None
    gone: Changed | None = None
    is_empty: bool = False


def amounts(unread: Mapping[str, int]) -> str:
    """The amounts of unread input, for people: "3 files, 512 bytes"."""
    return ", ".join(f"{n:,} {unit.removesuffix('s') if n == 1 else unit}" for unit, n in unread.items())


def reasons(left_out: Mapping[str, int]) -> str:
    """The input of a source that is never read, for people: "1 named *.part, 2 before start"."""
    return ", ".join(f"{count:,} {why}" for why, count in left_out.items())


def never_read(sources: Sequence[SourceBacklog], journal: Journal) -> list[str]:
    """A sentence for each spout that has found nothing to read so far.

    The sentence gives the numbers and reasons of the source's parts that the spout leaves out. If the spout
    leaves out nothing, the sentence says that the source is empty.
    """
    found = []
    for source in sources:
        if source.unread == {} and journal.newest_of(source.spout, "next") is None:
            said = f"it leaves out {reasons(source.left_out)}" if source.left_out else "its source is empty"
            found.append(f"Spout {source.spout} has found nothing to read so far: {said}.")
    return found


def left_out(sources: Sequence[SourceBacklog]) -> dict[str, dict[str, int]]:
    """Spout whose source has input that is never read -> reason -> the amount of such input."""
    return {source.spout: dict(source.left_out) for source in sources if source.left_out}


def changed(sources: Sequence[SourceBacklog]) -> dict[str, Changed]:
    """Spout -> the parts of its source that have changed since they were read: how many, with examples."""
    return {source.spout: source.changed for source in sources if source.changed is not None}


def gone(sources: Sequence[SourceBacklog]) -> dict[str, Changed]:
    """Spout -> the parts that were read and that its source has no more: how many, with examples."""
    return {source.spout: source.gone for source in sources if source.gone is not None}


def unknown(sources: Sequence[SourceBacklog]) -> dict[str, str]:
    """Spout whose source could not be looked at -> the reason.

    Spouts without a method `backlog` are left out.
    """
    return {source.spout: source.unknown for source in sources if source.unknown not in (None, _NO_METHOD)}


def source_backlogs(topology: Topology, journal: Journal) -> list[SourceBacklog]:
    """The backlog of each spout, in the topology's order. No spout waits long for another."""
    with ThreadPoolExecutor(_MOST_AT_ONCE) as pool:
        return list(pool.map(lambda spout: _backlog(topology, spout, journal), topology.spouts))


def _backlog(topology: Topology, spout: SpoutComponent, journal: Journal) -> SourceBacklog:
    source = spout.source
    if not isinstance(source, HasBacklog):
        return SourceBacklog(spout.name, None, unknown=_NO_METHOD)
    try:
        key = (topology.name, journal.store.uri, spout.name)
        found = within(_SECONDS, key, lambda: source.backlog(history(journal, spout.name)))
    except (AckerError, Unanswered) as error:
        return SourceBacklog(spout.name, None, unknown=str(error))
    except Exception as error:  # of the spout's author; what else there is to tell is told
        return SourceBacklog(spout.name, None, unknown=f"{type(error).__name__}: {error}")
    if found is None:
        return SourceBacklog(spout.name, None, unknown="the spout cannot tell")
    return SourceBacklog(spout.name, **{each.name: getattr(found, each.name) for each in fields(found)})
