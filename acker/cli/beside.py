"""What others write to standard error while a bar is drawn there: logs, warnings, libraries of C.

They write to the file descriptor, many of them past `sys.stderr`. So the descriptor is a pipe for a while,
whose lines are printed by whoever draws the bar.
"""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Thread
from typing import TextIO

_STDERR = 2
_END = "\0"  # a line that ends the reading; a child process may keep the pipe open for longer


@contextmanager
def lines_of_standard_error(show: Callable[[str], None]) -> Iterator[None]:
    """Hand each line that is written to standard error to `show`, in a thread that ends with the last."""
    sys.stderr.flush()
    kept = os.dup(_STDERR)
    reader, writer = os.pipe()
    os.dup2(writer, _STDERR)
    reading = Thread(target=_read, args=(reader, show), daemon=True)
    reading.start()
    try:
        yield
    finally:
        sys.stderr.flush()
        os.dup2(kept, _STDERR)
        os.close(kept)
        os.write(writer, f"\n{_END}\n".encode())
        os.close(writer)
        reading.join()


def terminal() -> TextIO:
    """Standard error as it is now, whatever becomes of its descriptor."""
    return open(os.dup(_STDERR), "w", encoding="utf-8", errors="replace")


def _read(pipe: int, show: Callable[[str], None]) -> None:
    """Show the lines of a pipe; its end closes the pipe."""
    with open(pipe, encoding="utf-8", errors="replace", newline="\n") as lines:
        for line in lines:
            if line == f"{_END}\n":
                return
            if line.strip():
                show(line.rstrip())
