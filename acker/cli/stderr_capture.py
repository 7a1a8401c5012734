"""Lines that others write to standard error while a bar is drawn there: logs, warnings, libraries of C.

These writers use the file descriptor, and many do not use `sys.stderr`. So the descriptor is a pipe while the
bar is drawn. The code that draws the bar prints the lines of the pipe.
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
def captured_stderr(show: Callable[[str], None]) -> Iterator[None]:
    """Hand each line that is written to standard error to `show`, in a thread that ends with the block."""
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
    """A copy of standard error as it is now, which a later redirection of its descriptor does not change."""
    return open(os.dup(_STDERR), "w", encoding="utf-8", errors="replace")


def _read(pipe: int, show: Callable[[str], None]) -> None:
    """Show the lines of a pipe up to the line `_END`, and close the pipe."""
    with open(pipe, encoding="utf-8", errors="replace", newline="\n") as lines:
        for line in lines:
            if line == f"{_END}\n":
                return
            if line.strip():
                show(line.rstrip())
