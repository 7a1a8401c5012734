"""What dies on a cluster in the middle of its work: the next attempt leaves what a calm run leaves."""

import os
import signal
import threading
from pathlib import Path
from typing import Any

import pytest

from acker.runtime.server import process as server
from acker.runtime.settings import Settings
from embedded.cluster import Cluster
from tests.cluster.moments import MOMENTS, has_begun
from tests.cluster.project import Project, ends
from tests.kit.object_store import BUCKET
from tests.kit.waiting import wait_for


@pytest.fixture
def project(cluster: Cluster, s3: dict[str, str], tmp_path: Path) -> Project:
    more = {"PIPELINE_SPARK_MASTER": cluster.url, "PIPELINE_ACKER_TASKS": "4", **s3}
    return Project(tmp_path, f"s3://{BUCKET}/{tmp_path.name}", **more)


@pytest.mark.thorough
@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("victim", ["worker", "server"])
def test_what_dies_in_the_middle_leaves_nothing_that_counts(
    victim: str, moment: str, project: Project, here: tuple[Any, ...], cluster: Cluster
) -> None:
    tries: list[int] = []
    run = threading.Thread(target=lambda: tries.append(project.run_until_done()))
    run.start()
    try:
        wait_for(lambda: has_begun(project.store, moment) or not run.is_alive(), every_seconds=0.02)
        assert run.is_alive()
        if victim == "worker":
            cluster.kill("worker-1")
            cluster.start()
        else:
            running = server.find(Settings.from_env(project.environ))
            assert running
            os.killpg(running.pid, signal.SIGKILL)
    finally:
        run.join()
    assert ends(project.rows()) == ends(here)
    assert "verdict: pass" in project("audit", "words")
    assert tries[0] >= (victim == "server")
