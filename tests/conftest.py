"""Fixtures that every tier may use. All tests share one Spark server, which ends with the test run."""

import os
from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from acker.runtime import server
from acker.runtime.sessions import owned_session
from acker.runtime.settings import Settings

# For a Spark server of minutes: Java's second compiler would take more time than what it compiles saves.
SHORT_LIVED = {"JDK_JAVA_OPTIONS": "-XX:TieredStopAtLevel=1"}


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--all-faults", action="store_true", help="also the cases marked thorough")
    parser.addoption("--home", help="folder of a Spark server that runs already, to be used and left alone")
    parser.addoption(
        "--record-points", action="store_true", help="write down the crash points that are found"
    )


@pytest.fixture(scope="session")
def settings(pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory) -> Settings:
    """Settings of the shared server. The developer's own environment takes no part in them."""
    home = pytestconfig.getoption("--home") or tmp_path_factory.mktemp("home")
    return Settings.from_env({"PIPELINE_HOME": str(home), "PIPELINE_DRIVER_MEMORY": "4g"})


@pytest.fixture(scope="session")
def spark(settings: Settings) -> Iterator[SparkSession]:
    """A session on the shared server."""
    with owned_session(settings) as session:
        yield session


@pytest.fixture(scope="session")
def remote(spark: SparkSession, settings: Settings) -> str:
    """Where the shared server listens."""
    running = server.find(settings)
    assert running is not None
    return running.url


@pytest.fixture
def environment(remote: str, tmp_path) -> dict[str, str]:
    """Environment of a child process that uses the shared server and a home and store of its own."""
    ours = {"SPARK_REMOTE": remote, "PIPELINE_HOME": str(tmp_path / "home")}
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PIPELINE_")}
    return kept | ours


@pytest.fixture
def store_uri(tmp_path) -> str:
    """Where a test's Delta tables go."""
    return str(tmp_path / "store")
