"""The logs of processes: kept within a size, and searched for the reason where a process did not start."""

import contextlib
import re
import subprocess
import sys
from pathlib import Path
from typing import IO

MOST_BYTES = 32 << 20  # of a log, and as many of the file before it

_KEEPER = Path(__file__).with_name("log_keeper.py")
_WORDS_SECONDS = 2  # in which the last words of a process that has ended are written
_TELLING = re.compile(r"Exception|Error|ERROR|Could not|[Ii]nvalid|[Ff]ailed")

# What writes each log for a process that this one has started.
_keepers: dict[Path, "subprocess.Popen[bytes]"] = {}


def kept_log(log: Path, umask: int, most_bytes: int = MOST_BYTES) -> IO[bytes]:
    """A pipe for the output of a process, whose bytes are appended to a log of a limited size.

    The caller closes the pipe once the process is started.

    Args:
        log: the file of the log.
        umask: the rights that others do not get on the log.
        most_bytes: the size after which another file is begun; the file before stays as `<log>.old`.
    """
    log.open("ab").close()  # raises here where it cannot be written
    keeper = subprocess.Popen(
        [sys.executable, "-IS", str(_KEEPER), str(log), str(most_bytes)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        umask=umask,
        start_new_session=True,  # it ends after those that write to it
    )
    for other in list(_keepers):
        if _keepers[other].poll() is not None:
            del _keepers[other]
    _keepers[log] = keeper
    assert keeper.stdin is not None
    return keeper.stdin


def last_words(log: Path) -> str:
    """The line of the log that tells most about a failed start, and where the log is."""
    if log in _keepers:
        with contextlib.suppress(subprocess.TimeoutExpired):
            _keepers[log].wait(_WORDS_SECONDS)
    lines = [line.strip() for line in log.read_text(errors="replace").splitlines() if line.strip()]
    telling = [line for line in lines if _TELLING.search(line)] or lines or ["its log is empty."]
    return f"{telling[-1]} The log is {log}."
