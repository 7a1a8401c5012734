"""The store of a topology: its own Delta tables and its streams, opened and made without Spark."""

import os
import sys
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from threading import Lock
from typing import Any, NamedTuple

from deltalake import CommitProperties, DeltaTable, Schema

from acker.core.errors import InTheWay, StoreError
from acker.core.names import called
from acker.core.store.formats import check_format
from acker.core.store.schemas import SCHEMAS, is_object_store, properties_at
from acker.core.store.tables import (
    RECOVERY_HINT,
    REFUSED,
    RETRIES_OF_MAKING,
    last_number,
    open_table,
    path_of,
    sentence_of,
    unwritten,
)

_TRIES = 3  # of rewriting a table


@cache
def _own_schema(table: str) -> Schema:
    return Schema.from_arrow(SCHEMAS[table].arrow())


class _Handles:
    """Open handles of tables. Each is in use in one place at a time, and is used again after that.

    A handle that moves on to the newest version reads only the new commits of the table's log. A new handle
    reads all commits since the checkpoint, with two requests for each commit on an object store. A handle
    moves on only within the log that it was opened with. On a disk the file of a commit tells whether the log
    is the same. On an object store nobody looks, so processes must end before a table is put back there.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._opened: defaultdict[str, list[_Opened]] = defaultdict(list)

    def __reduce__(self) -> tuple[type["_Handles"], tuple[()]]:
        return _Handles, ()  # another process has its own

    def open(self, path: str) -> DeltaTable | None:
        """See `open_table`."""
        found = _moved_on(self._take_unused(path)) or open_table(path)
        if found is not None:
            with self._lock:
                self._opened[path].append((found, _file_of_commit(found, found.version())))
        return found

    def _take_unused(self, path: str) -> "_Opened | None":
        with self._lock:
            opened = self._opened[path]
            places = (place for place in range(len(opened)) if _references(opened, place) == _ONE_REFERENCE)
            place = next(places, None)
            return None if place is None else opened.pop(place)


class _Commit(NamedTuple):
    """The file of a commit in a log on a disk, which changes where the table was made anew or put back."""

    version: int
    inode: int  # which a later file may get again
    changed: int  # in ns since 1970; no copy keeps it, as it may keep the time of the last write


_Opened = tuple[DeltaTable, _Commit | None]


def _moved_on(opened: _Opened | None) -> DeltaTable | None:
    """A table at its newest version; None where it must be opened anew, which also reports any fault."""
    if opened is None or not _is_the_same(*opened):
        return None
    table, _ = opened
    try:
        table.update_incremental()
    except Exception:
        return None
    return table


def _is_the_same(table: DeltaTable, then: _Commit | None) -> bool:
    """Whether a table's log on a disk is still the log with which the table was opened.

    `deltalake` does not notice that another log has taken its place. A log on an object store is not looked
    at, and counts as the same.

    Args:
        then: the file of the newest commit when the table was opened; None where there was none on a disk.
    """
    if is_object_store(path_of(table)):
        return True
    return (
        then is not None
        and _file_of_commit(table, then.version) == then
        and _file_of_commit(table, table.version()) is not None
    )


def _file_of_commit(table: DeltaTable, version: int) -> _Commit | None:
    """The file of one of a table's commits as it is now; None where there is none on a disk."""
    try:
        found = os.stat(f"{path_of(table)}/_delta_log/{version:020}.json")
    except OSError:
        return None
    return _Commit(version, found.st_ino, found.st_ctime_ns)


def _references(opened: Sequence[tuple[object, ...]], place: int) -> int:
    """How many references there are to the first object of a tuple in a list, as Python counts them here."""
    return sys.getrefcount(opened[place][0])


_ONE_REFERENCE = _references([(object(),)], 0)  # that of the tuple


@dataclass(frozen=True)
class Store:
    """The Delta tables of one topology: one folder each, below `<uri>/<topology>`."""

    uri: str
    topology: str
    _handles: _Handles = field(default_factory=_Handles, init=False, repr=False, compare=False)

    def path(self, table: str) -> str:
        """Path or URI of a table, by its name, or of a stream as `streams/<component>`."""
        return f"{self.uri.rstrip('/')}/{self.topology}/{table}"

    def open(self, table: str, version: int | None = None) -> DeltaTable | None:
        """A table, opened without Spark; None where it does not exist yet.

        Raises:
            StoreError: the table cannot be read, or is one of the store's own and has another format or other
                columns.
        """
        path = self.path(table)
        found = self._handles.open(path) if version is None else open_table(path, version)
        if found is None or table not in SCHEMAS:
            return found
        check_format(found, path, self.topology)
        if found.schema() != _own_schema(table):
            raise StoreError(
                f"The columns of {found.table_uri} are not those that it was made with. "
                f"It was altered by hand; restore it to a version before that. {RECOVERY_HINT}",
                table=path,
            )
        return found

    def require(self, table: str, version: int | None = None) -> DeltaTable:
        """A table, opened without Spark.

        Raises:
            StoreError: the table does not exist.
        """
        found = self.open(table, version)
        if found is None:
            raise StoreError(
                f"There is no table {self.path(table)}. Has `acker run {called(self.topology)}` run with "
                "this store?",
                table=self.path(table),
            )
        return found

    def create(self) -> None:
        """Create the store's own tables where they are missing.

        Raises:
            StoreError: a table cannot be created.
        """
        for name, schema in SCHEMAS.items():
            if self.open(name) is not None:
                continue
            try:
                DeltaTable.create(
                    self.path(name),
                    schema.arrow(),
                    partition_by=list(schema.partition_by),
                    configuration=properties_at(self.path(name), schema.table_properties()),
                    raise_if_key_not_exists=False,  # one of them is the project's own
                    commit_properties=CommitProperties(max_commit_retries=RETRIES_OF_MAKING),
                )
            except REFUSED as error:
                if self.open(name) is None:  # else another client was faster
                    path = self.path(name)
                    raise unwritten(
                        path, error, f"The table {path} cannot be created: {sentence_of(error)}"
                    ) from error

    def change(self, table: str, change: Callable[[DeltaTable], dict[str, Any]]) -> dict[str, Any]:
        """Rewrite a table that Spark does not write, and return the metrics of `deltalake`.

        Args:
            change: rewrites the table, which is at its newest version. If its commit is refused and another
                commit came before, `change` is called again.

        Raises:
            StoreError: the table could not be rewritten, or another commit was in the way each time.
        """
        for tries_left in reversed(range(_TRIES)):
            opened = self.require(table)
            version = opened.version()
            try:
                return change(opened)
            except REFUSED as error:
                is_late = self.require(table).version() > version
                if tries_left and is_late:
                    continue
                raise unwritten(
                    self.path(table),
                    error,
                    f"{self.path(table)} could not be rewritten: {sentence_of(error)} Run it again. "
                    f"{RECOVERY_HINT}",
                    InTheWay if is_late else StoreError,
                ) from error
        raise AssertionError("the last try returns or raises")

    def last_number(self, table: str, app: str, version: int | None = None) -> int:
        """The newest number that was appended for `app`; 0 where there is none or no table."""
        return last_number(self.open(table, version), app)
