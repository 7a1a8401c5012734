"""The middle of a run's work, as the files of the store show it."""

from deltalake.fs import DeltaStorageHandler
from pyarrow.fs import FileSelector, PyFileSystem

from acker.core.store.schemas import EVENTS, LEDGER, stream
from acker.core.store.store import Store

MOMENTS = {  # the folder in which files appear, and how their names begin
    "a write": (stream("cleaned"), "b"),
    "a log": (EVENTS, "task-"),
    "a fold": (LEDGER, "task-"),
}


def has_begun(store: Store, moment: str) -> bool:
    """Whether files of the first that is of a kind lie there."""
    table, prefix = MOMENTS[moment]
    system = PyFileSystem(DeltaStorageHandler(store.path(table)))
    found = system.get_file_info(FileSelector("", allow_not_found=True, recursive=True))
    return any(file.path.startswith(prefix) for file in found)
