"""Files that only grow, as logs do: where each file is, how much was read of it, and which lines are new.

A plan keeps how many of a file's first bytes were read, up to the end of a line, and two checksums: one of
all these bytes, and one of the first and last `_BLOCK` of them. A plan compares the second checksum, which
costs the same whatever the length; each read and each replay compares the first. A file that does not hold
these bytes any more has changed. On a disk a renamed file is known by its inode, if it also holds the bytes.
"""

import os
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pyarrow import ArrowException, NativeFile, fs
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from acker.core.paths import absolute
from acker.spouts.files.listing import Listing, open_folder
from acker.spouts.files.packing import HEAD_BYTES
from acker.spouts.files.planning import Entry
from acker.spouts.files.reading import read_files
from acker.spouts.files.walking import SourceFile

_BLOCK = 1 << 16
_READ = 1 << 20
_LINE_FEED = b"\n"


@dataclass(frozen=True)
class Part(SourceFile):
    """The first bytes of a file, which may be longer.

    Args:
        at: the file's path below the folder now.
        crc: the CRC-32 of the bytes.
    """

    at: str = ""
    crc: int = 0


@dataclass(frozen=True)
class Places:
    """Where some known files are.

    Args:
        homes: name in the plans -> path now, of the files that still hold the bytes that were read.
        changed: paths at which another file is now, or the same file with other contents.
    """

    homes: Mapping[str, str]
    changed: frozenset[str]

    def name_of(self, path: str, known: Mapping[str, Entry]) -> str:
        """The name that a new file gets in the plans: its path, or `path~2` and so on if that is taken.

        Args:
            known: the entries of the files that have names already, by these names.
        """
        name, number = path, 1
        while name in known:
            number += 1
            name = f"{path}~{number}"
        return name


class GrowingFolder:
    """A folder of files that only grow.

    Args:
        folder: path or URI.
    """

    def __init__(self, folder: str) -> None:
        self._system, self._root = open_folder(absolute(folder))

    def places(self, known: Mapping[str, Entry], found: Listing) -> Places:
        """Where known files are; a file that is not listed under the path of its plan is looked for."""
        homes: dict[str, str] = {}
        others: dict[str, Entry] = {}
        for name, entry in known.items():
            path = path_of(entry)
            file = found.files.get(path)
            if file is not None and (self._is_same(path, file, entry) or self._holds_ends(path, entry)):
                homes[name] = path
            else:
                others[name] = entry
        if any("inode" in entry for entry in others.values()):
            taken = set(homes.values())
            inodes = {self.inode(path): path for path in found.files if path not in taken}
            for name, entry in others.items():
                now = inodes.get(entry.get("inode", ""))
                if now is not None and self._holds_ends(now, entry):
                    homes[name] = now
        left = {path_of(entry) for name, entry in others.items() if name not in homes}
        there = left & (found.files.keys() | found.empty)
        return Places(homes, frozenset(there - set(homes.values())))

    def quickly(self, entries: Mapping[str, Entry], found: Listing) -> dict[str, Part]:
        """Name in the plans -> the part that was read, for each file that seems to hold the part still.

        At most the first and the last bytes of the part are compared, unlike in `verified`. A part that is
        not found under the path of its plan is looked for under other names.
        """
        homes = self.places(entries, found).homes
        return {name: _part_of(entries[name], path) for name, path in homes.items()}

    def grown(self, path: str, entry: Entry | None = None) -> dict[str, Any] | None:
        """A plan's entry for a file's whole lines; None where no line came since its newest plan, if any."""
        before = entry or {"bytes": 0, "crc": 0, "end": 0}
        size, lines, crc = before["bytes"], before["end"], before["crc"]
        pending: list[bytes] = []  # of a line that does not end yet
        with self._system.open_input_file(f"{self._root}/{path}") as file:
            file.seek(size)
            for read in _chunks(file):
                whole, feed, rest = read.rpartition(_LINE_FEED)
                if feed:
                    pending.append(whole + feed)
                    size += sum(map(len, pending))
                    lines += read.count(_LINE_FEED)
                    for each in pending:
                        crc = zlib.crc32(each, crc)
                    pending = []
                pending.append(rest)
            if size == before["bytes"]:
                return None
            found = {"end": lines, "bytes": size, "crc": crc, "ends": _ends(file, size)}
        inode = self.inode(path)
        return found | ({} if inode is None else {"inode": inode})

    def unread(self, path: str, entry: Entry | None = None) -> int:
        """Bytes of the whole lines that came since a file's newest plan, if any."""
        after = entry["bytes"] if entry else 0
        with self._system.open_input_file(f"{self._root}/{path}") as file:
            size = file.size()
            for upto in range(size, after, -_READ):
                first = max(after, upto - _READ)
                file.seek(first)
                last: int = file.read(upto - first).rfind(_LINE_FEED)
                if last >= 0:
                    return first + last + 1 - after
        return 0

    def verified(self, entries: Mapping[str, Entry], listed: Callable[[], Listing]) -> dict[str, Part]:
        """Name in the plans -> the part that was read, for each file that still holds all bytes of the part.

        All bytes of the parts are read again and compared with the plans' CRC-32. A part that is not found
        under the path of its plan is looked for under other names.

        Args:
            entries: name in the plans -> the plan's entry of the file.
            listed: the function that lists the folder as it stands.
        """
        held = {name: self._part(path_of(entry), entry) for name, entry in entries.items()}
        if None in held.values():
            others = {name: entries[name] for name, part in held.items() if part is None}
            for name, path in self.places(others, listed()).homes.items():
                held[name] = self._part(path, entries[name])
        return {name: part for name, part in held.items() if part is not None}

    def head(self, path: str) -> bytes:
        """The first bytes of a file, by which a packed one is known; none where it cannot be opened now."""
        try:
            with self._system.open_input_file(f"{self._root}/{path}") as file:
                return bytes(file.read(HEAD_BYTES))
        except (ArrowException, OSError):
            return b""

    def inode(self, path: str) -> str | None:
        """The device and inode of a file, which a rename keeps; None where they are unknown."""
        if not isinstance(self._system, fs.LocalFileSystem):
            return None
        try:
            found = os.stat(f"{self._root}/{path}")
        except OSError:
            return None
        return f"{found.st_dev}:{found.st_ino}"

    def _part(self, path: str, entry: Entry) -> Part | None:
        """The part of a file that was read; None where the file does not hold it."""
        crc, left = 0, entry["bytes"]
        try:
            with self._system.open_input_file(f"{self._root}/{path}") as file:
                while left and (read := file.read(min(_READ, left))):
                    crc, left = zlib.crc32(read, crc), left - len(read)
        except (ArrowException, OSError):
            return None
        return None if left or crc != entry["crc"] else _part_of(entry, path)

    def _is_same(self, path: str, file: SourceFile, entry: Entry) -> bool:
        """Whether the length, the time and the inode of a file are those of its plan."""
        return file.mark == entry["mark"] and self.inode(path) == entry.get("inode")

    def _holds_ends(self, path: str, entry: Entry) -> bool:
        """Whether a file holds the first and the last block of the bytes that were read of it."""
        try:
            with self._system.open_input_file(f"{self._root}/{path}") as file:
                return bool(file.size() >= entry["bytes"] and _ends(file, entry["bytes"]) == entry["ends"])
        except (ArrowException, OSError):
            return False


def part_rows(spark: SparkSession, root: str, parts: Mapping[str, Part]) -> DataFrame:
    """Files as far as they were read: `_source_partition`, the name in the plans, and `value`, the text.

    Args:
        root: path or URI of the folder.

    Raises:
        PySparkException: a file has changed since it was compared; the next try finds the change.
    """
    whole = read_files(spark, "text", root, {part.at: "" for part in parts.values()}, {"wholetext": "true"})
    named = [(part.at, name, part.bytes, part.crc) for name, part in parts.items()]
    of_parts = spark.createDataFrame(named, "_source_partition string, _name string, _bytes int, _crc bigint")
    read = F.substring(F.col("value").cast("binary"), F.lit(1), F.col("_bytes"))
    is_same = F.crc32(read) == F.col("_crc")
    changed = F.concat(F.lit("the file changed while it was read: "), F.col("_source_partition"))
    value = F.when(is_same, read.cast("string")).otherwise(F.raise_error(changed))
    joined = whole.join(F.broadcast(of_parts), "_source_partition")
    return joined.select(F.col("_name").alias("_source_partition"), value.alias("value"))


def _part_of(entry: Entry, path: str) -> Part:
    return Part(entry["bytes"], 0, at=path, crc=entry["crc"])


def path_of(entry: Entry) -> str:
    """Where a file was when it was planned."""
    path: str = entry["at"]
    return path


def _chunks(file: NativeFile) -> Iterator[bytes]:
    while read := file.read(_READ):
        yield read


def _ends(file: NativeFile, size: int) -> int:
    """A checksum of the first and the last block of the first bytes of a file."""
    file.seek(0)
    crc = zlib.crc32(file.read(min(_BLOCK, size)))
    file.seek(max(0, size - _BLOCK))
    return zlib.crc32(file.read(min(_BLOCK, size)), crc)
