"""Runs a command, and ends it with all processes that it has started when the guard's parent is gone.

`python process_guard.py PARENT COMMAND...`, as the leader of a session of its own. A parent that is killed
can end nothing any more. Airflow's parts leave workers behind, each in a process group of its own. All of
these workers are in the guard's session.
"""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from types import FrameType

PRIVATE = 0o077

_POLL_SECONDS = 0.3
_STOP_SECONDS = 10.0
_PATIENCE_SECONDS = 20  # for a guard, which kills what does not stop


def start(
    command: Sequence[str],
    log: Path,
    environ: Mapping[str, str] | None = None,
    folder: Path | None = None,
    held: Collection[int] = (),
    umask: int = PRIVATE,
) -> "subprocess.Popen[bytes]":
    """Start a command under a guard, so that it ends with this process.

    Args:
        command: the command and its arguments.
        log: the file to which the command's output is appended. Where it is full another one is begun.
        environ: the command's environment; None: this process's own.
        folder: the command's current folder; None: this process's own.
        held: file descriptors, such as of locks, that the guard keeps open until the command and all that it
            has started have ended.
        umask: the rights that others do not get on the command's files.

    Returns:
        The guard's process, which `stop` ends with all that the command has started.
    """
    from acker.runtime.server.logs import kept_log  # which a guard, a process without packages, does not know

    with kept_log(log, umask) as output:
        return subprocess.Popen(
            [sys.executable, "-IS", __file__, str(os.getpid()), *command],
            env=environ,
            cwd=folder,
            pass_fds=held,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            umask=umask,
            start_new_session=True,  # so that Ctrl-C here does not reach it
        )


def stop(guards: "Collection[subprocess.Popen[bytes]]") -> None:
    """Ask all guards to end their commands, and wait until the guards have ended."""
    for guard in guards:
        if guard.poll() is None:
            guard.send_signal(signal.SIGTERM)
    for guard in guards:
        try:
            guard.wait(_PATIENCE_SECONDS)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(guard.pid, signal.SIGKILL)
            guard.wait()


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
    while left := _others():
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        child.poll()
        time.sleep(_POLL_SECONDS)


def _others() -> list[int]:
    """The other processes of this session that have not ended."""
    told = subprocess.run(["ps", "-A", "-o", "pid=,stat="], capture_output=True, text=True).stdout
    found = [line.split() for line in told.splitlines()]
    alive = [int(pid) for pid, state in found if not state.startswith("Z")]
    return [pid for pid in alive if pid != os.getpid() and _session(pid) == os.getpid()]


def _session(pid: int) -> int | None:
    try:
        return os.getsid(pid)
    except OSError:
        return None


if __name__ == "__main__":
    main()
