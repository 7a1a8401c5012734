"""An error that nobody foresaw, as a command tells of it: one sentence, and its trace in a file.

The file lies in the home, or among temporary files where there is no home or it cannot be written.
"""

import os
import sys
import sysconfig
import tempfile
import traceback
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from acker.core.quoting import printable
from acker.runtime.settings import Settings

_MOST_KEPT = 20  # traces in a home
_SHOWN = 500  # characters of what an error says
_LIBRARIES = tuple({*sysconfig.get_paths().values(), str(Path(__file__).parents[1])})


def told(error: BaseException) -> str:
    """Keep the trace of an error that nobody foresaw. Returns sentences on the error and the trace's file."""
    first = next((line.strip() for line in str(error).splitlines() if line.strip()), "")
    said = f"{type(error).__name__}: {first[:_SHOWN]}".rstrip(":. ")
    return f"An error that nobody foresaw, {said}{_place_of_author(error)}. {kept(error)}"


def kept(error: BaseException) -> str:
    """Keep the trace of an error in a file. Returns a sentence that names the file."""
    now = datetime.now(UTC)
    text = "".join(
        [
            f"acker {version('acker')}, Python {sys.version.split()[0]}, {now:%Y-%m-%d %H:%M:%S} UTC\n",
            f"{' '.join(sys.argv)}\n\n",
            *traceback.format_exception(error),
        ]
    )
    for make in (_in_home, _among_temporary_files):
        try:
            number, path = make(now)
            with os.fdopen(number, "w", errors="backslashreplace") as file:
                file.write(text)
        except OSError:
            continue
        return f"Its trace is in {path}: see there whose code raised it."
    return "No folder takes its trace: set TMPDIR to a folder of yours, and run the command again."


def _in_home(now: datetime) -> tuple[int, Path]:
    """Make a file for a trace in the home, and delete the oldest traces there.

    Returns:
        The descriptor of the open file, and its path.

    Raises:
        OSError: there is no home, or it cannot be written.
    """
    try:
        home = Settings.from_env().home
    except Exception as error:  # which may be the very error
        raise FileNotFoundError from error
    folder = home / "errors"
    folder.mkdir(mode=0o700, exist_ok=True)
    path = folder / f"{now:%Y%m%dT%H%M%S.%f}-{os.getpid()}.txt"
    number = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    for old in sorted(folder.glob("*.txt"))[:-_MOST_KEPT]:
        old.unlink(missing_ok=True)
    return number, path


def _among_temporary_files(now: datetime) -> tuple[int, Path]:
    number, path = tempfile.mkstemp(".txt", f"acker-error-{now:%Y%m%dT%H%M%S}-")
    return number, Path(path)


def _place_of_author(error: BaseException) -> str:
    """The innermost place of the author's own code in an error's trace; empty where there is none."""
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if not frame.filename.startswith(("<", *_LIBRARIES)):
            return f" ({printable(frame.filename)}, line {frame.lineno})"
    return ""
