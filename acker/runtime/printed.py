"""The lines that bolts print during a run, read from the log of the home's server and shown to the user."""

from collections.abc import Iterator
from dataclasses import dataclass

from acker.components.printed import PRINTED
from acker.core.quoting import printable
from acker.runtime.server import process as server
from acker.runtime.settings import Settings

_MOST_BYTES = 1 << 20  # of the log that are looked through at once
_MOST_LINES = 100  # that are shown at once


@dataclass
class PrintedLines:
    """The lines that bolts of a topology print from now on.

    A server that somebody else runs has its log elsewhere. Then no lines are found.
    """

    settings: Settings
    topology: str

    def __post_init__(self) -> None:
        self._log = server.log_of(self.settings)
        self._file, self._at = self._stands()

    def new(self) -> Iterator[str]:
        """The lines since the last call, each after the name of its bolt."""
        file, end = self._stands()
        start = self._at if file == self._file else 0  # a server that was started since has a log of its own
        self._file, self._at = file, end
        if end <= start:
            return
        with self._log.open("rb") as log:
            log.seek(max(start, end - _MOST_BYTES))
            text = log.read(end - log.tell()).decode(errors="backslashreplace")
        whole, _, begun = text.rpartition("\n")
        self._at -= len(begun.encode())
        head = f"{PRINTED} {self.topology}/"
        found = [line.partition(head)[2] for line in whole.split("\n") if line.startswith(head)]
        yield from (printable(line, keep="\t") for line in found[:_MOST_LINES])
        if len(found) > _MOST_LINES:
            yield f"… and {len(found) - _MOST_LINES:,} more lines in {self._log}"

    def _stands(self) -> tuple[int, int]:
        """The inode and the size of the log; zeros where the log is elsewhere, or there is none."""
        if self.settings.remote is not None:
            return 0, 0
        try:
            found = self._log.stat()
        except OSError:
            return 0, 0
        return found.st_ino, found.st_size
