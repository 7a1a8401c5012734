"""Runs a command, and ends it with everything that it has started when its own parent is gone.

`python guard.py PARENT COMMAND...`, as the leader of a process group of its own. A parent that is killed
can end nothing any more, and Airflow's parts leave their workers behind; the group has them all.
"""

import os
import signal
import subprocess
import sys
import time
from types import FrameType

_POLL_SECONDS = 0.3
_STOP_SECONDS = 10.0


def main() -> None:
    """Guard the command until it ends, its parent is gone, or SIGTERM comes."""
    parent, command = int(sys.argv[1]), sys.argv[2:]
    asked: list[int] = []

    def ask(number: int, frame: FrameType | None) -> None:
        asked.append(number)

    signal.signal(signal.SIGTERM, ask)
    child = subprocess.Popen(command)
    while child.poll() is None and not asked and os.getppid() == parent:
        time.sleep(_POLL_SECONDS)
    os.killpg(0, signal.SIGTERM)
    deadline = time.monotonic() + _STOP_SECONDS
    while child.poll() is None and time.monotonic() < deadline:
        time.sleep(_POLL_SECONDS)
    os.killpg(0, signal.SIGKILL)  # this process included


if __name__ == "__main__":
    main()
