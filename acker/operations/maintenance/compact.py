"""Maintenance of a topology's tables: fewer and larger files, and no files that nobody reads any more.

Of the ledger, rows that were live in folds before the newest go: each fold has all live rows. Files
of a stream stay as they are, since the ids of its waiting tuples rest on their files.
"""

from collections.abc import Callable
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any
from uuid import uuid4

from deltalake import DeltaTable
from pyarrow.fs import FileSelector, FileType

from acker.batches.run import Run
from acker.core.errors import StoreError
from acker.core.snapshot.journal import Journal
from acker.core.snapshot.kept import kept
from acker.core.snapshot.trims import counted_trim
from acker.core.store.copies import delete_folder, files_at
from acker.core.store.lease import COMPACTS, KEEPS_FILES, Lease
from acker.core.store.schemas import BATCHES, EVENTS, LEDGER, SCHEMAS, is_object_store, stream
from acker.core.store.tables import arrow_table, path_of
from acker.operations.refuse import SCRATCH
from acker.targets.by_key import trimmed

_SMALL_BYTES = 8 << 20
_SMALL_FILES = 100  # which a table may have
_SMALL_FILES_FAR = 30  # on an object store, where each is some requests of whoever reads the table


def compact_if_many(run: Run, journal: Journal) -> None:
    """Compact where steps have added many small files since the last compaction."""
    if any(_has_many(journal.require(name)) for name in (BATCHES, EVENTS, LEDGER)):
        with suppress(StoreError):  # another commit was in the way, and the next fold finds the files again
            compact(run)


def _has_many(table: DeltaTable) -> bool:
    most = _SMALL_FILES_FAR if is_object_store(path_of(table)) else _SMALL_FILES
    if len(table.file_uris()) <= most:
        return False
    sizes = arrow_table(table.get_add_actions())["size_bytes"].to_pylist()
    return len([size for size in sizes if size < _SMALL_BYTES]) > most


def compact(run: Run) -> dict[str, int]:
    """Rewrite small files into larger ones. Returns how many files each table had fewer afterwards.

    Everything else may run meanwhile, except another compaction. If two compactions take the same files away,
    `deltalake` commits both, and the rows of the files are there twice. So while another compaction runs,
    this one does nothing, and the result is empty.

    Raises:
        StoreError: another commit was in the way.
    """
    alone = Lease(run.store, uuid4().hex, run.clock, COMPACTS, run.sightings)
    try:
        alone.hold()
    except StoreError:
        if alone.left(alone.read()):
            return {}
        raise
    try:
        return _compacted(run, alone.hold)
    finally:
        with suppress(StoreError):  # else it is left for as long as a compaction may take
            alone.release()


def _compacted(run: Run, hold: Callable[[], None]) -> dict[str, int]:
    newest = run.snapshot().fold
    if newest is not None:
        run.store.change(LEDGER, lambda table: table.delete(f"live_in < {newest.number}"))
    saved = {}
    for name in SCHEMAS:
        hold()
        metrics = run.store.change(name, _compact_settled if name == LEDGER else _compact)
        saved[name] = metrics["numFilesRemoved"] - metrics["numFilesAdded"]
    return saved


def _compact(table: DeltaTable) -> dict[str, Any]:
    return table.optimize.compact()


def _compact_settled(ledger: DeltaTable) -> dict[str, Any]:
    return ledger.optimize.compact([("live_in", "=", "")])  # the null partition


def vacuum(run: Run, retention_hours: int) -> list[str]:
    """Delete files that no version younger than the retention refers to. Returns the tables' names.

    While a backup is made nothing is deleted, since the backup may take longer than the retention.
    """
    keeps = Lease(run.store, "", run.clock, KEEPS_FILES, run.sightings)
    if keeps.left(keeps.read()):
        return []
    journal = run.snapshot()
    components = dict.fromkeys([*run.topology.components, *journal.components()])  # also those gone
    others = [*map(stream, components), *map(trimmed, counted_trim(run.store).tuples or ())]
    others += map(kept, dict.fromkeys([*run.topology.publications, *components]))
    names = [*SCHEMAS, *(name for name in others if journal.open(name) is not None)]
    for name in names:
        table = run.store.require(name)
        # All files and not only those that the log still names as removed: checkpoints forget them, and what
        # a killed write has left was never named.
        table.vacuum(retention_hours, dry_run=False, enforce_retention_duration=False, full=True)
    _delete_old(run.store.path(SCRATCH), run.clock() - timedelta(hours=retention_hours))
    return names


def _delete_old(scratch: str, before: datetime) -> None:
    """Delete the old clones that killed searches for refused messages have left."""
    with suppress(OSError):  # there is no such folder
        for clone in files_at(scratch).get_file_info(FileSelector("")):
            below = files_at(f"{scratch}/{clone.path}").get_file_info(FileSelector("", recursive=True))
            if all(each.mtime < before for each in below if each.type == FileType.File):
                delete_folder(f"{scratch}/{clone.path}")
