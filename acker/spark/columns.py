"""Constants that change from run to run, without a change of the code that Spark generates.

Spark writes numbers and times into that code as they are. So a query with a new batch number or time is
compiled anew and starts unoptimized, which costs more than the batch's work. Arrays are handed to the
code by reference.
"""

from typing import Any

from pyspark.sql import Column
from pyspark.sql import functions as F

from acker.core.store.ids import BUCKETS, hash64


def root_id(topology: str, spout: str, batch: int, attempt: Column) -> Column:
    """The id of one attempt, from columns `_source_partition` and `_source_offset`.

    `root_ids` of `acker/core/store/ids.py` makes the same ids without Spark.
    """
    message = [F.lit(hash64(f"{topology}/{spout}")), F.col("_source_partition"), F.col("_source_offset")]
    of_message = F.xxhash64(*message)
    of_emission = F.xxhash64(*message, attempt, bound_literal(batch, "_source_offset", "bigint"))
    low = BUCKETS - 1
    return of_emission.bitwiseAND(F.lit(~low)).bitwiseOR(of_message.bitwiseAND(F.lit(low)))


def bound_literal(value: Any, beside: str, kind: str | None = None) -> Column:
    """The constant `value` on every row.

    Args:
        beside: any column of the rows. Whether it is null chooses the element of the array, and both elements
            are the same; with a fixed choice Spark would put the element in place of the array.
        kind: the type to cast to.
    """
    literal = F.lit(value) if kind is None else F.lit(value).cast(kind)
    return F.get(F.array(literal, literal), F.col(beside).isNull().cast("int"))
