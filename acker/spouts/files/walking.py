"""A folder on a disk, walked so that each folder below it is entered once, whatever links lead to it.

Folders come before links to them, and links in the order of their paths. So a link to a folder that is read
anyway adds nothing, and a link that leads in a circle is no trouble. Entries that are no files are noted.
"""

import os
import stat
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

NO_FILE = "that are pipes, sockets or devices"
NOWHERE = "links that lead nowhere"
SAME_FOLDER = "links to folders that are read under another name"
NO_ENTRY = "that cannot be looked at"


@dataclass(frozen=True)
class SourceFile:
    """A file of a folder.

    Args:
        bytes: the file's length.
        changed_millis: when the file was changed, in milliseconds since 1970.
        inode: the number that all names of the file have in common; 0 where it is unknown.
        linked: whether the path leads over a link.
    """

    bytes: int
    changed_millis: int
    inode: int = field(default=0, compare=False, repr=False)
    linked: bool = field(default=False, compare=False, repr=False)

    @property
    def mark(self) -> str:
        """The file's length and time, as journals hold them: Hadoop, too, knows by these that it changed."""
        return f"{self.bytes}:{self.changed_millis}"

    @property
    def changed_at(self) -> datetime:
        """When the file was changed (UTC)."""
        return _EPOCH + timedelta(milliseconds=self.changed_millis)


@dataclass
class Walk:
    """A walk through a folder and the folders below it.

    Args:
        root: the folder.
        is_ignored: tells of a name whether files and folders of this name are left out. Files in such folders
            are found, but the folders count as not entered, and links in them are not followed.
        files: the files that are not empty, by their paths below the root.
        others: reason -> the paths that are no files that can be read.
        aliases: path of a folder -> the path under which the same folder was entered.
        empty: the paths of empty files.
        nameless: the number of files that are not empty and whose name is no text.
    """

    root: str
    is_ignored: Callable[[str], bool]
    files: dict[str, SourceFile] = field(default_factory=dict)
    others: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    aliases: dict[str, str] = field(default_factory=dict)
    empty: set[str] = field(default_factory=set)
    nameless: int = 0
    _entered: dict[int | str, str] = field(default_factory=dict)
    _links: list[str] = field(default_factory=list)

    def run(self) -> None:
        """Walk through the folder, and note its files.

        Raises:
            OSError: the root cannot be listed.
        """
        os.scandir(self.root).close()
        self._enter("", linked=False)
        while self._links:
            self._links.sort(reverse=True)
            self._enter(self._links.pop(), linked=True)

    def _enter(self, top: str, *, linked: bool) -> None:
        """Look at a folder and the folders in it, and leave links to folders for later."""
        folders = [(top, False)]
        while folders:
            folder, ignored = folders.pop()
            try:
                if not ignored and self._is_entered(folder):
                    continue
                with os.scandir(self._at(folder)) as entries:
                    for entry in entries:
                        path = f"{folder}/{entry.name}" if folder else entry.name
                        if self._is_folder(entry, path, ignored, linked):
                            folders.append((path, ignored or self.is_ignored(entry.name)))
            except FileNotFoundError:  # it went meanwhile
                continue
            except OSError as error:
                self._other(f"{NO_ENTRY}: {error.strerror}", folder)

    def _is_entered(self, folder: str) -> bool:
        at = self._at(folder)
        first = self._entered.setdefault(_inode(os.stat(at)) or os.path.realpath(at), folder)
        if first != folder:
            self.aliases[folder] = first
            self._other(SAME_FOLDER, folder)
        return first != folder

    def _is_folder(self, entry: os.DirEntry[str], path: str, ignored: bool, linked: bool) -> bool:
        """Whether an entry is a folder that is to be entered now; other entries are noted by their kind.

        Args:
            ignored: whether the entry lies in a folder of which nothing is read.
            linked: whether that folder was entered over a link.
        """
        is_link = entry.is_symlink()
        try:
            found = entry.stat()
        except OSError as error:
            if is_link or not isinstance(error, FileNotFoundError):
                self._tell(ignored, entry.name, NOWHERE if is_link else f"{NO_ENTRY}: {error.strerror}", path)
            return False
        if stat.S_ISDIR(found.st_mode):
            if is_link and not ignored and not self.is_ignored(entry.name):
                self._links.append(path)
            return not is_link
        if not stat.S_ISREG(found.st_mode):
            self._tell(ignored, entry.name, NO_FILE, path)
        elif not _is_text(path):
            self.nameless += 1 if found.st_size else 0
        elif not found.st_size:
            self.empty.add(path)
        else:
            changed = found.st_mtime_ns // 1_000_000
            self.files[path] = SourceFile(found.st_size, changed, _inode(found), linked or is_link)
        return False

    def _tell(self, ignored: bool, name: str, why: str, path: str) -> None:
        if not ignored and not self.is_ignored(name):
            self._other(why, path)

    def _other(self, why: str, path: str) -> None:
        self.others[why].append(path.encode(errors="replace").decode())

    def _at(self, folder: str) -> str:
        return f"{self.root}/{folder}" if folder else self.root


def _inode(found: os.stat_result) -> int:
    return found.st_dev << 64 | found.st_ino if found.st_ino else 0  # some file systems have none


def _is_text(path: str) -> bool:
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return True
