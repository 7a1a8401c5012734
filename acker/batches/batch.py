"""One batch of one component: plan, write, log. Any step done again changes nothing.

Plan fixes the input in the journal. Write runs the user's transformation and appends its rows to the stream
in one commit. Log reads those rows back and appends the batch's events in one commit. So consumed and emitted
tuples become visible together, and a transformation that returns other rows the second time does no harm.
"""

from acker.batches.log import LogRequest, run_log
from acker.batches.run import Run
from acker.batches.state import BatchState, BatchStatus, batch_status
from acker.batches.write import write
from acker.components.base import Component
from acker.core.errors import BoltError
from acker.core.names import called
from acker.core.snapshot.inputs import Spans
from acker.core.snapshot.journal import Journal
from acker.core.snapshot.planned import Batch


def finish(run: Run, batch: Batch, journal: Journal | None = None) -> None:
    """Write and log a planned batch of a component of the topology, from the step at which it was left.

    A bolt's batch that cannot be run any more is not written, and logged as a fail of all its inputs.

    Args:
        journal: a snapshot that was taken before; None takes a new one.
    """
    journal = journal or run.snapshot()
    found = batch_status(run.topology, journal, batch)
    if found.state is BatchState.PLANNED:
        write(run, journal, run.topology.components[batch.component], batch)
    if found.state in (BatchState.PLANNED, BatchState.WRITTEN):
        run.emit_progress("written", batch.component, batch.number)
    if found.state is BatchState.PLANNED:
        journal = run.snapshot()
        found = batch_status(run.topology, journal, batch)
    log(run, journal, found)


def log(run: Run, journal: Journal, found: BatchStatus) -> None:
    """Append the events of a batch that is written or failing."""
    batch = found.batch
    if found.state is not BatchState.LOGGED:
        inputs = journal.inputs(batch) if isinstance(batch.input, Spans) else None
        request = LogRequest(
            batch.component, batch.number, batch.edges, inputs, run.clock(), failed=found.reason
        )
        run_log(journal, request, run.tasks)
    run.emit_progress("logged", batch.component, batch.number)


def give_up(run: Run, bolt: Component, reason: str) -> Batch:
    """Fail all messages of the batch that a bolt has not finished, so that the bolt goes on after it.

    Rows of the batch that the bolt has already written stay, and then the batch is only logged.

    Raises:
        BoltError: the component is a spout, or has no unfinished batch.
    """
    journal = run.snapshot()
    batch = journal.unfinished(bolt.name)
    if batch is None or bolt.is_spout:
        raise BoltError(
            f"{bolt.name} has no batch to give up; `acker status {called(run.topology.name)}` shows which "
            "are left.",
            component=bolt.name,
        )
    found = batch_status(run.topology, journal, batch)
    if found.state is BatchState.PLANNED:
        found = BatchStatus(batch, BatchState.FAILING, run.topology.redaction(reason))
    log(run, journal, found)
    return batch
