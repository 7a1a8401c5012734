"""The same words, counted on this machine's disk and by a cluster whose tables are on S3."""

from pathlib import Path
from typing import Any

import pytest

from acker.core.store.ids import Task
from acker.core.store.schemas import EVENTS
from acker.core.store.tables import files_of
from embedded.cluster import Cluster
from tests.cluster.project import BATCH, DOWN, GONE, Project, counted, ids
from tests.kit.object_store import BUCKET


@pytest.mark.extended
def test_words_are_counted_here(here: tuple[Any, ...]) -> None:
    counts, ledger = here
    assert counts == counted()
    states = [state for _, _, state, _, _ in ledger]
    assert states.count("dead_letter") == len(ids()) // GONE
    assert states.count("failed") == len(ids()) // GONE + BATCH // DOWN  # in the first cycle's batch


@pytest.mark.parametrize(
    "tasks",
    [pytest.param(1, marks=pytest.mark.thorough), pytest.param(4, marks=pytest.mark.extended)],
)
def test_a_cluster_with_its_tables_on_s3_leaves_what_one_machine_leaves(
    tasks: int, here: tuple[Any, ...], cluster: Cluster, s3: dict[str, str], tmp_path: Path
) -> None:
    more = {"PIPELINE_SPARK_MASTER": cluster.url, "PIPELINE_ACKER_TASKS": str(tasks), **s3}
    project = Project(tmp_path / "a project", f"s3://{BUCKET}/{tasks}", **more)
    assert project.run_until_done() == 0
    assert project.rows() == here
    assert "verdict: pass" in project("audit", "words")
    by_task = {
        file for file in files_of(project.store.require(EVENTS)) if f"/{Task(0, tasks).prefix}" in file
    }
    assert bool(by_task) or tasks == 1
