"""What every step of a run shares: the topology, its store, Spark, the clock and who is asking."""

import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from acker.batches.progress import Step
from acker.core.delta import Store, in_batches
from acker.core.schemas import of_stream, stream
from acker.journal.batch import Batch
from acker.journal.inputs import SourceRange
from acker.journal.journal import Journal
from acker.spark.delta import read
from acker.spouts import History, Range
from acker.topology.topology import Topology


def utc_now() -> datetime:
    """The clock of every run that is not given another."""
    return datetime.now(UTC)


@dataclass(frozen=True)
class Run:
    """One run of a topology against a store.

    Args:
        connect: gives the Spark session; called when the first step needs one, which folds do not.
        clock: gives the time, with a time zone; read once per step and written into rows as a literal.
        on_step: called after each step, in this thread; it may raise or never return.
    """

    topology: Topology
    store: Store
    connect: Callable[[], SparkSession]
    clock: Callable[[], datetime] = utc_now
    on_step: Callable[[Step], None] = lambda step: None
    run_id: str = field(default_factory=lambda: uuid.uuid4().hex)

    @cached_property
    def spark(self) -> SparkSession:
        """The run's Spark session."""
        return self.connect()

    @cached_property
    def journal(self) -> Journal:
        """The store's journal of batches."""
        return Journal(self.store, self.topology.roles)

    def tell(self, name: str, component: str, number: int, **detail: Any) -> None:
        """Report a step."""
        self.on_step(Step(name, component, number, detail))

    def tuples(self, name: str, batches: list[int]) -> DataFrame:
        """Tuples of some batches of a stream, with all columns of its table."""
        rows = self.rows(name, batches)
        return rows.where(f"_kind IS NULL AND {of_stream(name, rows.columns)}")

    def columns(self, rows: DataFrame, name: str) -> list[str]:
        """The user's columns of a stream, whose table may hold further streams with columns of their own."""
        component, _, further = name.partition(".")
        found = self.topology.components.get(component)
        if found is None or not found.streams:
            return user_columns(rows)
        ddl = found.streams[further] if further else found.schema
        return self.spark.createDataFrame([], ddl).columns

    def rows(self, component: str, batches: list[int]) -> DataFrame:
        """Rows of some batches of a component's streams."""
        frame = read(self.spark, self.store.path(stream(component)))
        return frame.where(in_batches(batches))


def user_columns(frame: DataFrame) -> list[str]:
    """A stream's columns without those that the system keeps."""
    return [column for column in frame.columns if not column.startswith("_")]


def history(run: Run, spout: str) -> History:
    """The ranges that a spout has planned so far."""

    def every() -> list[Range]:
        return [_range(batch) for batch in run.journal.rows(f"component = '{spout}' AND kind = 'next'")]

    newest = run.journal.newest_of(spout, "next")
    return History(None if newest is None else _range(newest), every)


def _range(batch: Batch) -> Range:
    assert isinstance(batch.input, SourceRange)
    return batch.input.described
