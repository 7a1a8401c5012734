"""A run's bar on a terminal, and what others print meanwhile."""

import os
import pty
import subprocess
import sys

import pytest

from tests.kit import ROOT

PROGRAM = """
import logging, os, sys
logging.basicConfig(format="%(message)s")  # holds on to sys.stderr as it is now
from acker.batches.run import Step
from acker.cli.progress import ProgressReport
from acker.topology.topology import Topology

with ProgressReport(Topology("shop")) as report:
    report(Step("planned", "orders", 1))
    logging.warning("by logging")
    os.write(2, b"by a library of C\\n")
    print("by print", file=sys.stderr)
    report(Step("folded", "acker", 1, {"acked": 3}))
print("after", file=sys.stderr)
"""


def on_a_terminal(program):
    """The lines that a program writes to a terminal which is its standard error."""
    ours, its = pty.openpty()
    child = subprocess.Popen([sys.executable, "-c", program], cwd=ROOT, stderr=its)
    os.close(its)
    written = b""
    while True:
        try:
            read = os.read(ours, 1 << 16)
        except OSError:  # the other end is closed
            break
        written += read
    os.close(ours)
    assert child.wait() == 0
    return [line.rsplit("\x1b[2K")[-1].rstrip("\r") for line in written.decode().split("\n")]


@pytest.mark.extended
def test_what_is_printed_beside_a_bar_has_lines_of_its_own():
    lines = on_a_terminal(PROGRAM)
    told = ["by logging", "by a library of C", "by print", "fold 1: 3 acked", "after"]
    assert sorted(line for line in lines if line in told) == sorted(told)
    assert lines[-2] == "after"
