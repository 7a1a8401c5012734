"""Retiring what nobody reads any more, so that a change of the topology holds no message for ever.

Tuples that were emitted for a bolt that is gone, or that reads something else now, are failed by a log
of that bolt's own, and so replayed under the topology of today. All of it is taken from committed rows
and numbered by the bolt's batches, so doing it again, or by two at once, changes nothing. No Spark.
"""

from acker.batches.batch import is_written, last_that_fits, log, refusal, unfinished
from acker.batches.run import Run
from acker.core.ledger import newest_fold
from acker.core.schemas import component_of
from acker.core.streams import held_back
from acker.journal.batch import Batch
from acker.journal.inputs import Span, Spans


def retire(run: Run) -> None:
    """Finish what components that are gone have left, and fail what waits on edges that are gone.

    A bolt that is still there and has a batch to finish first is left to the next call.
    """
    newest = run.journal.edges()
    gone = {
        (upstream, bolt): number
        for upstream, bolts in newest.items()
        for bolt, number in bolts.items()
        if run.topology.unread(upstream, bolt)
    }
    bolts = {bolt for found in newest.values() for bolt in found}
    emitters = {component_of(name) for name in newest}
    _log_written(run, sorted(emitters - set(run.topology.components) - bolts))
    # First what was left, since that may emit on the edges that are gone.
    free = [bolt for bolt in dict.fromkeys(bolt for _, bolt in gone) if _finish_left(run, bolt)]
    for (upstream, bolt), number in gone.items():
        if bolt in free:
            _retire_edge(run, upstream, bolt, number)


def _log_written(run: Run, spouts: list[str]) -> None:
    """Log what spouts that are gone have emitted. What they only planned waits for their return."""
    for spout in spouts:
        while (left := unfinished(run, spout)) is not None and is_written(run, left):
            log(run, left, None)


def _finish_left(run: Run, bolt: str) -> bool:
    """Log the batch that a bolt has left, if nobody is to run it; whether the bolt has none now."""
    while (left := unfinished(run, bolt)) is not None:
        refused = None if is_written(run, left) else refusal(run, left)
        if refused is None and not is_written(run, left):
            return False  # the bolt itself can run it
        log(run, left, run.journal.inputs(left), refused)
    return True


def _retire_edge(run: Run, upstream: str, bolt: str, newest: int) -> None:
    """Fail the logged batches of a stream that the bolt among their edges has not taken in.

    And what a bolt holds back that is gone itself.

    Args:
        newest: the newest batch of `upstream` that was planned for the bolt.
    """
    while True:
        number = run.journal.newest_number(bolt)  # first: who plans it meanwhile is followed
        if not _finish_left(run, bolt):
            return
        ends = run.journal.read(bolt, number).spans.ends if number else {}
        taken = ends.get(upstream, 0)
        upto = (
            taken if taken >= newest else last_that_fits(run, upstream, bolt, taken, run.topology.batch_rows)
        )
        if upto == taken and not _holds_back(run, bolt, number):
            return
        planned = {name: Span(end, end) for name, end in ends.items()}
        planned[upstream] = Span(taken, upto)
        # It emits nothing, so it has no edges.
        batch = Batch(bolt, number + 1, "retire", Spans(planned), (), run.clock(), run.run_id)
        batch = run.journal.append(batch)
        run.tell("planned", bolt, batch.number, kind=batch.kind)


def _holds_back(run: Run, bolt: str, number: int) -> bool:
    """Whether a bolt that is gone holds tuples back in its newest batch."""
    if bolt in run.topology.components:
        return False  # its next batch sees to them
    return held_back(run.store, bolt, number, newest_fold(run.store)).height > 0
