"""Failing of tuples that nobody reads any more, so that no message waits for ever after a topology changed.

Tuples that were emitted for a bolt that is gone, or that reads other streams now, are failed by the log of a
batch of that bolt. Their messages are replayed under the topology of today. The events are taken from
committed rows and numbered by the bolt's batches. So a second run, or two runs at once, change nothing. Spark
is not used.
"""

from acker.batches.batch import log
from acker.batches.plan import last_that_fits
from acker.batches.run import Run
from acker.batches.state import BatchState, batch_status
from acker.core.snapshot.inputs import Span, Spans
from acker.core.snapshot.journal import Journal
from acker.core.snapshot.planned import Batch
from acker.core.snapshot.streams import held_back
from acker.core.stream_names import component_of


def fail_orphaned(run: Run, journal: Journal) -> Journal:
    """Log the batches that components which are gone have left, and fail the tuples on edges that are gone.

    A bolt that is still there and has a batch to finish first is left to the next call.

    Returns:
        A snapshot of the store after that.
    """
    newest = journal.edges
    gone = {
        (upstream, bolt): number
        for upstream, bolts in newest.items()
        for bolt, number in bolts.items()
        if run.topology.unread(upstream, bolt)
    }
    bolts = {bolt for found in newest.values() for bolt in found}
    emitters = {component_of(name) for name in newest}
    spouts = sorted(emitters - set(run.topology.components) - bolts)
    if not gone and not spouts:
        return journal
    # What spouts that are gone have only planned waits for their return.
    for spout in spouts:
        _log_left(run, spout)
    # First what was left, since that may emit on the edges that are gone.
    free = [bolt for bolt in dict.fromkeys(bolt for _, bolt in gone) if _log_left(run, bolt)]
    for (upstream, bolt), number in gone.items():
        if bolt in free:
            _fail_edge(run, upstream, bolt, number)
    return run.snapshot()


def _log_left(run: Run, component: str) -> bool:
    """Log the unfinished batches of a component, up to one that it must run itself; True if none is left."""
    while True:
        journal = run.snapshot()
        left = journal.unfinished(component)
        if left is None:
            return True
        found = batch_status(run.topology, journal, left)
        if found.state is BatchState.PLANNED:
            return False
        log(run, journal, found)


def _fail_edge(run: Run, upstream: str, bolt: str, newest: int) -> None:
    """Fail the tuples that a stream's logged batches have for a bolt, and that the bolt has not taken in.

    Of a bolt that is gone, the tuples that it holds back are failed as well.

    Args:
        newest: the newest batch of `upstream` that was planned for the bolt.
    """
    while _log_left(run, bolt):
        journal = run.snapshot()
        number = journal.planned(bolt)  # who plans after it is followed
        ends = journal.read(bolt, number).spans.ends if number else {}
        taken, rows = ends.get(upstream, 0), run.topology.batch_rows
        upto = taken if taken >= newest else last_that_fits(journal, upstream, bolt, taken, rows)
        if upto == taken and not _holds_back(run, journal, bolt, number):
            return
        planned = {name: Span(end, end) for name, end in ends.items()}
        planned[upstream] = Span(taken, upto)
        # It emits nothing, so it has no edges.
        batch = Batch(bolt, number + 1, "retire", Spans(planned), (), run.clock(), run.run_id)
        batch = journal.append(batch)
        run.emit_progress("planned", bolt, batch.number, kind=batch.kind)


def _holds_back(run: Run, journal: Journal, bolt: str, number: int) -> bool:
    """Whether a bolt that is gone holds tuples back in its newest batch."""
    if bolt in run.topology.components:
        return False  # its next batch sees to them
    return held_back(journal, bolt, number).height > 0
