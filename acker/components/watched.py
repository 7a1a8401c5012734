"""How a process ends that runs the code of a Python bolt over a message which ends Spark's workers.

The module is pickled by value, so a worker needs PySpark and PyArrow and not this project.
"""

import contextlib
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator

import pyarrow as pa
from pyspark import cloudpickle

_PATIENCE_SECONDS = 60
_POLL_SECONDS = 0.01

_Run = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # type: ignore[no-untyped-call]


class Watched:
    """Runs a task of a Python bolt in a process of its own, to tell how the process ends; returns no rows.

    Args:
        run: the task.
        reason: the beginning of the error's text where the process ends before the task.
    """

    def __init__(self, run: _Run, reason: str) -> None:
        self.run = run
        self.reason = reason

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Run the task over all batches.

        Raises:
            RuntimeError: the process ended before the task. The error tells its exit code, for a signal as a
                shell does.
        """
        given = list(batches)
        child = os.fork()
        if child == 0:
            with contextlib.suppress(BaseException):  # what it raises is not looked for here
                for _ in self.run(iter(given)):
                    pass
            os._exit(0)
        code = os.waitstatus_to_exitcode(self._status(child))
        if code:
            raise RuntimeError(f"{self.reason} (exit code {code if code > 0 else 128 - code})")
        yield from ()

    def _status(self, child: int) -> int:
        """The exit status of the process, as `os.waitpid` gives it.

        A copy of a process with threads may never end. It is killed after a while, and then the status is 0.
        """
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while True:
            pid, status = os.waitpid(child, os.WNOHANG)
            if pid:
                return status
            if time.monotonic() > deadline:
                os.kill(child, signal.SIGKILL)
                os.waitpid(child, 0)
                return 0
            time.sleep(_POLL_SECONDS)
