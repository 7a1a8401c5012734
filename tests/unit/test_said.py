"""An error in one line: of a Python worker's the last line of its own trace."""

import pytest

from acker.core.error_messages import message_of

WORKER = """
  An exception was thrown from the Python worker. Please see the stack trace below.
Traceback (most recent call last):
  File "/srv/shop.py", line 12, in items
    import nosuch
ModuleNotFoundError: No module named 'nosuch' SQLSTATE: 38000

JVM stacktrace:
org.apache.spark.api.python.PythonException
\tat org.apache.spark.api.python.BasePythonRunner$ReaderIterator.handlePythonException
"""
CHAINED = """Traceback (most recent call last):
  File "/srv/shop.py", line 3, in items
KeyError: 'x'

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "/srv/shop.py", line 5, in items
    raise ValueError("no price\\nof tea")
ValueError: no price
of tea
"""
RPC = """<_InactiveRpcError of RPC that terminated with:
\tstatus = StatusCode.UNAVAILABLE
\tdetails = "failed to connect to all addresses"
>"""


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (WORKER, "ModuleNotFoundError: No module named 'nosuch'"),
        (CHAINED, "ValueError: no price"),
        (RPC, "failed to connect to all addresses"),
        ("\n[DIVIDE_BY_ZERO] Division by zero.\n== SQL ==\nx/0", "[DIVIDE_BY_ZERO] Division by zero."),
        ("Traceback (most recent call last):\n  + Exception Group", "+ Exception Group"),
        ("", "ValueError"),
    ],
    ids=["worker", "chained", "gRPC", "Spark", "odd", "empty"],
)
def test_an_error_says_one_line(text, line):
    assert message_of(ValueError(text)) == line
