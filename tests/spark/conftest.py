"""The session that tests of whole topologies share."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from acker.core.tasks import ROWS_AT_ONCE
from acker.runtime.server.sessions import owned_session
from acker.runtime.settings import Settings
from acker.spark.tasks import acker_tasks
from acker.testing.session import SHORT_LIVED, for_few_rows
from tests.kit.object_store import BUCKET, running_object_store
from tests.kit.places import ODD, Place


@pytest.fixture(scope="session")
def spark(spark: SparkSession) -> SparkSession:
    """The session on the shared server, set up for jobs on a few rows."""
    return for_few_rows(spark)


@pytest.fixture
def place(request: pytest.FixtureRequest, tmp_path: Path, spark: SparkSession, empty_store: Path) -> Place:
    """A place of the test's own, whose logs and folds are done by the caller, or by so many tasks."""
    number = getattr(request, "param", 1)
    return Place(tmp_path / ODD, spark, empty_store, acker_tasks(number, ROWS_AT_ONCE, lambda: spark))


@pytest.fixture(scope="module")
def spark_on_s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A session on a server of its own, whose tables are on S3."""
    home, lake = tmp_path_factory.mktemp("home"), {"PIPELINE_STORE": f"s3://{BUCKET}/store"}
    settings = Settings.from_env({"PIPELINE_HOME": str(home), "PIPELINE_DRIVER_MEMORY": "1g", **lake})
    with running_object_store(home / "s3") as variables, pytest.MonkeyPatch.context() as patch:
        for name, value in {**variables, **SHORT_LIVED}.items():
            patch.setenv(name, value)
        with owned_session(settings) as session:
            yield for_few_rows(session)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Of a module that says `BY_TASKS` all is done by three of the acker's tasks as well."""
    if getattr(metafunc.module, "BY_TASKS", False) and "place" in metafunc.fixturenames:
        ways = [pytest.param(1, id="caller"), pytest.param(3, id="tasks", marks=pytest.mark.thorough)]
        metafunc.parametrize("place", ways, indirect=True)
