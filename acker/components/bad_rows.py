"""Finding the messages for which a transformation raises, when Spark only says that a row somewhere did.

The batch's roots are bisected until single messages remain, and each half runs once. m bad messages among n
cost at most 2 · m · log2(n) runs of the transformation, over ever smaller parts. Where only tuples that met
raise, as in a join, each half passes without the other. Then each is halved beside the other, with one more
run for each time.
"""

from collections.abc import Callable, Mapping
from functools import reduce
from operator import or_

from pyspark.errors import PySparkException, PythonException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from acker.components.anchors import FOREIGN_ANCHOR
from acker.components.collector import LONGEST_REASON
from acker.core.errors import BoltError

MOST_BAD = 32  # past this the bolt is at fault and not the rows
_DATA_EXCEPTION = "22"  # SQLSTATE class: a value that an expression cannot take
_RAISED = "P0001"  # SQLSTATE of raise_error and assert_true
_NO_ROWS_FAULT = (
    "ImportError",
    "ModuleNotFoundError",
    "MemoryError",
)  # in tracebacks
_UNLOADED = " in read_udfs"  # a worker that cannot load the function, whatever the row

Frames = Mapping[str, DataFrame]  # a bolt's inputs: stream -> its tuples
Range = tuple[int, int]  # of sorted roots: from the first index to before the second


def row_error(error: PySparkException) -> str | None:
    """The reason, where an error is the fault of a row (a value, or a UDF's exception); else None.

    Everything else (a full disk, a lost executor, a missing column or module) is not the rows' doing.
    """
    if isinstance(error, PythonException):
        raised = _last_line_of_traceback(str(error))
        return None if _UNLOADED in str(error) or raised.startswith(_NO_ROWS_FAULT) else raised
    state = error.getSqlState() or ""
    if FOREIGN_ANCHOR not in str(error) and (state.startswith(_DATA_EXCEPTION) or state == _RAISED):
        return str(error).split(" SQLSTATE:")[0].strip()[:LONGEST_REASON]
    return None


def _last_line_of_traceback(message: str) -> str:
    body = message.split("JVM stacktrace:")[0].split(" SQLSTATE:")[0]
    lines = [line.strip() for line in body.splitlines() if line.strip()]
    return (lines[-1] if lines else message)[:LONGEST_REASON]


def error_of(frame: DataFrame) -> PySparkException | None:
    """What evaluating every column of a frame raises; None where it passes."""
    try:
        frame.write.format("noop").mode("overwrite").save()
    except PySparkException as error:
        return error
    return None


def bad_roots(
    bolt: str, inputs: Frames, rows_of: Callable[[Frames], DataFrame], error: PySparkException
) -> dict[int, str]:
    """The roots of a batch that make it raise, and why each does.

    Args:
        bolt: the bolt's name, for messages.
        inputs: its tuples, with `_root_id`.
        rows_of: the transformation.
        error: what it raised over all of them.

    Raises:
        BoltError: more than `MOST_BAD` messages fail.
        PySparkException: an error that no single message causes.
    """
    ids = reduce(DataFrame.union, [frame.select("_root_id") for frame in inputs.values()])
    tracked = ids.dropna().distinct().orderBy("_root_id")
    roots = tracked.toArrow()["_root_id"].to_pylist()

    def error_in(*ranges: Range) -> PySparkException | None:
        root = F.col("_root_id")
        part = reduce(or_, (root.between(roots[low], roots[high - 1]) for low, high in ranges))
        return error_of(rows_of({stream: frame.where(part) for stream, frame in inputs.items()}))

    bad: dict[int, str] = {}
    # Every range on the stack is known to fail beside others, which pass without it.
    failing: list[tuple[Range, tuple[Range, ...], PySparkException]] = []
    if roots:
        failing.append(((0, len(roots)), (), error))
    while failing:
        (low, high), beside, error = failing.pop()
        reason = row_error(error)
        if reason is None:
            raise error
        if high - low == 1:
            bad[roots[low]] = reason
            check_number(bolt, bad)
            continue
        middle = (low + high) // 2
        left, right = (low, middle), (middle, high)
        found = [(half, beside, raised) for half in (left, right) if (raised := error_in(half, *beside))]
        if not found:
            met = error_in(left, right, *beside)
            if met is None:
                raise error
            found = [(left, (right, *beside), met), (right, (left, *beside), met)]
        failing.extend(found)
    if not bad:
        raise error
    return bad


def check_number(bolt: str, bad: Mapping[int, str]) -> None:
    """Raise a BoltError where more messages than `MOST_BAD` are bad."""
    if len(bad) > MOST_BAD:
        reason = next(reversed(list(bad.values())))
        raise BoltError(
            f"Bolt {bolt} fails on more than {MOST_BAD} messages of one batch, so it is taken to be at "
            f"fault itself: {reason}. Mend it, or fail rows with fail_when, and run it again.",
            component=bolt,
        )
