"""Text that a bolt's Python code prints in Spark's workers: lines of the server's log with the bolt's name.

A worker would keep the text until it ends. The module is pickled by value, so a worker needs PySpark and not
this project.
"""

import io
import os
import sys
from contextlib import redirect_stdout

from pyspark import cloudpickle

PRINTED = "printed by"  # begins such a line; then topology/bolt, a colon and a blank
_STANDARD_ERROR = 2  # which Spark hands on to the log
_LONGEST = 2_000  # bytes of a line that go out at once, whoever else writes

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # type: ignore[no-untyped-call]


class Printed(io.TextIOBase):
    """Stands for the standard output of a worker.

    Args:
        who: topology/bolt.
        to: a file descriptor.
    """

    def __init__(self, who: str, to: int = _STANDARD_ERROR) -> None:
        self._head = f"{PRINTED} {who}: ".encode()
        self._to = to
        self._begun = ""

    def writable(self) -> bool:
        """See `io.IOBase`."""
        return True

    def write(self, text: str) -> int:
        """Write the lines that are whole."""
        *lines, self._begun = (self._begun + text).split("\n")
        for line in lines:
            os.write(self._to, self._head + line.encode(errors="backslashreplace")[:_LONGEST] + b"\n")
        return len(text)

    def finish(self) -> None:
        """Write the line that was begun."""
        if self._begun:
            self.write("\n")


def printing(who: str) -> redirect_stdout[Printed]:
    """A context in which printed text goes to the log."""
    return redirect_stdout(Printed(who))
