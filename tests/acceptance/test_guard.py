"""The guard of a process: nothing that it started outlives the one that asked for it."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from embedded import process_guard as guard
from tests.kit.waiting import wait_for

# A part that starts a worker with a process group of its own, which ignores being asked to end.
PART = """
import pathlib, subprocess, sys, time
code = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"
worker = subprocess.Popen([sys.executable, "-c", code], process_group=0)
pathlib.Path(sys.argv[1]).write_text(str(worker.pid))
time.sleep(600)
"""
PARENT = """
import os, subprocess, sys, time
guard, part, told = sys.argv[1:]
command = [sys.executable, guard, str(os.getpid()), sys.executable, "-c", part, told]
subprocess.Popen(command, start_new_session=True)
time.sleep(600)
"""


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_what_a_killed_parent_had_guarded_ends_with_its_workers(tmp_path):
    told = tmp_path / "worker"
    parent = subprocess.Popen([sys.executable, "-c", PARENT, guard.__file__, PART, str(told)])
    wait_for(lambda: told.exists() and told.read_text(), every_seconds=0.05)
    worker = int(told.read_text())
    assert is_alive(worker)
    os.kill(parent.pid, signal.SIGKILL)
    parent.wait()
    wait_for(lambda: not is_alive(worker), every_seconds=0.05)
