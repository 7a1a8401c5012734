"""Commands as real processes, in a folder with a topology, its source and its store."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.kit import ROOT

TOPOLOGY = """
from pathlib import Path
from pyspark.sql import functions as F
from acker import ExponentialBackoff
from acker import fail_when
from acker import DeltaSpout
from acker import Topology

topology = Topology("squares", retry=ExponentialBackoff(initial_seconds=0, limit=1))
numbers = topology.spout("numbers", DeltaSpout("numbers", key="id"))

@topology.bolt(numbers)
def squared(tuples):
    low = F.col("id") < 0
    down = F.lit(Path("outage").exists()) & (F.col("id") == 2)
    why = F.coalesce(fail_when(low, "below 0"), fail_when(down, "lookup is down"))
    return tuples.select("anchor", "id", (F.col("id") * F.col("id")).alias("square"), why.alias("_error"))

topology.publish(squared, to="squares")
"""
NO_SPARK = {"SPARK_REMOTE": "sc://127.0.0.1:9"}


@dataclass(frozen=True)
class Answer:
    """What a command printed, and its exit code."""

    code: int
    out: str
    err: str

    def json(self) -> Any:
        return json.loads(self.out)


class Shell:
    """Runs commands in a folder with a topology, a source and a store."""

    def __init__(self, folder: Path, url: str) -> None:
        self.folder = folder
        kept = {name: value for name, value in os.environ.items() if not name.startswith("PIPELINE_")}
        self.environ = kept | {
            "SPARK_REMOTE": url,
            "PIPELINE_HOME": str(folder / "home"),
            "PIPELINE_TOPOLOGIES": "squares_topology:topology",
            "PYTHONPATH": str(ROOT),
        }
        (folder / "squares_topology.py").write_text(TOPOLOGY)
        (folder / "raising.py").write_text("1 / 0\n")
        (folder / "other.py").write_text("topology = 'none'\n")

    def __call__(self, *arguments: str, **environ: str) -> Answer:
        done = subprocess.run(
            [sys.executable, "-m", "acker", *arguments],
            cwd=self.folder,
            env=self.environ | environ,
            capture_output=True,
            text=True,
            timeout=300,
        )
        return Answer(done.returncode, done.stdout, done.stderr)
