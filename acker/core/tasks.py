"""Runners of the acker's work: the caller's own process, share by share, or tasks elsewhere."""

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol, TypeVar

from acker.core.store.ids import Task, tasks

ROWS_AT_ONCE = 8_000_000

Done = TypeVar("Done")


class Tasks(Protocol):
    """The protocol of runners, which do the work of a log or of a fold."""

    def among(self, rows: int) -> Sequence[Task]:
        """The tasks that share the work on so many rows."""

    def are_elsewhere(self, found: Sequence[Task]) -> bool:
        """Whether these tasks run in other processes than the caller's."""

    def run(self, work: Callable[[Task], Done], found: Sequence[Task]) -> Iterable[Done]:
        """Run the work of some tasks, and return their results in the order of the tasks.

        Args:
            work: a function that does the work of a task. Where tasks are elsewhere, the function and its
                results are pickled, and it is called again where a task dies.
        """


class Caller:
    """The runner in the caller's own process, one task after the other.

    Args:
        rows_at_once: how many rows are held in memory together; more rows are shared among several tasks.
    """

    def __init__(self, rows_at_once: int = ROWS_AT_ONCE) -> None:
        self._rows_at_once = rows_at_once

    def among(self, rows: int) -> Sequence[Task]:
        """As few tasks as the memory allows."""
        return tasks(math.ceil(rows / self._rows_at_once))

    def are_elsewhere(self, found: Sequence[Task]) -> bool:
        """False, since all tasks run in the caller's process."""
        return False

    def run(self, work: Callable[[Task], Done], found: Sequence[Task]) -> Iterable[Done]:
        """The results of the tasks, each computed when it is asked for."""
        return map(work, found)


CALLER = Caller()
