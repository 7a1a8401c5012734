"""What a spout by itself is given and gives: its history, positions, and its messages as tuples."""

from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame

from acker.spouts import History


def after(*planned: Any) -> History:
    """The history of a spout that planned these ranges."""
    return History(planned[-1] if planned else None, lambda: list(planned))


def messages(frame: DataFrame, *columns: str) -> list[tuple[Any, ...]]:
    """(partition, offset) and some columns of each message, sorted."""
    rows = frame.select("_source_partition", "_source_offset", *columns).toArrow().to_pylist()
    return sorted((tuple(row.values()) for row in rows), key=lambda row: row[:2])


def positions(*wanted: tuple[str, int]) -> pa.Table:
    """Positions of messages, as a replay asks for them."""
    partitions, offsets = zip(*wanted, strict=True)
    return pa.table({"source_partition": pa.array(partitions), "source_offset": pa.array(offsets)})
