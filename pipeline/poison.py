"""Finding the messages for which a transformation raises, when Spark only says that a row somewhere did.

The batch's roots are halved until single messages remain, and each half runs once: m poison messages
among n cost at most 2 · m · log2(n) runs of the transformation, over ever smaller parts.
"""

from collections.abc import Callable, Sequence

from pyspark.errors import PySparkException, PythonException
from pyspark.sql import DataFrame

from acker.errors import BoltError
from pipeline.tuples import LONGEST_REASON

MOST_POISON = 32  # past this the bolt is at fault and not the rows
_DATA_EXCEPTION = "22"  # SQLSTATE class: a value that an expression cannot take
_UNLOADED = " in read_udfs"  # a worker that cannot load the function, whatever the row


def row_error(error: PySparkException) -> str | None:
    """The reason, where an error is the fault of a row (a value, or a UDF's exception); else None.

    Everything else (a full disk, a lost executor, a missing column) is not the rows' doing.
    """
    if isinstance(error, PythonException):
        if _UNLOADED in str(error):
            return None
        return _last_line_of_traceback(str(error))
    state = error.getSqlState() or ""
    if state.startswith(_DATA_EXCEPTION):
        return str(error).split(" SQLSTATE:")[0].strip()[:LONGEST_REASON]
    return None


def _last_line_of_traceback(message: str) -> str:
    body = message.split("JVM stacktrace:")[0].split(" SQLSTATE:")[0]
    lines = [line.strip() for line in body.splitlines() if line.strip()]
    return (lines[-1] if lines else message)[:LONGEST_REASON]


def find_poison(
    frame_of: Callable[[int, int], DataFrame], roots: Sequence[int], error: PySparkException, bolt: str
) -> dict[int, str]:
    """The poison roots of a batch and why each fails.

    Args:
        frame_of: the transformation over the inputs whose root lies between two ids, both included.
        roots: the batch's distinct root ids, ascending.
        error: what the transformation raised over all of them.
        bolt: the bolt's name, for messages.

    Raises:
        BoltError: more than `MOST_POISON` messages fail.
        PySparkException: an error that no single message causes.
    """
    poison: dict[int, str] = {}
    # Every range on the stack is known to fail, with the error beside it.
    failing: list[tuple[int, int, PySparkException]] = [(0, len(roots), error)]
    while failing:
        low, high, error = failing.pop()
        reason = row_error(error)
        if reason is None:
            raise error
        if high - low == 1:
            poison[roots[low]] = reason
            if len(poison) > MOST_POISON:
                raise BoltError(
                    f"Bolt {bolt} fails on more than {MOST_POISON} messages of one batch, so it is taken to be "
                    f"at fault itself: {reason}. Mend it, or fail rows with fail_when, and run it again."
                )
            continue
        middle = (low + high) // 2
        halves = [(low, middle), (middle, high)]
        errors = [error_of(frame_of(roots[a], roots[b - 1])) for a, b in halves]
        if not any(errors):
            raise error
        failing.extend((a, b, found) for (a, b), found in zip(halves, errors, strict=True) if found)
    return poison


def error_of(frame: DataFrame) -> PySparkException | None:
    """What evaluating every column of a frame raises; None where it passes."""
    try:
        frame.write.format("noop").mode("overwrite").save()
    except PySparkException as error:
        return error
    return None
