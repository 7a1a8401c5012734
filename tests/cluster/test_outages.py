"""An S3 server that is gone for a while, and then has too much to do: the run goes on and loses nothing."""

import threading
import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from embedded.cluster import Cluster
from tests.cluster.moments import has_begun
from tests.cluster.project import Project, ends
from tests.kit.object_store import BUCKET
from tests.kit.proxies import running_proxy
from tests.kit.waiting import wait_for

OUTAGE_SECONDS = 60


def has_come_to(project: Project, moment: str, run: threading.Thread) -> bool:
    return has_begun(project.store, moment) or not run.is_alive()


@pytest.mark.thorough
def test_what_s3_does_not_take_is_done_when_it_does(
    cluster: Cluster, s3: dict[str, str], here: tuple[Any, ...], tmp_path: Path
) -> None:
    with running_proxy(s3["AWS_ENDPOINT_URL"]) as proxy:
        more = {"PIPELINE_SPARK_MASTER": cluster.url, "PIPELINE_ACKER_TASKS": "4", **s3}
        more["AWS_ENDPOINT_URL"] = proxy.address
        project = Project(tmp_path, f"s3://{BUCKET}/{tmp_path.name}", **more)
        tries: list[int] = []
        run = threading.Thread(target=lambda: tries.append(project.run_until_done()))
        run.start()
        try:
            for moment, outage in (("a write", proxy.gone), ("a fold", proxy.refusing)):
                wait_for(partial(has_come_to, project, moment, run), every_seconds=0.02)
                assert run.is_alive()
                proxy.take_counts()
                with outage():
                    time.sleep(OUTAGE_SECONDS)
                    asked = proxy.take_counts()
                print(moment, outage.__name__, dict(asked))
        finally:
            run.join()
        assert asked.total() > 0  # and all of it was refused
        assert ends(project.rows()) == ends(here)
        assert "verdict: pass" in project("audit", "words")
        print("commands that failed:", tries)
