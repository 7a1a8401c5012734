"""The files of a folder, listed without Spark, so that plans, reads and status all see the same.

Spark's own listing hides names that begin with `_` or `.`. This one hides nothing: which files a spout leaves
out is a rule of names, `IGNORED`, that its author can read and change.
"""

import os
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence, Set
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cache
from typing import TypeVar
from urllib.parse import urlsplit

from pyarrow import ArrowException, NativeFile, fs

from acker.core.errors import SourceError
from acker.core.paths import absolute
from acker.core.quoting import printable
from acker.spouts.files.globs import first_match, matches
from acker.spouts.files.walking import SourceFile, Walk

# Names, of files and of folders, of what programs leave beside data or write before it has its name.
IGNORED = (
    *("_SUCCESS", "_FAILURE", "_temporary", "_committed_*", "_started_*"),  # Spark and Hadoop
    *("_metadata", "_common_metadata", "_spark_metadata", ".*.crc", "*._COPYING_"),
    *(".spark-staging-*", ".hive-staging*", "_delta_log", "_change_data"),
    *("*.part", "*.partial", "*.filepart", "*.crdownload", "*.tmp", "*.temp"),  # copies that are under way
    ".*.*.??????",  # rsync's
    *("*~", "~$*", "#*#", ".#*", ".~lock.*#", ".*.sw?", ".ipynb_checkpoints"),  # editors
    *(".DS_Store", ".nfs*"),  # file systems
)

_SCHEMES = {"s3a": "s3", "s3n": "s3"}  # Hadoop's names of what PyArrow knows by another
_NOT_THERE, _NO_FOLDER = "it is not there", "it is a file"
_WHY: dict[type[Exception], str] = {FileNotFoundError: _NOT_THERE, NotADirectoryError: _NO_FOLDER}
_NO_TEXT = "with a name that is not UTF-8"
_SAME = "the same as a file that is read under another name"
_NOT_ALLOWED = "that this user may not read"
_OF_TABLE = "of a Delta table, which a DeltaSpout reads"
_LOG = "_delta_log"  # in the folder of a Delta table
_MOST_NAMED = 3
_AT_ONCE = 16

Found = TypeVar("Found")


@dataclass(frozen=True)
class Listing:
    """The files below a folder, but for empty ones.

    Args:
        files: by their path relative to the folder, with `/` between names, in the order of these.
        nameless: the number of files whose name is no text.
        others: reason -> the paths that cannot be read as files, or are read under another name.
        aliases: path of a folder -> path of the same folder under which its files are listed.
        empty: the paths of the empty files.
        root: the folder's path on this machine's disks; None where the folder is elsewhere.
        is_in_table: whether the folder lies within the folder of a Delta table.
    """

    files: Mapping[str, SourceFile]
    nameless: int = 0
    others: Mapping[str, Sequence[str]] = field(default_factory=dict)
    aliases: Mapping[str, str] = field(default_factory=dict)
    empty: frozenset[str] = frozenset()
    root: str | None = None
    is_in_table: bool = False

    def differing(self, marks: Mapping[str, str]) -> dict[str, SourceFile]:
        """The files that have another mark now, by their path; a file that is not there is none of them."""
        nothing = SourceFile(0, 0)
        found: dict[str, SourceFile] = {}
        for path, mark in marks.items():
            at = self._listed(path) if self.aliases else path
            file = self.files.get(at, nothing if at in self.empty else None)
            if file is not None and file.mark != mark:
                found[path] = file
        return found

    @property
    def is_empty(self) -> bool:
        """Whether there is no file at all."""
        return not (self.files or self.empty or self.others or self.nameless)

    def missing(self, paths: Iterable[str]) -> list[str]:
        """Those of some paths at which no file is now."""
        there = self.files.keys() | self.empty
        return [path for path in paths if (self._listed(path) if self.aliases else path) not in there]

    def parted(
        self, glob: str, ignore: tuple[str, ...], start: str = "", known: Set[str] = frozenset()
    ) -> tuple[dict[str, SourceFile], Counter[str]]:
        """The files that a spout is to read, and how many it leaves out for which reason.

        Args:
            glob: the pattern that a file's name must fit.
            ignore: the patterns that neither the file's name nor the name of one of its folders may fit.
            start: the path before which files are left out, by the order of paths.
            known: paths that were read before. Their files are neither taken nor left out, under whatever
                name they are listed.
        """
        fit: dict[str, SourceFile] = {}
        left_out = Counter({_NO_TEXT: self.nameless} if self.nameless else {})
        others = {why: list(paths) for why, paths in self.others.items()}
        held, tables = self._held(known), self._tables()
        for path, file in self.files.items():
            why = None if path in held else _name_unfit(path.split("/"), glob, ignore)
            if why is not None:
                left_out[why] += 1
            elif tables and path not in held and any(folder in tables for folder in _folders_of(path)):
                others.setdefault(_OF_TABLE, []).append(path)
            else:
                fit[path] = file
        once = _first_names(fit, held)
        taken: dict[str, SourceFile] = {}
        for path, file in fit.items():
            if once.get((file.inode, file.mark), path) != path:
                others.setdefault(_SAME, []).append(path)
            elif path in held:
                continue
            elif path < start:
                left_out[f"before {start}"] += 1
            elif self.root is not None and not os.access(f"{self.root}/{path}", os.R_OK):
                others.setdefault(_NOT_ALLOWED, []).append(path)
            else:
                taken[path] = file
        return taken, left_out + told(others)

    def _tables(self) -> Set[str]:
        """The folders of Delta tables, each with a slash at its end; the listed folder is the empty text.

        Some files of such a folder are no part of the table any more, and some rows lie in several files.
        """
        found = {path.partition(f"{_LOG}/") for path in self.files if _LOG in path}
        tables = {before for before, log, _ in found if log and before[-1:] in ("", "/")}
        return tables | {""} if self.is_in_table else tables

    def _held(self, known: Set[str]) -> Set[str]:
        """The paths of files that were read before, also as they are listed now."""
        return known | {self._listed(path) for path in known} if self.aliases else known

    def _listed(self, path: str) -> str:
        """A path as it is listed, where its folder was entered under another name."""
        names = path.split("/")
        for count in range(1, len(names)):
            first = self.aliases.get("/".join(names[:count]))
            if first is not None:
                return self._listed(
                    "/".join((*first.split("/"), *names[count:])) if first else "/".join(names[count:])
                )
        return path


def _folders_of(path: str) -> Iterator[str]:
    """The folders that a file is in, each with a slash at its end; the listed folder is the empty text."""
    yield ""
    for place, character in enumerate(path):
        if character == "/":
            yield path[: place + 1]


def _name_unfit(names: Sequence[str], glob: str, ignore: tuple[str, ...]) -> str | None:
    """Why a file is not read, by its name and those of its folders."""
    ignored = next(filter(None, (first_match(name, ignore) for name in names)), None)
    if ignored:
        return f"named {ignored}"
    return None if matches(names[-1], glob) else f"not named {glob}"


def _first_names(files: Mapping[str, SourceFile], held: Container[str]) -> dict[tuple[int, str], str]:
    """(inode, mark) of a file -> the name that counts; empty where no file has several names.

    Of several names, one that was read before counts first. Next comes one whose path leads over no link.
    Among equals the first by the order of paths counts.

    Args:
        held: the names that were read before.
    """
    inodes = [file.inode for file in files.values() if file.inode]
    first: dict[tuple[int, str], str] = {}
    if len(set(inodes)) == len(inodes):
        return first
    for path, file in sorted(files.items(), key=lambda each: (each[0] not in held, each[1].linked, each[0])):
        if file.inode:
            first.setdefault((file.inode, file.mark), path)
    return first


def told(others: Mapping[str, Sequence[str]]) -> Counter[str]:
    """Reason, with the names of its first files -> the number of files that are left out for it."""
    found: Counter[str] = Counter()
    for why, paths in others.items():
        more = f" and {len(paths) - _MOST_NAMED:,} more" if len(paths) > _MOST_NAMED else ""
        names = ", ".join(printable(path) or "." for path in sorted(paths)[:_MOST_NAMED])
        found[f"{why} ({names}{more})"] = len(paths)
    return found


def list_folder(folder: str, ignore: tuple[str, ...] = ()) -> Listing:
    """The files in a folder and below it; on a disk each folder is read once, whatever links lead to it.

    Args:
        folder: path or URI.
        ignore: patterns of names. Files in a folder whose name fits one are listed all the same. But no link
            in such a folder is followed, and a link elsewhere whose name fits none may lead there again.

    Raises:
        SourceError: the folder cannot be listed.
    """
    root = absolute(folder)
    if "://" not in root:
        walk = Walk(root, lambda name: first_match(name, ignore) is not None)
        try:
            walk.run()
        except OSError as error:
            raise _unreadable(folder, _WHY.get(type(error), str(error))) from error
        return Listing(
            _sorted(walk.files),
            walk.nameless,
            walk.others,
            walk.aliases,
            frozenset(walk.empty),
            root,
            _is_in_table(root),
        )
    below, found = _look(folder, lambda root: fs.FileSelector(root, recursive=True))
    there = {each.path.removeprefix(below).lstrip("/"): each for each in found if each.size is not None}
    files = {path: _source_file(each) for path, each in there.items() if each.size}
    empty = frozenset(there.keys() - files.keys())
    return Listing(_sorted(files), empty=empty, is_in_table=_is_in_table(root))


@cache
def _is_in_table(folder: str) -> bool:
    """Whether a folder lies within the folder of a Delta table, and not in the table's log."""
    system, path = open_folder(folder)
    names = path.split("/")
    above = [f"{'/'.join(names[:count])}/{_LOG}" for count in range(2, len(names))]
    if _LOG in names or not above:
        return False
    try:
        return any(each.type == fs.FileType.Directory for each in system.get_file_info(above))
    except (ArrowException, OSError):
        return False  # of what lies above it nothing can be known


def read_each(
    folder: str, paths: Iterable[str], read: Callable[[NativeFile, str], Found]
) -> dict[str, Found]:
    """Path -> the result of `read`, for each file that can be read now. Several files are read at once.

    Args:
        folder: path or URI.
        paths: the files' paths below the folder.
        read: the function that is given a file and its path. An error that it raises is the disk's or the
            network's.

    Raises:
        SourceError: none of the files can be read, and some are there.
    """
    system, root = open_folder(absolute(folder))
    failed: list[Exception] = []

    def look(path: str) -> tuple[str, Found] | None:
        try:
            with system.open_input_file(f"{root}/{path}") as source:
                return path, read(source, path)
        except FileNotFoundError:
            return None
        except (ArrowException, OSError) as error:
            failed.append(error)
            return None

    with ThreadPoolExecutor(_AT_ONCE) as threads:
        found = dict(filter(None, threads.map(look, paths)))
    if failed and not found:
        raise SourceError(f"No file of {absolute(folder)} can be opened: {failed[0]}.") from failed[0]
    return found


def _sorted(files: Mapping[str, SourceFile]) -> dict[str, SourceFile]:
    return {path: files[path] for path in sorted(files)}


def look_at(folder: str, paths: Sequence[str]) -> dict[str, SourceFile]:
    """Path -> the file as it stands, for each path below the folder at which there is a file.

    Empty files are left out.

    Args:
        folder: path or URI.

    Raises:
        SourceError: the folder cannot be read.
    """
    _, (itself, *found) = _look(folder, lambda root: [root, *(f"{root}/{path}" for path in paths)])
    if itself.type != fs.FileType.Directory:
        reason = _NOT_THERE if itself.type == fs.FileType.NotFound else _NO_FOLDER
        raise _unreadable(folder, reason)
    return {path: _source_file(each) for path, each in zip(paths, found, strict=True) if each.size}


def _look(folder: str, at: Callable[[str], fs.FileSelector | list[str]]) -> tuple[str, list[fs.FileInfo]]:
    """A folder's path in its file system, and the files that `at` selects there."""
    try:
        system, root = open_folder(absolute(folder))
        return root, system.get_file_info(at(root))
    except (ArrowException, OSError) as error:
        raise _unreadable(folder, _WHY.get(type(error), str(error))) from error


def _unreadable(folder: str, why: str) -> SourceError:
    return SourceError(f"The folder {absolute(folder)} cannot be read: {why}.")


def _source_file(found: fs.FileInfo) -> SourceFile:
    return SourceFile(found.size, found.mtime_ns // 1_000_000)


def open_folder(folder: str) -> tuple[fs.FileSystem, str]:
    """The file system of a folder, by absolute path or URI, and the folder's path in it."""
    parts = urlsplit(folder)
    if not parts.scheme:
        return fs.LocalFileSystem(), folder
    scheme = _SCHEMES.get(parts.scheme, parts.scheme)
    # The path is no part of the URI, in which a per cent sign would be taken for an escape.
    system, bucket = fs.FileSystem.from_uri(f"{scheme}://{parts.netloc}")
    return system, f"{bucket.rstrip('/')}/{parts.path.strip('/')}".rstrip("/")
