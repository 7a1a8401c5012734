"""Work that kills its own process at a moment: before or after a commit, or a file that is copied."""

import importlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from acker.core import copies
from tests.faults.effects import watch
from tests.kit import ROOT

_WORK = "import sys; from tests.faults.kills import work; work(*sys.argv[1:])"


def killed_at(work: Callable[[Path], Any], folder: Path, moment: int) -> "subprocess.CompletedProcess[str]":
    """Do a module's work in a process that kills itself at a moment. It prints how many there were."""
    command = [sys.executable, "-c", _WORK, work.__module__, work.__name__, folder, str(moment)]
    return subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)


def work(module: str, name: str, folder: str, moment: str) -> None:
    """What the process does."""
    passed = 0

    def pause(*_: Any) -> None:
        nonlocal passed
        passed += 1
        if passed == int(moment):
            os.kill(os.getpid(), signal.SIGKILL)

    def copied(*args: Any, **options: Any) -> None:
        pause()
        copy_files(*args, **options)
        pause()

    copy_files, copies.copy_files = copies.copy_files, copied
    done = getattr(importlib.import_module(module), name)
    watch(Path(folder), pause)
    done(Path(folder))
    print(passed)
