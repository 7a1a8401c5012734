"""A Kafka broker that the tests share, with topics of their own, and the Spark session beside it."""

import itertools
from collections.abc import Callable, Iterator

import pytest
from pyspark.sql import SparkSession

from acker.testing.session import for_few_rows
from tests.kit.broker import Broker, Records, running_broker


@pytest.fixture(scope="session")
def spark(spark: SparkSession) -> SparkSession:
    return for_few_rows(spark)


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with running_broker(tmp_path_factory.mktemp("broker")) as found:
        yield found


@pytest.fixture(scope="session")
def names() -> Iterator[str]:
    return (f"topic_{number}" for number in itertools.count(1))


@pytest.fixture
def topic(broker: Broker, names: Iterator[str]) -> Callable[..., Records]:
    """Makes a topic of the test's own; by default it has one partition."""
    return lambda partitions=1, **settings: broker.create(next(names), partitions, **settings)
