"""docker-compose.yml with its cluster, on S3: the scheduler of Airflow is killed, and Postgres restarts.

What has ended is started again, as an engine does; nobody does more, and the words are counted.
"""

import os
import signal
from functools import partial
from pathlib import Path

import pytest

from acker.core.store.tables import open_table, query
from acker.runtime.server.ports import free_port
from tests.cluster.moments import has_begun
from tests.cluster.project import Project, counted
from tests.kit.compose import CLUSTER, SECRETS, Compose, running_database, wait_until
from tests.kit.object_store import BUCKET

SMALL = {"PIPELINE_DRIVER_MEMORY": "1g", "SPARK_EXECUTOR_MEMORY": "600m", "SPARK_WORKER_MEMORY": "700m"}


def counts(lake: str) -> dict[str, int]:
    table = open_table(f"{lake}/counts")
    return {row["word"]: row["count"] for row in query("SELECT word, count FROM t", t=table)} if table else {}


@pytest.mark.thorough
def test_a_scheduler_that_is_killed_and_a_postgres_that_restarts_cost_nothing(
    s3: dict[str, str], tmp_path: Path
) -> None:
    lake = f"s3://{BUCKET}/{tmp_path.name}"
    project = Project(tmp_path, lake, **s3)
    values = {**SECRETS, **CLUSTER, **SMALL, **s3, "PIPELINE_STORE": f"{lake}/store"}
    values |= {"TOPOLOGIES": "words.flow:topology"}
    more = {"LAKE": lake, "PIPELINE_ACKER_TASKS": "4"}
    more["AIRFLOW__SCHEDULER__ORPHANED_TASKS_CHECK_INTERVAL"] = "30"  # of tasks whose scheduler is gone
    with running_database() as database:
        compose = Compose(tmp_path, values, database.url, "cluster", more=more)
        begun = partial(has_begun, project.store)
        try:
            compose.up(stand_ins={"postgres", "kafka", "s3"})
            compose.places |= {"8081": str(free_port()), "/tmp/work": f"{tmp_path}/work-2"}
            compose.start("spark-worker", replica="-2")
            compose.run_dags("words")
            wait_until(lambda: begun("a write"), every_seconds=0.1)
            os.killpg(compose.running["scheduler"].pid, signal.SIGKILL)
            compose.running["scheduler"].wait()
            assert compose.start_what_has_ended() == ["scheduler"]
            wait_until(lambda: begun("a log"), every_seconds=0.1)
            database.restart()
            ended = []
            while counts(lake) != counted():
                ended += compose.start_what_has_ended()
                wait_until(lambda: True)
            print("ended by the restart of Postgres:", ended)
        finally:
            compose.down()
    assert "verdict: pass" in project("audit", "words")
