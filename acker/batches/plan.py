"""The plan of a batch: its input is fixed in the journal before anything is computed."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import polars as pl

from acker.batches.branches import meeting
from acker.batches.run import Run
from acker.components.base import Component
from acker.core.snapshot.inputs import PlanInput, Span, Spans
from acker.core.snapshot.journal import Journal
from acker.core.snapshot.planned import Batch, BatchKind
from acker.core.snapshot.streams import held_back, rows_by_batch
from acker.core.store.schemas import BATCHES, LEDGER, stream
from acker.core.store.tables import last_number
from acker.core.stream_names import component_of


def plan(run: Run, journal: Journal, component: str, kind: BatchKind, planned: PlanInput) -> Batch:
    """Append a component's next batch to the journal, and return the batch that has its number now.

    Another run may have planned that number first; then that run's batch is returned, to be resumed.
    """
    _check_known(journal, component)
    batch = journal.append(_batch(run, journal, component, kind, planned))
    _emit_planned(run, batch)
    return batch


def plan_all(
    run: Run, journal: Journal, kind: BatchKind, planned: Mapping[str, Sequence[PlanInput]]
) -> list[Batch] | None:
    """Append the next batches of some components, in one commit; None if another run took a number."""
    for name in planned:
        _check_known(journal, name)
    batches = [
        _batch(run, journal, name, kind, each, place)
        for name, inputs in planned.items()
        for place, each in enumerate(inputs, 1)
    ]
    if not journal.append_all(batches):
        return None
    for batch in batches:
        _emit_planned(run, batch)
    return batches


def _batch(
    run: Run, journal: Journal, component: str, kind: BatchKind, planned: PlanInput, place: int = 1
) -> Batch:
    """A batch to be planned.

    Args:
        place: of the batch among those of the component that are planned together, from 1.
    """
    return Batch(
        component=component,
        number=journal.planned(component) + place,
        kind=kind,
        input=planned,
        edges=run.topology.edges(component),
        planned_at=run.clock(),
        run_id=run.run_id,
    )


def _emit_planned(run: Run, batch: Batch) -> None:
    run.emit_progress("planned", batch.component, batch.number, kind=batch.kind)


def _check_known(journal: Journal, component: str) -> None:
    """Stop where the component's next batch was planned before, and the journal does not know of it."""
    fold = journal.fold
    found = {
        LEDGER: fold.logged.get(component, 0) if fold else 0,
        stream(component): journal.written(component),
    }
    for where, known in found.items():
        if known > journal.planned(component):
            # Another run may have planned and written after the snapshot.
            newest = last_number(journal.store.open(BATCHES), component)
            if known > newest:
                raise journal.rolled_back(component, newest, where, known)


def plan_bolt(run: Run, journal: Journal, bolt: Component) -> Batch | None:
    """The batch that a bolt is to run next; None where its inputs have nothing new for it.

    An unfinished batch comes first. Else a new batch is planned, which takes in new batches of the inputs.
    """
    left = journal.unfinished(bolt.name)
    if left is not None:
        return left
    newest = journal.planned(bolt.name)
    before = journal.read(bolt.name, newest) if newest else None
    ends = dict.fromkeys(bolt.inputs, 0) | (before.spans.ends if before else {})
    rows = None if bolt.takes_all else run.topology.batch_rows
    upto = {name: last_that_fits(journal, name, bolt.name, ends[name], rows) for name in bolt.inputs}
    if bolt.takes_all:
        upto = meeting(run.topology, journal, bolt.name, ends, upto)
    # Of a stream that it no longer reads it keeps the span's end, should it read it again.
    planned = {name: Span(end, upto.get(name, end)) for name, end in ends.items()}
    if not Spans(planned).taken_in:
        return None
    if bolt.holds_back:
        held = held_back(journal, bolt.name, newest)
        for name, oldest in held.group_by("stream").agg(pl.col("batch").min()).rows():
            if name in planned:
                planned[name] = replace(planned[name], held=oldest)
    return plan(run, journal, bolt.name, "next", Spans(planned))


def last_that_fits(journal: Journal, upstream: str, consumer: str, taken: int, rows: int | None) -> int:
    """The last logged batch of a stream that a consumer's next batch takes in.

    All new batches up to this one have about `rows` rows at most. At least one new batch is taken in, however
    large it is. If there is no new batch, the result is `taken`.

    Args:
        upstream: the name of the stream.
        taken: the last batch that the consumer has taken in.
        rows: the number of rows; None: all batches fit.
    """
    offered = journal.numbers_for(upstream, consumer, taken, journal.logged(upstream))
    if not offered:
        return taken
    if len(offered) == 1 or rows is None:
        return offered[-1]
    sizes = rows_by_batch(journal, component_of(upstream))
    for index, number in enumerate(offered):
        rows -= sizes.get(number, 0)
        if rows < 0 and index > 0:
            return offered[index - 1]
    return offered[-1]
