"""Tags of Spark's jobs, by which Spark's page and log tell what a job is for."""

from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import SparkSession


@contextmanager
def tagged(spark: SparkSession, **work: str | int) -> Iterator[None]:
    """Tag the jobs of the block.

    Args:
        work: name -> value, of which each is a tag `name=value`.
    """
    # Those of a block around this one stay.
    tags = {f"{name}={value}" for name, value in work.items()} - spark.getTags()
    for tag in tags:
        spark.addTag(tag)
    try:
        yield
    finally:
        for tag in tags:
            spark.removeTag(tag)
