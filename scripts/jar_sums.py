"""Writes the SHA-256 of each jar beside the lists that name the jars, after a list has changed.

Ivy puts the jars into a temporary folder. Each line that differs from the sums before is printed: look at it
before you commit.
"""

import difflib
from pathlib import Path
from tempfile import TemporaryDirectory

from acker.runtime.server.jars import retrieve, sums, sums_file

_ROOT = Path(__file__).resolve().parents[1]
LISTS = [
    *sorted((_ROOT / "acker" / "runtime" / "server").glob("*.xml")),
    _ROOT / "embedded" / "broker.xml",
    _ROOT / "bench" / "storm" / "ivy.xml",
]


def main() -> None:
    """Write the sums of all lists."""
    for listed in LISTS:
        file = sums_file(listed)
        before = file.read_text() if file.exists() else ""
        with TemporaryDirectory(prefix="acker-jars-") as folder:
            retrieve(listed, jars := Path(folder) / "jars")
            after = "".join(f"{digest}  {name}\n" for name, digest in sums(jars).items())
        file.write_text(after)
        lines = difflib.unified_diff(before.splitlines(), after.splitlines(), lineterm="", n=0)
        changed = [line for line in lines if line.startswith(("+", "-")) and line[3:4] != " "]
        print(f"{file.relative_to(_ROOT)}: {len(after.splitlines())} jars", *changed, sep="\n")


if __name__ == "__main__":
    main()
