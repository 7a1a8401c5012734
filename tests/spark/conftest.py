"""Fixtures of tests of whole topologies, which share one session."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from acker.batches.run import Run
from tests.kit.few_rows import for_few_rows
from tests.kit.places import Place, make_empty_store, states


@pytest.fixture(name="states")
def states_of_a_run() -> Callable[[Run], list[tuple[int, int, str]]]:
    return states


@pytest.fixture(scope="session")
def spark(spark: SparkSession) -> SparkSession:
    """The session on the shared server, set up for jobs on a few rows."""
    return for_few_rows(spark)


@pytest.fixture(scope="session")
def empty_store(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tables of a store without rows."""
    return make_empty_store(tmp_path_factory.mktemp("empty"))


@pytest.fixture
def place(tmp_path: Path, spark: SparkSession, empty_store: Path) -> Place:
    """A place of the test's own."""
    return Place(tmp_path, spark, empty_store)


@pytest.fixture(scope="module")
def shared_place(
    tmp_path_factory: pytest.TempPathFactory, spark: SparkSession, empty_store: Path
) -> Iterator[Place]:
    """A place that the tests of a module share."""
    yield Place(tmp_path_factory.mktemp("place"), spark, empty_store)
