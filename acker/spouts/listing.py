"""The files of a folder, listed without Spark, so that plans, reads and status all see the same.

Spark's own listing hides what begins with `_` or `.`. This one hides nothing: which files a spout leaves out
is a rule of names, `IGNORED`, that its author can read and change.
"""

from collections import Counter
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from urllib.parse import urlsplit

from pyarrow import ArrowException, fs

from acker.core.errors import SourceError
from acker.core.paths import absolute
from acker.spouts.globs import first_match, matches

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
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NOT_THERE, _NO_FOLDER = "it is not there", "it is a file"
_NO_TEXT = "with a name that is not UTF-8"


@dataclass(frozen=True)
class SourceFile:
    """A file of a folder.

    Args:
        bytes: its length.
        changed_millis: when it was changed, in milliseconds since 1970.
    """

    bytes: int
    changed_millis: int

    @property
    def mark(self) -> str:
        """What tells that the file changed, as journals hold it: Hadoop knows a file by the same two."""
        return f"{self.bytes}:{self.changed_millis}"

    @property
    def changed_at(self) -> datetime:
        """When it was changed (UTC)."""
        return _EPOCH + timedelta(milliseconds=self.changed_millis)


@dataclass(frozen=True)
class Listing:
    """The files below a folder, but for empty ones.

    Args:
        files: by their path relative to the folder, with `/` between names, in the order of these.
        nameless: how many have a name that is no text.
        empty: the paths of the empty ones.
    """

    files: Mapping[str, SourceFile]
    nameless: int = 0
    empty: frozenset[str] = frozenset()

    def without(self, paths: Container[str]) -> "Listing":
        """The listing of the other files."""
        return replace(self, files={path: file for path, file in self.files.items() if path not in paths})

    def differing(self, marks: Mapping[str, str]) -> dict[str, SourceFile]:
        """The files that have another mark now, by their path; one that is not there is none of them."""
        nothing = SourceFile(0, 0)
        now = {path: nothing if path in self.empty else self.files.get(path) for path in marks}
        return {path: file for path, file in now.items() if file is not None and file.mark != marks[path]}

    def parted(
        self, glob: str, ignore: tuple[str, ...], start: str = ""
    ) -> tuple[dict[str, SourceFile], Counter[str]]:
        """The files that a spout is to read, and how many it leaves out for which reason.

        Args:
            glob: what a file's name must fit.
            ignore: what neither its name nor that of a folder of it may fit.
            start: paths that sort before it are left out.
        """
        taken: dict[str, SourceFile] = {}
        left_out = Counter({_NO_TEXT: self.nameless} if self.nameless else {})
        for path, file in self.files.items():
            names = path.split("/")
            ignored = next(filter(None, (first_match(name, ignore) for name in names)), None)
            reason = f"named {ignored}" if ignored else None
            if reason is None and not matches(names[-1], glob):
                reason = f"not named {glob}"
            if reason is None and path < start:
                reason = f"before {start}"
            if reason is None:
                taken[path] = file
            else:
                left_out[reason] += 1
        return taken, left_out


def list_folder(folder: str) -> Listing:
    """What is in a folder and below it, as it stands.

    Args:
        folder: path or URI.

    Raises:
        SourceError: it cannot be listed.
    """
    root, found = _look(folder, lambda root: fs.FileSelector(root, recursive=True))
    files: dict[str, SourceFile] = {}
    empty = set()
    nameless = 0
    for each in found:
        if each.size is None:  # a folder
            continue
        try:
            path = each.path.removeprefix(root).lstrip("/")
        except UnicodeDecodeError:
            nameless += 1
            continue
        if each.size:
            files[path] = _source_file(each)
        else:
            empty.add(path)
    return Listing({path: files[path] for path in sorted(files)}, nameless, frozenset(empty))


def look_at(folder: str, paths: Sequence[str]) -> dict[str, SourceFile]:
    """Some files of a folder, as they stand, by their paths below it; without those that are not there.

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
    """A folder's path in its file system, and what is there of what is looked for."""
    try:
        system, root = open_folder(absolute(folder))
        return root, system.get_file_info(at(root))
    except (ArrowException, OSError) as error:
        why = {FileNotFoundError: _NOT_THERE, NotADirectoryError: _NO_FOLDER}
        raise _unreadable(folder, why.get(type(error), str(error))) from error


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
