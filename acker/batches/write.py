"""The write of a batch: its component appends rows, from a source or made of its inputs, in one commit."""

from functools import partial
from pickle import PicklingError

from pyspark.sql import DataFrame

from acker.batches.run import Run
from acker.components.base import Component, Work, columns_of
from acker.core.errors import BoltError
from acker.core.snapshot.journal import Journal
from acker.core.snapshot.planned import Batch
from acker.core.stream_names import component_of


def write(run: Run, journal: Journal, component: Component, batch: Batch) -> None:
    """Append a planned batch's rows to its component's stream.

    Raises:
        BoltError: the bolt broke its contract, cannot be sent to Spark's workers, cannot be run over its
            inputs, or fails on too many messages.
        PySparkException: an error that no message causes.
    """
    work = Work(
        spark=run.spark,
        topology=run.topology.name,
        components=run.topology.components,
        journal=journal,
        batch=batch,
        check=partial(_without_violations, run, component),
        is_published=any(component_of(name) == component.name for name in run.topology.publications),
        on_search=lambda: run.emit_progress("searching", component.name, batch.number),
        takes_back=any(each.target.takes_back for each in run.topology.publications.values()),
        redaction=run.topology.redaction,
    )
    try:
        component.write(work)
    except PicklingError as error:
        raise BoltError(
            f"{component.name} cannot be sent to Spark's workers: {error}. Make what cannot be sent, such as "
            "a connection or a lock, inside of the function, or in a rich bolt's prepare.",
            component=component.name,
        ) from error


def _without_violations(run: Run, component: Component, rows: DataFrame) -> DataFrame:
    """Rows of a component. Rows that a target would refuse become failures of their messages."""
    for name, publication in run.topology.publications.items():
        if component_of(name) == component.name:
            columns = columns_of(run.topology.components, rows, name)
            rows = publication.target.violations(run.spark, name, rows, columns)
    return rows
