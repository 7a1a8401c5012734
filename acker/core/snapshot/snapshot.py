"""A snapshot of a store for one step: every table opened once, in the one order that misses nothing.

A batch appears in `batches`, then in its stream, then in `events`, and its fold in the ledger. A snapshot
opens the tables against that order: the ledger, `events`, `batches`. So each batch that its fold has seen is
logged in it, and each batch that is logged in it is planned in it. Commits after the snapshot are left to the
next step: whoever appends on an old snapshot finds the number taken.
"""

from collections.abc import Iterator
from functools import cached_property

from deltalake import DeltaTable

from acker.core.snapshot.ledger import Fold, newest_in
from acker.core.store.schemas import BATCHES, EVENTS, LEDGER, stream
from acker.core.store.store import Store
from acker.core.store.tables import files_of, last_number
from acker.core.stream_names import component_of


class Snapshot:
    """A store at one moment. Streams are opened when they are first asked for."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._tables: dict[str, DeltaTable | None] = {}
        for table in (LEDGER, EVENTS, BATCHES):
            self.open(table)

    def open(self, table: str) -> DeltaTable | None:
        """A table, always at the same version; None where it does not exist.

        Raises:
            StoreError: the table cannot be read.
        """
        if table not in self._tables:
            self._tables.setdefault(table, self.store.open(table))  # another thread may have opened it
        return self._tables[table]

    def require(self, table: str) -> DeltaTable:
        """A table, always at the same version.

        Raises:
            StoreError: the table does not exist.
        """
        found = self.open(table)
        return self.store.require(table) if found is None else found

    def files(self) -> Iterator[str]:
        """Paths of all files of the tables that were opened."""
        return (file for table in self._tables.values() if table is not None for file in files_of(table))

    @cached_property
    def fold(self) -> Fold | None:
        """The newest fold, None before the first."""
        return newest_in(self.open(LEDGER))

    def logged(self, component: str) -> int:
        """Number of the newest logged batch; 0 before the first.

        Args:
            component: name of a component, or of a stream for the component that emits it.
        """
        return last_number(self.open(EVENTS), component_of(component))

    def planned(self, component: str) -> int:
        """Number of the component's newest planned batch, 0 before the first."""
        return last_number(self.open(BATCHES), component)

    def written(self, component: str) -> int:
        """Number of the newest batch whose rows are in the component's stream, 0 before the first."""
        return last_number(self.open(stream(component)), component)
