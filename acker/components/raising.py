"""Errors of Spark: whether a row may be at fault, and why; and the error that a frame raises."""

from pyspark.errors import PySparkException, PythonException
from pyspark.sql import DataFrame

from acker.components.anchors import FOREIGN_ANCHOR
from acker.core.error_messages import message_of
from acker.core.reasons import LONGEST_TOLD

# Classes of SQLSTATE of which a value is the cause: one that an expression cannot take, a key that is there
# twice, an exception of a function, something too long or too large.
_OF_VALUES = ("22", "23", "39", "54")
_RAISED = "P0001"  # SQLSTATE of raise_error and assert_true
_NO_ROWS_FAULT = ("ImportError", "ModuleNotFoundError", "MemoryError")  # in tracebacks
_CRASHED = "Python worker exited unexpectedly"
ENDED = "Spark's Python worker ended while it processed this message"
TRIES = 3  # what a worker may do by chance it has to do so often
_UNLOADED = " in read_udfs"  # a worker that cannot load the function, whatever the row


def row_error(error: PySparkException) -> str | None:
    """The reason, where an error may be the fault of a row; else None.

    Rows are at fault for a bad value, an exception of a UDF, the end of a Python worker. Everything else (a
    full disk, a lost executor, a missing column or module) is not the rows' doing.
    """
    if ends_worker(error):
        return ENDED
    if isinstance(error, PythonException):
        raised = message_of(error)[:LONGEST_TOLD]
        return None if _UNLOADED in str(error) or raised.startswith(_NO_ROWS_FAULT) else raised
    state = error.getSqlState() or ""
    if FOREIGN_ANCHOR not in str(error) and (state.startswith(_OF_VALUES) or state == _RAISED):
        return str(error).split(" SQLSTATE:")[0].strip()[:LONGEST_TOLD]
    return None


def ends_worker(error: PySparkException) -> bool:
    """Whether a Python worker ended without a word, by a crash or by the system's out-of-memory killer."""
    return _CRASHED in str(error)


def hides_cause(error: PySparkException) -> bool:
    """Whether an error hides the error that the transformation raised.

    Delta's writer hides it. Where a function raised in a Python worker, Spark may see only the worker's end.
    """
    return "TASK_WRITE_FAILED" in str(error) or ends_worker(error)


def error_of(frame: DataFrame, tries: int = TRIES) -> PySparkException | None:
    """The error that is raised where every column of a frame is evaluated; None where the frame passes.

    Args:
        tries: how often a worker has to end until its end is taken for the frame's error.
    """
    raised = None
    for _ in range(tries):
        try:
            frame.write.format("noop").mode("overwrite").save()
        except PySparkException as error:
            raised = error
            if not ends_worker(error):
                return error
        else:
            return None
    return raised
