"""One batch of one component: plan, write, log. Any step done again changes nothing.

Plan fixes the input in the journal. Write runs the user's transformation and appends its rows to the
stream in one commit. Log reads those rows back and appends the batch's events in one commit, so that
what a component consumed and what it emitted cannot be seen apart, and a transformation that gives
other rows the second time does no harm.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import polars as pl

from acker.batches.run import Run
from acker.batches.write import write
from acker.components.base import Component
from acker.components.collector import LONGEST_REASON
from acker.core.delta import WAY_OUT
from acker.core.errors import StoreError
from acker.core.ledger import newest_fold
from acker.core.log import LogRequest, run_log
from acker.core.schemas import EVENTS, LEDGER, component_of, stream
from acker.core.streams import held_back, rows_by_batch
from acker.journal.batch import Batch, BatchKind
from acker.journal.inputs import PlanInput, Span, Spans

_LOOKED_AT = 10  # commits of a stream; after a write there are few, of a trimming or a vacuum


def unfinished(run: Run, component: str) -> Batch | None:
    """The component's first planned batch that is not logged yet.

    It is the newest one, unless `events` was lost or put back; then all that it lacks are logged again.

    Raises:
        StoreError: the journal was put back.
    """
    logged = run.journal.logged(component)  # first, since another run may plan and log meanwhile
    newest = run.journal.newest_number(component)
    if newest < logged:
        raise run.journal.put_back(component, newest, EVENTS, logged)
    return None if newest == logged else run.journal.read(component, logged + 1)


def plan(run: Run, component: Component, kind: BatchKind, planned: PlanInput, number: int) -> Batch:
    """Append a batch to the journal and return the one that has its number now.

    Another run may have planned that number first; then its batch comes back, to be resumed.
    """
    _refuse_known(run, component.name, number)
    batch = run.journal.append(_batch(run, component.name, kind, planned, number))
    _tell(run, batch)
    return batch


def plan_all(
    run: Run, kind: BatchKind, planned: Mapping[str, PlanInput], numbers: Mapping[str, int]
) -> list[Batch] | None:
    """Append a batch of each of some components, in one commit; None if another run took a number."""
    for name in planned:
        _refuse_known(run, name, numbers[name])
    batches = [_batch(run, name, kind, each, numbers[name]) for name, each in planned.items()]
    if not run.journal.append_all(batches):
        return None
    for batch in batches:
        _tell(run, batch)
    return batches


def _batch(run: Run, component: str, kind: BatchKind, planned: PlanInput, number: int) -> Batch:
    return Batch(
        component=component,
        number=number,
        kind=kind,
        input=planned,
        edges=run.topology.edges(component),
        planned_at=run.clock(),
        run_id=run.run_id,
    )


def _tell(run: Run, batch: Batch) -> None:
    run.tell("planned", batch.component, batch.number, kind=batch.kind)


def _refuse_known(run: Run, component: str, number: int) -> None:
    """Stop where a batch that is to be planned was planned before, and the journal does not know of it."""
    fold = newest_fold(run.store)
    found = {
        stream(component): run.store.last_number(stream(component), component),
        LEDGER: fold.logged.get(component, 0) if fold else 0,
    }
    newest = run.journal.newest_number(component)  # last: another run may have planned and written meanwhile
    for where, known in found.items():
        if known > max(newest, number - 1):
            raise run.journal.put_back(component, newest, where, known)


def finish(run: Run, component: Component, batch: Batch) -> None:
    """Write and log a planned batch, from wherever it was left.

    A bolt's batch that cannot be run any more is not written, and logged as a fail of all its inputs.
    """
    written = is_written(run, batch)
    refused = None if written or component.is_spout else refusal(run, batch)
    if refused is None:
        if not written:
            write(run, component, batch)
        run.tell("written", component.name, batch.number)
    log(run, batch, None if component.is_spout else run.journal.inputs(batch), refused)


def log(
    run: Run, batch: Batch, inputs: Mapping[str, Sequence[int]] | None, failed: str | None = None
) -> None:
    """Append the events of a batch that is written, or whose inputs all fail; see `LogRequest`."""
    if run.journal.logged(batch.component) < batch.number:
        if failed is None:
            _refuse_lost(run, batch)
        if failed is None and _is_in_doubt(run, batch):
            if inputs is None:
                raise StoreError(
                    f"{run.store.path(stream(batch.component))} has no rows of batch {batch.number}, which "
                    f"is not logged: it was restored or edited by hand. Restore its rows. {WAY_OUT}"
                )
            failed = f"{batch.component} batch {batch.number} is logged again, and has no rows"
        request = LogRequest(batch.component, batch.number, batch.edges, inputs, run.clock(), failed)
        run_log(run.store, request)
    run.tell("logged", batch.component, batch.number)


def _refuse_lost(run: Run, batch: Batch) -> None:
    """Stop where the stream has fewer rows of its newest batch than its write put there.

    Else the batch would be logged as one that emits nothing. Delta's history has the number.
    """
    table = run.store.open(stream(batch.component))
    if table is None or run.journal.newest_number(batch.component) != batch.number:
        return
    writes = (each for each in table.history(_LOOKED_AT) if each["operation"] == "WRITE")
    written = int(next(writes, {}).get("operationMetrics", {}).get("numOutputRows", 0))
    there = rows_by_batch(run.store, batch.component).get(batch.number, 0)
    if there < written:
        raise StoreError(
            f"{table.table_uri} has {there} rows of batch {batch.number} instead of {written}: it was "
            f"restored or edited by hand. Restore it to a version that has them. {WAY_OUT}"
        )


def _is_in_doubt(run: Run, batch: Batch) -> bool:
    """Whether it cannot be told of a batch without rows if it was written or given up.

    So of one that is logged again, as later ones were planned. Those that a fold has seen do not matter.
    """
    if run.journal.newest_number(batch.component) == batch.number:
        return False
    fold = newest_fold(run.store)
    if fold is not None and batch.number <= fold.logged.get(batch.component, 0):
        return False
    return not rows_by_batch(run.store, batch.component).get(batch.number)


def is_written(run: Run, batch: Batch) -> bool:
    """Whether the batch's rows are in its component's stream."""
    return run.store.last_number(stream(batch.component), batch.component) >= batch.number


def refusal(run: Run, batch: Batch) -> str | None:
    """Why a bolt's batch cannot be run under the topology of today; None where it can."""
    taken = batch.spans.taken_in or list(
        batch.spans.by_stream
    )  # it takes in nothing where it lets go of what was held back
    reasons = [run.topology.unread(upstream, batch.component) for upstream in taken]
    found = next((reason for reason in reasons if reason is not None), None)
    if found is None and batch.kind == "retire":  # planned by a topology that was taken back since
        return f"bolt {batch.component} did not read {', '.join(taken)} for a while"
    return found


def give_up(run: Run, bolt: Component, reason: str) -> Batch | None:
    """Fail all messages of the batch that a bolt has not finished, so that the bolt goes on after it.

    What the bolt had written already stands, and then the batch is only logged.

    Returns:
        The batch; None if there is none to give up.
    """
    batch = unfinished(run, bolt.name)
    if batch is None:
        return None
    log(run, batch, run.journal.inputs(batch), None if is_written(run, batch) else reason[:LONGEST_REASON])
    return batch


def plan_bolt(run: Run, bolt: Component) -> Batch | None:
    """The bolt's next batch: the one that was left unfinished, or its inputs' new logged batches."""
    newest = run.journal.newest_number(bolt.name)  # first, as a spout's
    left = unfinished(run, bolt.name)
    if left is not None:
        return left
    before = run.journal.read(bolt.name, newest) if newest else None
    ends = dict.fromkeys(bolt.inputs, 0) | (before.spans.ends if before else {})
    # What came of one message over several streams is joined if it is in one batch, so all of it is taken.
    rows = None if bolt.make is None and len(bolt.inputs) > 1 else run.topology.batch_rows
    planned = {}
    for upstream, end in ends.items():
        # Of a stream that it no longer reads it keeps the span's end, should it read it again.
        upto = last_that_fits(run, upstream, bolt.name, end, rows) if upstream in bolt.inputs else end
        planned[upstream] = Span(end, upto)
    if not Spans(planned).taken_in:
        return None
    if bolt.make is not None:
        held = held_back(run.store, bolt.name, newest, newest_fold(run.store))
        for name, oldest in held.group_by("stream").agg(pl.col("batch").min()).rows():
            if name in planned:
                planned[name] = replace(planned[name], held=oldest)
    return plan(run, bolt, "next", Spans(planned), newest + 1)


def last_that_fits(run: Run, upstream: str, consumer: str, taken: int, rows: int | None) -> int:
    """The last logged batch that fits into one batch of about so many rows; at least one batch.

    Args:
        rows: None for all.
    """
    offered = run.journal.numbers_for(upstream, consumer, taken, run.journal.logged(upstream))
    if not offered:
        return taken
    if len(offered) == 1 or rows is None:
        return offered[-1]
    sizes = rows_by_batch(run.store, component_of(upstream))
    for index, number in enumerate(offered):
        rows -= sizes.get(number, 0)
        if rows < 0 and index > 0:
            return offered[index - 1]
    return offered[-1]
