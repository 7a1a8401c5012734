"""The plans of a spout for files that grow: new files first, then longer ones, the oldest plan first.

A file's name in the plans is its path when it was first seen. It keeps the name when it is renamed on a disk,
as by a rotation of logs; the next file of that path is called `path~2`, and so on.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from acker.spouts.base import Backlog, Changed, Range
from acker.spouts.files.growing import GrowingFolder, Places, path_of
from acker.spouts.files.listing import Listing, told
from acker.spouts.files.packing import Packing, packing
from acker.spouts.files.planning import LARGEST_TEXT_BYTES, Entry
from acker.spouts.files.walking import SourceFile

_EXAMPLES = 3  # names of files that a sentence has
_LOOKED_INTO = 1_000  # new files of which a backlog counts whole lines; of further ones all bytes
_CANNOT_GROW = "packed or no text, so they cannot grow"
_TOO_LARGE = f"larger than {LARGEST_TEXT_BYTES >> 30} GiB, whose newest lines are not read"

Parted = tuple[dict[str, SourceFile], Counter[str]]


@dataclass(frozen=True)
class Look:
    """A look at a folder of files that grow.

    Args:
        folder: the folder.
        found: the listing of its files.
        entries: the newest plan of each file by its name, in the order of these plans.
        newest: the newest range, if any.
        parted: a function of a listing and of some paths. Its first result is the files that the spout takes,
            by path. Its second result is reason -> the number of files that the spout leaves out. The
            function takes no file at one of the given paths.
    """

    folder: GrowingFolder
    found: Listing
    entries: Mapping[str, Entry]
    newest: Range | None
    parted: Callable[[Listing, Set[str]], Parted]

    @cached_property
    def grows(self) -> dict[str, Entry]:
        """The known files that grow; a spout may have read other files before it was told that files grow."""
        return {name: entry for name, entry in self.entries.items() if "bytes" in entry}

    @cached_property
    def places(self) -> Places:
        """The places of the known files that grow."""
        return self.folder.places(self.grows, self.found)

    @cached_property
    def fresh(self) -> Parted:
        """New files, and why others are left out."""
        fixed = self.entries.keys() - self.grows.keys()
        taken, left_out = self.parted(self.found, {*self.places.homes.values(), *self.places.changed, *fixed})
        others: dict[str, list[str]] = {_TOO_LARGE: [path for _, path, _ in self._changed(is_large=True)]}
        for path, file in list(taken.items()):
            if file.bytes > LARGEST_TEXT_BYTES:
                others[_TOO_LARGE].append(path)
            elif packing(path, self.folder.head(path)) != Packing():
                others.setdefault(_CANNOT_GROW, []).append(path)
            else:
                continue
            del taken[path]
        return taken, left_out + told({why: paths for why, paths in others.items() if paths})

    def longer(self) -> Iterator[tuple[str, str, Entry]]:
        """Known files that are read as far as they were planned and changed since: name, path and entry."""
        return self._changed(is_large=False)

    def _changed(self, is_large: bool) -> Iterator[tuple[str, str, Entry]]:
        for name, entry in self.grows.items():
            path = self.places.homes.get(name)
            if path is not None and entry["upto"] == entry["end"]:
                file = self.found.files[path]
                if file.mark != entry["mark"] and is_large == (file.bytes > LARGEST_TEXT_BYTES):
                    yield name, path, entry

    def next_files(self, limit: int) -> list[dict[str, Any]]:
        """The entries of the next range, one for each file, of about `limit` lines in all."""
        files: list[dict[str, Any]] = []
        room = limit
        for entry in self._waiting() if limit > 0 else ():
            upto = min(entry["end"], entry["after"] + room)
            files.append({**entry, "upto": upto})
            room -= upto - entry["after"]
            if room <= 0:
                break
        return files

    def _waiting(self) -> Iterator[dict[str, Any]]:
        """The entries of all files with unread lines, each looked for when it is asked for."""
        for last in self.begun():
            home = self.places.homes.get(last["path"])
            yield {**last, "after": last["upto"]} | ({} if home is None else {"at": home})
        names = dict(self.entries)
        for path, file in self.fresh[0].items():
            name = self.places.name_of(path, names)
            if (more := self.folder.grown(path)) is not None:
                names[name] = {}
                yield {"path": name, "at": path, "mark": file.mark, "after": 0, **more}
        for name, path, entry in self.longer():
            mark = self.found.files[path].mark
            if (more := self.folder.grown(path, entry)) is not None:
                yield {"path": name, "at": path, "mark": mark, "after": entry["end"], **more}

    def begun(self) -> list[Entry]:
        """Files within which the newest range ends."""
        return [file for file in (self.newest or {"files": []})["files"] if file["upto"] < file["end"]]

    def backlog(self) -> Backlog:
        """See `HasBacklog`."""
        begun, sizes = self.begun(), dict[str, int]()
        for n, (path, file) in enumerate(self.fresh[0].items()):
            sizes[path] = self.folder.unread(path) if n < _LOOKED_INTO else file.bytes
        for _, path, entry in self.longer():
            sizes[path] = self.folder.unread(path, entry)
        waiting = [path for path, size in sizes.items() if size]
        unread = {
            "files": len(waiting) + len(begun),
            "rows": sum(file["end"] - file["upto"] for file in begun),
            "bytes": sum(sizes.values()),
        }
        homes = (self.places.homes.get(entry["path"]) for entry in begun)
        there = [self.found.files[path] for path in (*waiting, *homes) if path is not None]
        return Backlog(
            {unit: count for unit, count in unread.items() if count},
            min((file.changed_at for file in there), default=None),
            dict(self.fresh[1]),
            changed=self._differing(),
            gone=named(self._gone()),
            is_empty=self.found.is_empty,
        )

    def _gone(self) -> list[str]:
        """The names in the plans of known files that are not found, and in whose place is no changed file.

        Another known file may be in that place, as where a log was renamed before a new one began.
        """
        others = [
            name for name, entry in self.entries.items() if name not in self.grows and "why" not in entry
        ]
        homes = {*self.places.homes.values()}
        nowhere = {
            name: path_of(entry) for name, entry in self.grows.items() if name not in self.places.homes
        }
        missing = {*self.found.missing(nowhere.values()), *homes}
        return [*self.found.missing(others), *(name for name, path in nowhere.items() if path in missing)]

    def _differing(self) -> Changed | None:
        nothing = SourceFile(0, 0)
        now = {path: self.found.files.get(path, nothing) for path in self.places.changed}
        marks = {
            name: entry["mark"]
            for name, entry in self.entries.items()
            if name not in self.grows and "why" not in entry
        }
        now |= self.found.differing(marks)
        return named(self.parted(replace(self.found, files=now, nameless=0, others={}), frozenset())[0])


def named(paths: Iterable[str]) -> Changed | None:
    """The number of some files, with the names of the first of them; None where there are no files."""
    found = sorted(paths)
    return Changed(len(found), tuple(found[:_EXAMPLES])) if found else None


def split_entries(entries: Iterable[Entry]) -> tuple[dict[str, Entry], dict[str, Entry]]:
    """Entries of files that do not change, and of files that grow, by their names in the plans."""
    found: tuple[dict[str, Entry], dict[str, Entry]] = {}, {}
    for entry in entries:
        found["bytes" in entry][entry["path"]] = entry
    return found
