"""A cluster of two workers and an S3 server, which the tests of a run share."""

from collections.abc import Iterator
from typing import Any

import pytest

from embedded.cluster import Cluster, running_cluster
from tests.cluster.project import Project
from tests.kit.object_store import running_object_store


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with running_cluster(tmp_path_factory.mktemp("cluster")) as found:
        yield found


@pytest.fixture(scope="session")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """The variables by which clients find the server, which are set."""
    with (
        running_object_store(tmp_path_factory.mktemp("s3")) as variables,
        pytest.MonkeyPatch.context() as patch,
    ):
        for name, value in variables.items():
            patch.setenv(name, value)
        yield variables


@pytest.fixture(scope="session")
def here(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, ...]:
    """What comes of it on this machine's disk."""
    folder = tmp_path_factory.mktemp("here")
    project = Project(folder, str(folder / "lake"))
    assert project.run_until_done() == 0
    return project.rows()
