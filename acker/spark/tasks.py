"""Tasks of Spark that do the work of the acker, on the executors of a cluster.

The tasks run the functions that a caller would run. They send back little: a list of the files that they
wrote, which the caller commits, and the facts that are to be decided on together.
"""

import math
import os
import pickle
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from acker.core.errors import AckerError, ServerError
from acker.core.store.ids import Task, tasks
from acker.core.tasks import Caller, Done, Tasks

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS_OF_A_TASK = 1_000_000  # of fewer a caller is faster than a job of Spark

_MISSING = re.compile(r"ModuleNotFoundError: No module named '([\w.]+)'")
_CREDENTIALS = ("AWS_", "AZURE_", "GOOGLE_")  # of a store, in variables that begin so


def acker_tasks(number: int | None, rows_at_once: int, connect: "Callable[[], SparkSession]") -> Tasks:
    """The tasks that do the work of logs and folds: the caller's own, or Spark's.

    Args:
        number: the number of tasks. 1: the caller does the work. None: as many tasks as the rows need.
        rows_at_once: how many rows a task holds in memory together.
        connect: the function that gives the session in which tasks of Spark run.
    """
    return Caller(rows_at_once) if number == 1 else SparkTasks(number, rows_at_once, connect)


class SparkTasks:
    """Tasks that run in a job of Spark; `acker_tasks` makes them, and describes the arguments."""

    def __init__(self, number: int | None, rows_at_once: int, connect: "Callable[[], SparkSession]") -> None:
        self._number, self._rows_at_once, self._connect = number, rows_at_once, connect

    def among(self, rows: int) -> Sequence[Task]:
        """As many tasks as were asked for, or one per `ROWS_OF_A_TASK`; more where the memory needs it."""
        wanted = (self._number if rows else 1) or rows // ROWS_OF_A_TASK
        return tasks(max(wanted, math.ceil(rows / self._rows_at_once)))

    def are_elsewhere(self, found: Sequence[Task]) -> bool:
        """Whether the tasks run outside of the caller's process. A single task runs in it."""
        return len(found) > 1

    def run(self, work: Callable[[Task], Done], found: Sequence[Task]) -> Iterable[Done]:
        """The results of the tasks, of one job of Spark, which begins and ends when the first is asked for.

        Raises:
            AckerError: a task raised it.
            ServerError: executors lack what the tasks need.
        """
        from pyspark import cloudpickle

        # A retry policy of the user's own may be of a module that executors lack.
        given: bytes = cloudpickle.dumps((work, found))  # type: ignore[no-untyped-call]
        environ = {name: value for name, value in os.environ.items() if name.startswith(_CREDENTIALS)}
        environ |= {"POLARS_MAX_THREADS": "1"}  # a task has one core

        def each(numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            os.environ.update(environ)  # before Polars is imported, which then makes its threads
            from acker.spark.tasks import done_by

            for batch in numbers:
                for number in batch.column(0).to_pylist():
                    yield pa.record_batch({"done": [done_by(given, number)]})

        for pickled in self._collected(each, len(found)):
            result = pickle.loads(pickled)
            if isinstance(result, AckerError):
                raise result
            yield result

    def _collected(
        self, each: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]], count: int
    ) -> list[bytes]:
        from pyspark.errors import PySparkException

        numbers = self._connect().range(0, count, 1, count)
        try:
            done = numbers.mapInArrow(each, "done binary").toArrow()
        except PySparkException as error:
            missing = _MISSING.search(str(error))
            if missing is None:
                raise
            raise ServerError(
                f"The executors of Spark have no Python module {missing[1]!r}, which the acker's tasks need. "
                "Give them the packages of this environment, or set PIPELINE_ACKER_TASKS=1."
            ) from error
        return list(done.column("done").to_pylist())


def done_by(given: bytes, number: int) -> bytes:
    """The pickled result of one task that `SparkTasks.run` sends, or the pickled AckerError that it raised.

    Args:
        given: the pickled work and tasks.
        number: the index of the task.
    """
    work, found = pickle.loads(given)
    try:
        return pickle.dumps(work(found[number]))
    except AckerError as error:
        return pickle.dumps(error)
