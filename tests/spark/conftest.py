"""The session that tests of whole topologies share."""

import pytest
from pyspark.sql import SparkSession

from acker.testing.session import for_few_rows


@pytest.fixture(scope="session")
def spark(spark: SparkSession) -> SparkSession:
    """The session on the shared server, set up for jobs on a few rows."""
    return for_few_rows(spark)
