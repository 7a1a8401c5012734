"""Rows of spouts and rich bolts for which the rules of a published table raise, as a CHECK with a cast may.

What a spout has read, and a rich bolt emitted, is there as it is. So the rules alone are searched, and the
component is not asked again.
"""

from collections.abc import Callable

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from acker.components.bad_rows import bad_roots, error_of, hides_cause, row_error
from acker.components.base import BadRows
from acker.core.events import Kind


def failed(rows: DataFrame, bad: BadRows) -> DataFrame:
    """Rows of a component, the tuples of some roots as failures of their messages."""
    if not bad:
        return rows
    found = pa.table({"_bad_root": pa.array(bad, pa.int64()), "_why": pa.array(bad.values(), pa.string())})
    known = F.broadcast(rows.sparkSession.createDataFrame(found))
    is_bad = F.col("_kind").isNull() & F.col("_why").isNotNull()
    reported = {
        "_error": F.when(is_bad, F.col("_why")).otherwise(F.col("_error")),
        "_kind": F.when(is_bad, Kind.FAIL.value).otherwise(F.col("_kind")),
    }
    joined = rows.join(known, rows["_root_id"] == known["_bad_root"], "left")
    return joined.withColumns(reported).drop("_bad_root", "_why")


def find_misjudged(
    name: str,
    rows: DataFrame,
    check: Callable[[DataFrame], DataFrame],
    bad: BadRows,
    error: PySparkException,
) -> BadRows:
    """The roots of whose rows the rules of a table cannot be asked, beside those that are known.

    Args:
        name: the component's.
        rows: what it made.
        check: asks the rules.
        error: what the batch raised.

    Raises:
        BoltError: they are most messages of the batch.
        PySparkException: it is not the rules that raise, or no row is at fault.
    """
    made = failed(rows, bad)
    cause = error_of(check(made)) if hides_cause(error) else error
    if cause is None or row_error(cause) is None or error_of(made) is not None:
        raise cause or error from None
    found = bad_roots(name, {name: made}, lambda frames: check(frames[name]), cause)
    return {**bad, **found}
