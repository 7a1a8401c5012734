"""A process of its own that reads `dags/` as Airflow does, in a folder with a topology."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.kit import ROOT

BRANCHES = '''
"""Numbers, two ways."""
import costly
from acker import RichBolt
from acker import DeltaSpout
from acker import Topology

topology = Topology("branches")
left = topology.spout("left", DeltaSpout("left", key="id"))
right = topology.spout("right", DeltaSpout("right", key="id"))

@topology.bolt(left, right)
def both(a, b):
    """Put them together."""
    return a.unionByName(b)

@topology.bolt(both)
def plain(tuples):
    return tuples

@topology.bolt(both)
def odd(tuples):
    return tuples.where("id % 2 = 1")

@topology.rich_bolt(odd.fields_grouping("id"), schema="id long", streams={"late": "id long"})
class Held(RichBolt):
    """Hold some back."""

    def execute(self, tup, collector):
        """Hold it back."""

topology.publish(plain, to="plain")
topology.publish(odd, to="odd")
topology.publish(Held.stream("late"), to="late")
'''


def run_with_dags(program: str, folder: Path, topologies: str, *arguments: str) -> Any:
    """What a program says that Airflow and `dags/` are there for."""
    (folder / "branches.py").write_text(BRANCHES)
    (folder / "costly.py").write_text("")  # stands for what only this topology needs
    environ = os.environ | {
        "AIRFLOW_HOME": str(folder / "airflow"),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__DAGBAG_IMPORT_TIMEOUT": "600",
        "PIPELINE_HOME": str(folder / "home"),
        "PIPELINE_TOPOLOGIES": topologies,
        "PYTHONPATH": f"{ROOT}{os.pathsep}{folder}",
    }
    done = subprocess.run(
        [sys.executable, "-c", program, str(ROOT / "dags"), *arguments],
        cwd=folder,
        env=environ,
        capture_output=True,
        text=True,
    )
    assert "RESULT" in done.stdout, done.stderr
    return json.loads(done.stdout.rpartition("RESULT")[2])
