"""The mistakes of `docs/how-to/mistakes.md`, as tests make them: a command, and what it must print."""

import re
import shlex
from dataclasses import dataclass

from tests.kit import ROOT

PAGE = ROOT / "docs" / "how-to" / "mistakes.md"
_ROW = re.compile(r"\| (.+?) \| `((?:\w+=\S* )*)acker (.+?)` \| (.+) \|")
_DIFFERS = "…"  # what differs from machine to machine


@dataclass(frozen=True)
class Mistake:
    """A row of the table."""

    what: str
    environ: dict[str, str]
    arguments: list[str]
    printed: str

    @property
    def needs_spark(self) -> bool:
        return self.arguments[0] == "run"

    def is_told_in(self, output: str) -> bool:
        """Whether a command printed, as a line, what the table says."""
        pattern = ".*".join(re.escape(part) for part in self.printed.split(_DIFFERS))
        return any(re.fullmatch(pattern, line) for line in output.splitlines())


def mistakes() -> list[Mistake]:
    """The rows of the table, in its order."""
    rows = [_ROW.fullmatch(line) for line in PAGE.read_text().splitlines()]
    return [
        Mistake(
            what=row[1],
            environ=dict(each.split("=", 1) for each in row[2].split()),
            arguments=shlex.split(row[3]),
            printed=row[4].replace(r"\|", "|"),
        )
        for row in rows
        if row is not None
    ]
