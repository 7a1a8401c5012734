"""Work that kills its own process at a moment: before or after a commit, or a file that is copied."""

import os
import signal
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from acker.core.store import copies
from tests.faults.effects import watch
from tests.faults.worker import begin, end_of, processes


def killed_at(work: Callable[[Path], Any], folder: Path, moment: int) -> int | None:
    """Do a module's work in a process that kills itself at a moment.

    Returns:
        How many moments there were, where there are less; None: it was killed.
    """
    ours, theirs = processes.Pipe(duplex=False)
    process = begin(_work, theirs, work, folder, moment)
    theirs.close()
    try:
        passed: int | None = ours.recv()
    except EOFError:
        passed = None
    assert end_of(process) == (-signal.SIGKILL if passed is None else 0)
    return passed


def _work(pipe: Connection, work: Callable[[Path], Any], folder: Path, moment: int) -> None:
    """What the process does."""
    passed = 0

    def pause(*_: Any) -> None:
        nonlocal passed
        passed += 1
        if passed == moment:
            os.kill(os.getpid(), signal.SIGKILL)

    def copied(*args: Any, **options: Any) -> None:
        pause()
        copy_files(*args, **options)
        pause()

    copy_files, copies.copy_files = copies.copy_files, copied
    watch(folder, pause)
    work(folder)
    pipe.send(passed)
