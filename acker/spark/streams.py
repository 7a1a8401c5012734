"""Streams as Spark reads them: the rows of some batches, and which columns are the user's."""

from collections.abc import Sequence

from pyspark.sql import DataFrame, SparkSession

from acker.core.delta import Store, in_batches
from acker.core.schemas import is_tuple, stream
from acker.spark.delta import read


def rows(spark: SparkSession, store: Store, component: str, batches: Sequence[int]) -> DataFrame:
    """Rows of some batches of a component's streams."""
    return read(spark, store.path(stream(component))).where(in_batches(batches))


def tuples(spark: SparkSession, store: Store, name: str, batches: Sequence[int]) -> DataFrame:
    """Tuples of some batches of a stream, with all columns of its table."""
    frame = rows(spark, store, name, batches)
    return frame.where(is_tuple(name, frame.columns))


def user_columns(frame: DataFrame) -> list[str]:
    """A stream's columns without those that the system keeps."""
    return [column for column in frame.columns if not column.startswith("_")]
