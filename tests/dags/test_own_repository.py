"""A user's own repository, with packages called `pipeline` and `dags`, and the library's two lines."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

SHOP = """
from acker import DeltaSpout, Topology
from pipeline.names import NAME

topology = Topology(NAME)
orders = topology.spout("orders", DeltaSpout("/srv/orders", key="id"))
"""
REPOSITORY = {
    "pipeline/__init__.py": "",
    "pipeline/names.py": "NAME = 'shop'",
    "pipeline/shop.py": SHOP,
    "dags/__init__.py": "",
    "dags/names.py": "NAME = 'report'",
    "dags/report.py": "from airflow.sdk import DAG\nfrom dags.names import NAME\nreport = DAG(NAME)",
    "dags/acker_dags.py": "from acker.airflow import dags\n\nglobals().update(dags())\n",
}

# As the DAG processor and every task read a DAG folder.
READ = """
import json, sys
from pathlib import Path
from airflow.dag_processing.dagbag import BundleDagBag

bag = BundleDagBag(sys.argv[1], bundle_path=Path(sys.argv[1]), bundle_name="dags-folder")
errors = {Path(name).name: text for name, text in bag.import_errors.items()}
print("RESULT" + json.dumps({"errors": errors, "dags": sorted(bag.dags)}))
"""

OF_SHOP = [f"shop.{kind}" for kind in ("acker", "maintain", "monitor", "replay", "reprocess", "retry", "run")]


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "repository"
    for name, text in REPOSITORY.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def read_dags(dags: Path, **environ: str) -> Any:
    """What Airflow finds in a DAG folder, from a current folder that is elsewhere."""
    elsewhere = dags.parents[1] / "elsewhere"
    elsewhere.mkdir()
    ours = {
        "AIRFLOW_HOME": str(elsewhere / "airflow"),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__DAGBAG_IMPORT_TIMEOUT": "600",
        "PIPELINE_HOME": str(elsewhere / "home"),
        "PIPELINE_TOPOLOGIES": "",
    }
    done = subprocess.run(
        [sys.executable, "-c", READ, str(dags)],
        cwd=elsewhere,
        env=os.environ | ours | environ,
        capture_output=True,
        text=True,
    )
    assert "RESULT" in done.stdout, done.stderr
    return json.loads(done.stdout.rpartition("RESULT")[2])


@pytest.mark.thorough
def test_two_lines_in_a_repository_s_own_dag_folder_bring_the_dags(repository):
    environ = {"PIPELINE_TOPOLOGIES": "pipeline.shop:topology", "PYTHONPATH": str(repository)}
    found = read_dags(repository / "dags", **environ)
    assert found == {"errors": {}, "dags": ["report", *OF_SHOP]}


@pytest.mark.thorough
def test_a_topology_that_lies_in_the_dag_folder_is_found_without_a_path(repository):
    dags = repository / "dags"
    (repository / "pipeline").rename(dags / "pipelines")
    (dags / "pipelines" / "shop.py").write_text(SHOP.replace("pipeline.names", "pipelines.names"))
    (dags / "report.py").unlink()
    found = read_dags(dags, PIPELINE_TOPOLOGIES="pipelines.shop:topology")
    assert found == {"errors": {}, "dags": OF_SHOP}


@pytest.mark.thorough
def test_without_a_registered_topology_the_file_is_an_import_error(repository):
    found = read_dags(repository / "dags", PYTHONPATH=str(repository))
    assert found["dags"] == ["report"]
    assert "No topology is registered. Set PIPELINE_TOPOLOGIES" in found["errors"]["acker_dags.py"]


@pytest.mark.thorough
def test_a_topology_that_does_not_import_is_an_import_error_where_it_is_the_only_one(repository):
    (repository / "pipeline" / "names.py").write_text("NAMES = []")
    environ = {"PIPELINE_TOPOLOGIES": "pipeline.shop:topology", "PYTHONPATH": str(repository)}
    found = read_dags(repository / "dags", **environ)
    assert found["dags"] == ["report"]
    assert "pipeline.shop:topology does not import: ImportError" in found["errors"]["acker_dags.py"]
