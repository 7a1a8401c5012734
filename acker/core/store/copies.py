"""Copies of Delta tables: one version of each, byte for byte, with its log and all that the log records."""

import re
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from shutil import rmtree

from deltalake import DeltaTable
from deltalake.exceptions import TableNotFoundError
from deltalake.fs import DeltaStorageHandler
from pyarrow.fs import FileSelector, FileSystem, FileType, PyFileSystem, copy_files

from acker.core.errors import StoreError
from acker.core.paths import absolute, check_usable
from acker.core.store.schemas import is_object_store
from acker.core.store.tables import files_of, open_table, path_of, sentence_of

_LOG = "_delta_log"
_VERSIONS = re.compile(r"(?:(\d{20})\.)?(\d{20})\.")  # two in the name of a log that was compacted
_DELETION_VECTORS = re.compile(r"(?:.*/)?deletion_vector_[^/]+\.bin")
_AT_ONCE = 16  # files; on object storage each waits for replies


@dataclass(frozen=True)
class Copied:
    """The version and the size of a copied table.

    Args:
        bytes: of the table's data, without the log.
    """

    version: int
    files: int
    bytes: int


def files_at(path: str, make: bool = False) -> FileSystem:
    """A file system of the files below a folder, by their names from there, on a disk or object storage.

    Args:
        make: whether to make the folder on a disk.

    Raises:
        OSError: the folder is not there, or cannot be made.
        StoreError: the folder cannot be the place of tables.
    """
    check_usable(path)
    if make and not is_object_store(path):
        Path(absolute(path)).mkdir(parents=True, exist_ok=True)
    try:
        return PyFileSystem(DeltaStorageHandler(path))
    except TableNotFoundError as error:
        raise FileNotFoundError(f"there is no folder {path}") from error


def delete_folder(path: str) -> None:
    """Delete a folder with all that is below it, on a disk or on object storage, where there is one."""
    if is_object_store(path):
        above, _, name = path.rstrip("/").rpartition("/")
        files_at(above).delete_dir(name)
    else:
        rmtree(path.removeprefix("file://"), ignore_errors=True)


def copy_log(table: DeltaTable, to: str) -> None:
    """Copy the log of a table up to the version at which it was opened.

    The log is copied first, since a table forgets its log sooner than its files.

    Raises:
        StoreError: the log cannot be copied.
    """
    _copy(table, to, _log_of(table))


def copy_data(table: DeltaTable, to: str, hold: Callable[[], None]) -> Copied:
    """Copy the files of a table at the version at which it was opened, and check that all are there.

    Files that an interrupted copy has left are not copied again.

    Args:
        to: path or URI of the copy, which has the log already.
        hold: called before each file.

    Raises:
        StoreError: the files cannot be copied, or the copy is not whole afterwards.
    """
    files = _data_of(table)
    sizes = _copy(table, to, files, hold)
    copied = open_table(to)
    if copied is None or copied.version() != table.version() or set(_data_of(copied)) != set(files):
        raise StoreError(
            f"{to} is not what version {table.version()} of {path_of(table)} was: its log was cleaned up "
            "meanwhile. Run the command again.",
            table=to,
        )
    return Copied(table.version(), len(sizes), sum(sizes.values()))


def copy_file(size: int, name: str, there: FileSystem, here: FileSystem) -> None:
    """Copy a file of a file system to another, under the same name.

    `copy_files` alone raises nothing where the last bytes, which are all of a small file, cannot be written.

    Args:
        size: of the file, in bytes.
        there: the file system that has the file.
        here: the file system that gets the copy.

    Raises:
        OSError: the file cannot be copied.
    """
    copy_files(name, name, source_filesystem=there, destination_filesystem=here, use_threads=False)
    if here.get_file_info(name).size != size:
        raise OSError(f"{name} could not be written to its end.")


def _copy(
    table: DeltaTable, to: str, names: Iterable[str], hold: Callable[[], None] = lambda: None
) -> dict[str, int]:
    """Copy files of a table, and return their sizes in bytes, by their names."""

    def copy(name: str) -> tuple[str, int]:
        hold()
        info, found = there.get_file_info(name), here.get_file_info(name)
        is_there = found.type == FileType.File and found.size == info.size and not name.startswith(_LOG)
        # A file of the log may be cleaned up since; whether it was needed is looked at in the end.
        if not is_there and not (name.startswith(_LOG) and info.type == FileType.NotFound):
            copy_file(info.size, name, there, here)
        return name, info.size

    try:
        there, here = files_at(path_of(table)), files_at(to, make=True)
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            return dict(pool.map(copy, names))
    except OSError as error:
        raise StoreError(
            f"{path_of(table)} could not be copied to {to}: {sentence_of(error)} Run the command again.",
            table=to,
        ) from error


def _log_of(table: DeltaTable) -> list[str]:
    """The files of a log that tell of versions up to that of the table."""
    names = (name.removeprefix(f"{_LOG}/") for name, _ in _below(files_at(path_of(table)), _LOG))
    return [f"{_LOG}/{name}" for name in names if _is_of(name, table.version())]


def _is_of(name: str, version: int) -> bool:
    found = _VERSIONS.match(name)
    return name.startswith("_sidecars/") or (found is not None and int(found[2]) <= version)


def _data_of(table: DeltaTable) -> list[str]:
    """The files of the table's version, by their names from its folder, and all deletion vectors there.

    Raises:
        StoreError: some files are another table's.
    """
    root = f"{path_of(table)}/"
    files = files_of(table)
    if any(not file.startswith(root) for file in files):
        raise StoreError(
            f"{root} is a shallow clone: its rows lie in another table's files. Copy it by Spark's "
            "CREATE TABLE … DEEP CLONE or by a query, and publish there.",
            table=path_of(table),
        )
    names = [file.removeprefix(root) for file in files]
    if "deletionVectors" in (table.protocol().reader_features or ()):
        below = _below(files_at(path_of(table)), "")
        names += [name for name, _ in below if _DELETION_VECTORS.fullmatch(name)]
    return names


def _below(system: FileSystem, folder: str) -> Iterator[tuple[str, int]]:
    """Name and bytes of each file below a folder."""
    for info in system.get_file_info(FileSelector(folder, recursive=True)):
        if info.type == FileType.File:
            yield info.path, info.size
