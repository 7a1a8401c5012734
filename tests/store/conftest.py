"""Nothing in this folder needs Spark."""

import pytest

from tests.kit.polars_topology import NoSpark


@pytest.fixture(scope="session")
def spark() -> NoSpark:
    """In the place of the session: what asks it for anything fails."""
    return NoSpark()
