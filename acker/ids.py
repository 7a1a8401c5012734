"""Ids of roots and of tuples: 64 well-mixed bits each.

A tuple's id is never stored. Delta's row tracking gives every row a stable `_metadata.row_id`, and the
id of a tuple on an edge is a hash of the two; a row read by two bolts is two edges, as in Storm. Row
ids repeat from table to table, so the emitter is part of the edge.
"""

import hashlib
from collections.abc import Sequence
from functools import reduce

from pyspark.sql import Column
from pyspark.sql import functions as F

from acker.steady import steady

ROW_ID = "_metadata.row_id"


def hash64(text: str) -> int:
    """A signed 64-bit hash of `text`, the same on every machine and in every process."""
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big", signed=True)


def edge_id(emitter: str, consumer: str) -> int:
    """The id of the edge from one component to another, signed 64 bits."""
    return hash64(f"{emitter}>{consumer}")


def root_id(topology: str, spout: str, batch: int, attempt: Column) -> Column:
    """The id of one attempt, from columns `_source_partition` and `_source_offset`.

    The batch is part of it, so that two emissions of one attempt are two roots and cannot cancel.
    """
    return F.xxhash64(
        F.lit(hash64(f"{topology}/{spout}")),
        F.col("_source_partition"),
        F.col("_source_offset"),
        attempt,
        steady(batch, "_source_offset", "bigint"),
    )


def tuple_ids(emitter: str, consumers: Sequence[str]) -> Column:
    """XOR of the ids that a row of the emitter's stream has, one per consumer; 0 where nobody reads it.

    For a DataFrame read straight from the stream, where `_metadata.row_id` is still there.
    """
    ids = [F.xxhash64(F.col(ROW_ID), F.lit(edge_id(emitter, consumer))) for consumer in consumers]
    return reduce(lambda left, right: left.bitwiseXOR(right), ids, F.lit(0).cast("bigint"))
