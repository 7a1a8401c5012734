"""Reasons as columns of Spark; see `acker.core.reasons`."""

import sys

from pyspark import cloudpickle
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from acker.core import reasons
from acker.core.reasons import LONGEST_REASON, UNSHOWN, Redaction

cloudpickle.register_pickle_by_value(reasons)  # type: ignore[no-untyped-call]
cloudpickle.register_pickle_by_value(sys.modules[__name__])  # type: ignore[no-untyped-call]


def shown(text: Column, characters: int) -> Column:
    """The first `characters` characters of a text, and the part after them between the marks of `UNSHOWN`.

    The part between the marks has at most `LONGEST_REASON` characters. `kept` looks for secrets in it, and
    removes it. A text that is shown as a whole gets no marks.
    """
    rest = F.substring(text, characters + 1, LONGEST_REASON)
    unshown = F.concat(F.lit("\ufdd0"), rest, F.lit("\ufdd1"))
    return F.concat(F.substring(text, 1, characters), F.when(rest == "", "").otherwise(unshown))


def kept(rows: DataFrame, redaction: Redaction) -> DataFrame:
    """Rows of a component with their reasons, `_error`, as these may be kept: without secrets, and cut.

    A pattern is Python's, so the Python workers of Spark look for it. Without a pattern no worker is needed.
    """
    error = F.col("_error")
    if redaction.patterns:
        return rows.withColumn("_error", F.udf(_Kept(redaction), "string", useArrow=False)(error))
    return rows.withColumn("_error", F.substring(F.regexp_replace(error, UNSHOWN, ""), 1, LONGEST_REASON))


class _Kept:
    """The redaction of each reason in a worker; most rows have no reason."""

    def __init__(self, redaction: Redaction) -> None:
        self.redaction = redaction

    def __call__(self, reason: str | None) -> str | None:
        return None if reason is None else self.redaction(reason)
