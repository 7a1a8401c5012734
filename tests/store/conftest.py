"""Nothing in this folder needs Spark."""

from pathlib import Path

import pytest

from acker.core.tasks import Caller, Tasks
from tests.kit.places import ODD, Place
from tests.kit.polars_topology import NoSpark
from tests.kit.tasks import PickledTasks


@pytest.fixture(scope="session")
def spark() -> NoSpark:
    """In the place of the session: what asks it for anything fails."""
    return NoSpark()


@pytest.fixture(
    params=[
        pytest.param(Caller(), id="caller"),
        pytest.param(PickledTasks(3), id="tasks", marks=pytest.mark.extended),
    ]
)
def place(request: pytest.FixtureRequest, tmp_path: Path, spark: NoSpark, empty_store: Path) -> Place:
    """A place of the test's own, whose logs and folds are done by the caller, and by tasks elsewhere."""
    tasks: Tasks = request.param
    return Place(tmp_path / ODD, spark, empty_store, tasks)  # type: ignore[arg-type]
