"""A Kafka broker that the tests share, with topics of their own, and the Spark session beside it.

A test that asks for the broker is extended: the broker and a Spark server for it would take a sixth of the
time of all others.
"""

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from acker.testing.session import for_few_rows
from tests.kit.broker import Broker, Records, running_broker


@pytest.hookimpl(tryfirst=True)  # before those that are extended are left out
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if item.path.is_relative_to(here) and "broker" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.extended)


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
