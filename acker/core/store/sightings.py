"""Sightings: since when this machine has seen something as it is, by a clock that nobody sets.

Calendars differ between machines, and are set forward and back. How long something has not changed is
measured by the time since the machine's start, sleep included. A later command goes on with the sightings of
earlier ones, until the machine starts again.
"""

import hashlib
import json
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import astuple, dataclass
from functools import cache
from pathlib import Path
from uuid import uuid4

_Marks = dict[str, dict[str, tuple[float, float]]]  # mark -> start of a machine -> moment

_KEPT = 4  # marks, of which the newest may be of a commit that has failed
_BOOT = Path("/proc/sys/kernel/random/boot_id")


def steady_seconds() -> float:
    """Seconds since the machine was started, sleep included."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


@cache
def _start_of_machine() -> str:
    """An id that is another one after each start of the machine."""
    try:
        return _BOOT.read_text().strip()
    except OSError:  # no Linux
        command = ["sysctl", "-n", "kern.bootsessionuuid"]
        return subprocess.run(command, capture_output=True, text=True).stdout.strip()


@dataclass(frozen=True)
class Moment:
    """A moment by both clocks of a machine, in seconds.

    Args:
        steady: by the clock that nobody sets.
        calendar: by the calendar, since 1970.
    """

    steady: float
    calendar: float

    def is_within(self, seconds: float, now: "Moment") -> bool:
        """Whether by both clocks the moment is less than so many seconds ago.

        A machine that was paused from outside may notice the pause by its calendar alone.
        """
        passed = (now.steady - self.steady, now.calendar - self.calendar)
        return all(0 <= each < seconds for each in passed)


class Sightings:
    """The marks that were seen of some things, with the moment at which each was seen first.

    Args:
        folder: where later commands find the marks; None: nowhere.
        steady: see `steady_seconds`.
    """

    def __init__(self, folder: Path | None = None, steady: Callable[[], float] = steady_seconds) -> None:
        self._folder, self.steady = folder, steady
        self._kept: dict[str, _Marks] = {}

    def first(self, what: str, mark: str) -> Moment | None:
        """The moment at which a mark was seen first since the machine's start; None where it was not seen.

        Args:
            what: the name of the thing that has the mark, such as the path of a lease.
        """
        seen = self._read(what).get(mark, {}).get(_start_of_machine())
        return Moment(*seen) if seen else None

    def note(self, what: str, mark: str, moment: Moment) -> None:
        """Record that a mark was seen at a moment. Where no file can be written, only this process has it.

        Args:
            what: the name of the thing that has the mark, such as the path of a lease.
        """
        found = self._read(what)
        # Of one home there may be several machines.
        seen = {**found.pop(mark, {}), _start_of_machine(): astuple(moment)}
        self._kept[what] = found = {**dict([*found.items()][1 - _KEPT :]), mark: seen}
        if self._folder is not None:
            with suppress(OSError):
                self._folder.mkdir(parents=True, exist_ok=True)
                draft = self._folder / f"{uuid4().hex}.new"
                draft.write_text(json.dumps(found))
                draft.replace(self._file(what))

    def _read(self, what: str) -> _Marks:
        with suppress(OSError, ValueError):
            if self._folder is not None:
                found: _Marks = json.loads(self._file(what).read_text())
                return found if isinstance(found, dict) else {}
        return dict(self._kept.get(what, {}))

    def _file(self, what: str) -> Path:
        assert self._folder is not None
        return self._folder / f"{hashlib.sha256(what.encode()).hexdigest()[:16]}.json"
