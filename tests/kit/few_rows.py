"""Spark set up for jobs on a few rows of many tables: most of a job is planning and compiling code."""

from pyspark.sql import SparkSession

CONFS = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.adaptive.enabled": "false",
    "spark.databricks.delta.snapshotPartitions": "1",
    # The server keeps the state of 10,000 tables, 2 MB each, and hundreds of tests make tables of their own.
    "spark.databricks.delta.delta.log.cacheSize": "100",
}


def for_few_rows(session: SparkSession) -> SparkSession:
    """The session, set up for them."""
    for name, value in CONFS.items():
        session.conf.set(name, value)
    return session
