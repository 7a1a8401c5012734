"""Work that waits for a topology's components and its acker, so that a scheduler starts neither for nothing.

The work is looked for without Spark, and each piece of it is a sentence. Where it cannot be known whether
work waits, it counts as waiting: then the run itself finds out.
"""

from datetime import datetime

from acker.batches.holds import newest_hold
from acker.components.base import Component
from acker.core.snapshot.journal import Journal
from acker.core.snapshot.ledger import live_counts
from acker.core.snapshot.refusals import unread_refusals
from acker.core.store.schemas import EVENTS
from acker.operations.fold import waiting_batches
from acker.operations.publish import published_through
from acker.reports.sources import amounts, source_backlogs
from acker.topology.topology import Topology


def waits_for_components(topology: Topology, journal: Journal, now: datetime) -> list[str]:
    """Sentences on the work of a run of the components: to read, to go on with, to take or to publish."""
    logged = {component.name: journal.logged(component.name) for component in topology.order()}
    unfinished = [each for each in topology.order() if journal.planned(each.name) > logged[each.name]]
    said = [f"{each.name} has an unfinished batch" for each in unfinished if not _is_held(each, journal, now)]
    for source in source_backlogs(topology, journal):
        if source.unread is None:
            said.append(f"{source.spout} may have something to read: {source.unknown}")
        elif source.unread:
            said.append(f"{source.spout} has {amounts(source.unread)} to read")
    for (upstream, bolt), batches in waiting_batches(topology, journal, logged).items():
        if bolt not in {each.name for each in unfinished}:
            said.append(f"{bolt} has {len(batches):,} of {upstream} to take")
    newest = journal.fold
    if newest is not None and published_through(topology, journal) < newest.number:
        said.append("acked messages are to be published")
    return said


def _is_held(component: Component, journal: Journal, now: datetime) -> bool:
    """Whether the component's unfinished batch is held, and the time of its next try has not come."""
    hold = newest_hold(journal, component.name)
    return hold is not None and now < hold.retry_at


def waits_for_acker(topology: Topology, journal: Journal, now: datetime) -> list[str]:
    """Sentences on the work of a fold: events and refusals that no fold has read, and live messages.

    Live messages are work for a fold if they may time out, or if their next attempt is due. Messages in
    flight grow older only where a fold sees the window turn.
    """
    if journal.open(EVENTS) is None:
        return []
    newest = journal.fold
    folded = newest.logged if newest else {}
    new = [name for name in journal.components() if journal.logged(name) > folded.get(name, 0)]
    said = [f"events of {', '.join(sorted(new))} are to be folded"] if new else []
    if newest is not None:
        if refused := unread_refusals(journal):
            said.append(f"acked messages were refused by a published table: {refused:,}")
        live = live_counts(newest, now)
        if live.pending and topology.timeouts.turn(newest.turn, now) != newest.turn:
            said.append(f"messages in flight may time out: {live.pending:,}")
        if live.due:
            said.append(f"messages are due for their next attempt: {live.due:,}")
    return said
