"""A store on which others work while somebody opens its tables."""

from collections.abc import Callable
from dataclasses import dataclass

from acker.core.store.store import Store


@dataclass(frozen=True)
class Busy(Store):
    """The same store, where something is done each time before a table is opened.

    Args:
        work: is given the table's name.
    """

    work: Callable[[str], None] = lambda table: None

    @classmethod
    def of(cls, store: Store, work: Callable[[str], None]) -> "Busy":
        return cls(store.uri, store.topology, work=work)

    def open(self, table, version=None):
        self.work(table)
        return super().open(table, version)


def once(table: str, do: Callable[[], object]) -> Callable[[str], None]:
    """Work that is done when a table is opened for the first time."""
    done = []

    def work(opened: str) -> None:
        if opened == table and not done:
            done.append(opened)
            do()

    return work
