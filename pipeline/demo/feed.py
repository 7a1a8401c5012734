"""The demonstration's input: source files of the Python standard library, one line a message."""

import re
import sysconfig
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Protocol

from pipeline.wordcount import SOURCES

# What Java's \s is: Python's also splits at other Unicode spaces.
_SPACE = re.compile(r"[ \t\n\x0b\f\r]+")


class Feed(Protocol):
    """Where the lines go, from which the topology's spout reads them."""

    def files(self) -> set[str]:
        """The names of the files that were fed so far."""

    def add(self, name: str, text: bytes) -> None:
        """Feed the lines of a file."""

    def messages(self) -> Iterator[tuple[str, bytes]]:
        """The id and the line of each message that was fed so far."""

    def lags(self) -> Mapping[str, tuple[int, int]]:
        """Partition -> what the source itself tells: how far readers are done with it, and its end."""

    def counts(self) -> Mapping[str, int] | None:
        """Word -> its count, where the counts are published beside the table as well; else None."""


class Files:
    """Lines of files below `SOURCES`."""

    def files(self) -> set[str]:
        """See `Feed`."""
        return {file.relative_to(SOURCES).as_posix() for file in SOURCES.rglob("*.py")}

    def add(self, name: str, text: bytes) -> None:
        """See `Feed`."""
        target = SOURCES / name
        target.parent.mkdir(parents=True, exist_ok=True)
        draft = target.with_name(f"{target.name}.new")  # the spout takes *.py, and only whole files
        draft.write_bytes(text)
        draft.rename(target)

    def messages(self) -> Iterator[tuple[str, bytes]]:
        """See `Feed`."""
        for name in self.files():
            for number, line in enumerate(split((SOURCES / name).read_bytes()), 1):
                yield f"lines:{name}:{number}", line

    def lags(self) -> Mapping[str, tuple[int, int]]:
        """See `Feed`."""
        return {}  # a folder knows nothing of its readers

    def counts(self) -> None:
        """See `Feed`."""


def feed(to: Feed, lines: int) -> int:
    """Feed the standard library's next source files, until there are so many lines. Returns how many.

    Their text is copied because the interpreter's own may change with an upgrade.
    """
    library = Path(sysconfig.get_path("stdlib"))
    already = to.files()
    fed = 0
    for file in sorted(library.rglob("*.py")):
        relative = file.relative_to(library)
        private = any(part.startswith("_") for part in relative.parts)  # what the library keeps to itself
        packages = relative.parts[0] in ("site-packages", "dist-packages")
        if private or packages or relative.as_posix() in already:
            continue
        if fed >= lines:
            break
        text = file.read_bytes()
        to.add(relative.as_posix(), text)
        fed += len(split(text))
    return fed


def split(text: bytes) -> list[bytes]:
    """The lines of a file."""
    lines = text.split(b"\n")
    return lines if lines[-1] else lines[:-1]


def plain_counts(to: Feed, left_out: set[str]) -> Counter[str]:
    """Words of the lines that were fed, counted without any of this project, less some messages."""
    counts: Counter[str] = Counter()
    for message, line in to.messages():
        if message not in left_out:
            counts.update(word.lower() for word in _SPACE.split(line.decode()) if word)
    return counts
