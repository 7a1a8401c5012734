"""Who does the work of the acker: a caller, one share of the messages after the other, or tasks elsewhere."""

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol, TypeVar

from acker.core.store.ids import Task, tasks

ROWS_AT_ONCE = 8_000_000

Done = TypeVar("Done")


class Tasks(Protocol):
    """Who does the work of a log or of a fold."""

    def among(self, rows: int) -> Sequence[Task]:
        """The tasks that share so many rows."""

    def are_elsewhere(self, found: Sequence[Task]) -> bool:
        """Whether these tasks run in other processes than the caller's."""

    def run(self, work: Callable[[Task], Done], found: Sequence[Task]) -> Iterable[Done]:
        """What each of the tasks returns, in their order.

        Args:
            work: what a task does. Where tasks are elsewhere, it and what it returns are pickled, and it is
                done more than once where a task dies.
        """


class Caller:
    """The caller's own process does it, one task after the other.

    Args:
        rows_at_once: how many rows are held in memory together; of more the messages are shared.
    """

    def __init__(self, rows_at_once: int = ROWS_AT_ONCE) -> None:
        self._rows_at_once = rows_at_once

    def among(self, rows: int) -> Sequence[Task]:
        """As few as the memory allows."""
        return tasks(math.ceil(rows / self._rows_at_once))

    def are_elsewhere(self, found: Sequence[Task]) -> bool:
        """They are here."""
        return False

    def run(self, work: Callable[[Task], Done], found: Sequence[Task]) -> Iterable[Done]:
        """As each is asked for."""
        return map(work, found)


CALLER = Caller()
