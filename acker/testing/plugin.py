"""The plugin that pytest loads where acker is installed: a session for tests, and the end of its server."""

import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def acker_session() -> "SparkSession":
    """The Spark session of `run_bolt` and `run_topology`, for tests that call a bolt as a function."""
    from acker.testing.session import session  # Spark takes a second to import

    return session()


def pytest_unconfigure() -> None:
    """End the server, if a test has started it; also after Ctrl-C."""
    opened = sys.modules.get("acker.testing.session")
    if opened is not None:
        opened.close()
