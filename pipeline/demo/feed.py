"""The demonstration's input: source files of the Python standard library, one line a message."""

import re
import shutil
import sysconfig
from collections import Counter
from pathlib import Path

from pipeline.wordcount import SOURCES

# What Java's \s is: Python's also splits at other Unicode spaces.
_SPACE = re.compile(r"[ \t\n\x0b\f\r]+")


def feed(lines: int) -> int:
    """Copy the standard library's next source files, until there are so many lines. Returns how many.

    They are copied because the interpreter's own may change with an upgrade.
    """
    library = Path(sysconfig.get_path("stdlib"))
    fed = 0
    for file in sorted(library.rglob("*.py")):
        relative = file.relative_to(library)
        target = SOURCES / relative
        private = any(part.startswith("_") for part in relative.parts)  # what the library keeps to itself
        if private or relative.parts[0] in ("site-packages", "dist-packages") or target.exists():
            continue
        if fed >= lines:
            break
        target.parent.mkdir(parents=True, exist_ok=True)
        draft = target.with_name(f"{target.name}.new")  # the spout takes *.py, and only whole files
        shutil.copy2(file, draft)
        draft.rename(target)
        fed += _count_lines(target)
    return fed


def lines_fed() -> int:
    """How many lines were fed so far."""
    return sum(_count_lines(file) for file in SOURCES.rglob("*.py"))


def _count_lines(file: Path) -> int:
    text = file.read_bytes()
    return text.count(b"\n") + (not text.endswith(b"\n") and text != b"")


def plain_counts(left_out: set[str]) -> Counter[str]:
    """Words of the lines that were fed, counted without any of this project, less some messages."""
    counts: Counter[str] = Counter()
    for file in SOURCES.rglob("*.py"):
        path = file.relative_to(SOURCES).as_posix()
        for number, line in enumerate(file.read_bytes().split(b"\n"), 1):
            if f"lines:{path}:{number}" not in left_out:
                counts.update(word.lower() for word in _SPACE.split(line.decode()) if word)
    return counts
