"""Parts of a batch's tuples: the tuples of some of its messages, or all tuples but these."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from acker.components.raising import error_of
from acker.spark.trees import any_of

Frames = Mapping[str, DataFrame]  # a bolt's inputs: stream -> its tuples
Range = tuple[int, int]  # of sorted roots: from the first index to before the second


def without(frame: DataFrame, roots: Sequence[int]) -> DataFrame:
    """The tuples of a frame whose `_root_id` is not among some roots, and those without a root."""
    return frame.join(_frame(frame.sparkSession, roots), "_root_id", "left_anti")


def _frame(spark: SparkSession, roots: Sequence[int]) -> DataFrame:
    return spark.createDataFrame(pa.table({"_root_id": pa.array(roots, pa.int64())}), "_root_id bigint")


class Parts(Protocol):
    """The tuples of some ranges of the roots that are searched."""

    def of(self, ranges: Sequence[Range]) -> Frames:
        """The frames with the tuples of some ranges."""


@dataclass(frozen=True)
class Filtered:
    """Parts of the batch's own frames."""

    inputs: Frames
    roots: Sequence[int]

    def of(self, ranges: Sequence[Range]) -> Frames:
        """See `Parts`."""
        root = F.col("_root_id")
        mine = any_of(root.between(self.roots[low], self.roots[high - 1]) for low, high in ranges)
        return {stream: frame.where(mine) for stream, frame in self.inputs.items()}


@dataclass(frozen=True)
class Local:
    """Parts of tables in this process, which take Spark less time than a scan of the batch's files."""

    spark: SparkSession
    tables: Mapping[str, tuple[pa.Table, StructType]]  # sorted by root
    roots: Sequence[int]

    def of(self, ranges: Sequence[Range]) -> Frames:
        """See `Parts`."""
        return {stream: self._frame(*each, ranges) for stream, each in self.tables.items()}

    def _frame(self, table: pa.Table, schema: StructType, ranges: Sequence[Range]) -> DataFrame:
        ids = table["_root_id"].to_numpy()
        rows = []
        for low, high in ranges:
            first, last = ids.searchsorted(self.roots[low]), ids.searchsorted(self.roots[high - 1], "right")
            rows.append(np.arange(first, last))
        # Not slices, which share the table's buffers: PySpark cannot take lists of such with nulls.
        return self.spark.createDataFrame(table.take(np.concatenate(rows)), schema)


def local(inputs: Frames, roots: Sequence[int], some: Sequence[int]) -> Local | None:
    """Parts of tables in this process, with the tuples of some of the roots that are searched.

    Args:
        inputs: the batch's own frames.
        roots: all roots that are searched, sorted. Ranges are of their indices.
        some: the roots whose tuples the tables hold.

    Returns:
        The parts; None where the tuples cannot be read, or Spark does not take back its own values: a map,
        say, that has a key twice.
    """
    spark = next(iter(inputs.values())).sparkSession
    mine = _frame(spark, some)
    tables = {}
    try:
        for stream, frame in inputs.items():
            part = frame.join(mine, "_root_id", "left_semi")
            found = part.toArrow().sort_by("_root_id")
            if error_of(spark.createDataFrame(found, part.schema)):
                return None
            tables[stream] = (found, part.schema)
    except (PySparkException, pa.ArrowException):
        return None
    return Local(spark, tables, roots)
