"""The state of a planned batch, and so the steps that are left to do for it."""

from dataclasses import dataclass
from enum import StrEnum

from acker.core.errors import StoreError
from acker.core.snapshot.inputs import Spans
from acker.core.snapshot.journal import Journal
from acker.core.snapshot.planned import Batch
from acker.core.snapshot.streams import rows_by_batch
from acker.core.store.commits import rows_of_newest_write
from acker.core.store.schemas import stream
from acker.core.store.tables import RECOVERY_HINT
from acker.topology.topology import Topology

_LOOKED_AT = 10  # commits of a stream; after a write there are few, of a trimming or a vacuum


class BatchState(StrEnum):
    """How far a planned batch has come."""

    PLANNED = "planned"  # its component is to run it
    WRITTEN = "written"  # its rows are in the stream, and it is to be logged
    FAILING = "failing"  # nobody can run it any more, and it is to be logged as a fail of all its inputs
    LOGGED = "logged"  # done


@dataclass(frozen=True)
class BatchStatus:
    """A batch and its state.

    Args:
        reason: the reason why all inputs of a failing batch fail; None for other states.
    """

    batch: Batch
    state: BatchState
    reason: str | None = None


def batch_status(topology: Topology, journal: Journal, batch: Batch) -> BatchStatus:
    """The state of a planned batch in a snapshot.

    Raises:
        StoreError: rows of a batch that is to be logged are gone.
    """
    if journal.logged(batch.component) >= batch.number:
        return BatchStatus(batch, BatchState.LOGGED)
    if journal.written(batch.component) >= batch.number:
        _check_rows(journal, batch)
        return _written(journal, batch)
    reason = _unrunnable(topology, batch) if isinstance(batch.input, Spans) else None
    return BatchStatus(batch, BatchState.PLANNED if reason is None else BatchState.FAILING, reason)


def _check_rows(journal: Journal, batch: Batch) -> None:
    """Stop where the stream has fewer rows of its newest batch than its write put there.

    Else the batch would be logged as one that emits nothing. The table's history has the number of written
    rows.
    """
    table = journal.require(stream(batch.component))
    if journal.written(batch.component) != batch.number:
        return
    written = rows_of_newest_write(table, _LOOKED_AT)
    there = rows_by_batch(journal, batch.component).get(batch.number, 0)
    if there < written:
        raise StoreError(
            f"{table.table_uri} has {there} rows of batch {batch.number} instead of {written}: it was "
            f"restored or edited by hand. Restore it to a version that has them. {RECOVERY_HINT}",
            component=batch.component,
            batch=batch.number,
            table=journal.store.path(stream(batch.component)),
        )


def _written(journal: Journal, batch: Batch) -> BatchStatus:
    """The state of a batch whose number its component's stream has reached: written or failing.

    If `events` was put back to an earlier version, batches are logged again. If such a batch has no rows,
    nobody can tell whether it was written or given up. Then a bolt's batch is failing. For a spout's batch an
    error is raised, since its messages are not known.

    Raises:
        StoreError: the batch is a spout's, is logged again and has no rows.
    """
    if not _is_in_doubt(journal, batch):
        return BatchStatus(batch, BatchState.WRITTEN)
    if not isinstance(batch.input, Spans):
        path = journal.store.path(stream(batch.component))
        raise StoreError(
            f"{path} has no rows of batch {batch.number}, which is not logged: it was restored or edited by "
            f"hand. Restore its rows. {RECOVERY_HINT}",
            component=batch.component,
            batch=batch.number,
            table=path,
        )
    reason = f"{batch.component} batch {batch.number} is logged again, and has no rows"
    return BatchStatus(batch, BatchState.FAILING, reason)


def _is_in_doubt(journal: Journal, batch: Batch) -> bool:
    """Whether a batch is logged again and has no rows.

    A batch that the newest fold has read is not in doubt.
    """
    if journal.planned(batch.component) == batch.number:
        return False
    fold = journal.fold
    if fold is not None and batch.number <= fold.logged.get(batch.component, 0):
        return False
    return not rows_by_batch(journal, batch.component).get(batch.number)


def _unrunnable(topology: Topology, batch: Batch) -> str | None:
    """Why a bolt's batch cannot be run under the topology of today; None where it can."""
    # A batch that only lets go of what was held back takes in nothing.
    taken = batch.spans.taken_in or list(batch.spans.by_stream)
    reasons = [topology.unread(upstream, batch.component) for upstream in taken]
    found = next((reason for reason in reasons if reason is not None), None)
    if found is None and batch.kind == "retire":  # planned by a topology that was taken back since
        return f"bolt {batch.component} did not read {', '.join(taken)} for a while"
    return found
