"""`python -m bench.growing`: what a million messages of ten tuples each cost, by step and by table.

A topology reads sentences of ten words, splits them and publishes the words. Each of ROUNDS (3) warm cycles
takes MESSAGES (1,000,000) new ones in one batch. Prints the median seconds of each step and the bytes of
each table, for a million messages, and writes `data/bench-growing.json`. Linux alone tells the memory.
"""

import json
import shutil
import statistics
import time
from collections import defaultdict
from functools import partial
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from acker.batches.run import Run, Step
from acker.core.store.store import Store
from acker.operations.cycle import run_cycle
from acker.reports.audit import audit_report
from acker.runtime.server.sessions import owned_session
from acker.runtime.settings import Settings, positive_number
from acker.spouts import DeltaSpout
from acker.topology.topology import Topology
from bench.command import exit_with
from bench.processes import most_megabytes
from bench.tax import make_sentences

MESSAGES = 1_000_000
MILLION = 1_000_000


class Clocked:
    """How long each step took: from the end of the one before."""

    def __init__(self) -> None:
        self.seconds: dict[str, list[float]] = defaultdict(list)
        self._last = time.perf_counter()

    def start(self) -> None:
        """The time runs from now."""
        self._last = time.perf_counter()

    def __call__(self, step: Step) -> None:
        """A step has ended."""
        now = time.perf_counter()
        if step.name != "folding":
            self.seconds[f"{step.component} {step.name}"].append(now - self._last)
            self._last = now


def main() -> int:
    """Measure, print and write."""
    rounds, messages = positive_number("ROUNDS", 3), positive_number("MESSAGES", MESSAGES)
    settings = Settings.from_env()
    folder = settings.home / "bench" / "growing"
    shutil.rmtree(folder, ignore_errors=True)
    with owned_session(settings) as spark:
        result = _measured(spark, folder, rounds, messages)
    print(text := json.dumps(result, indent=2))
    (settings.home / "bench-growing.json").write_text(text + "\n")
    shutil.rmtree(folder)
    return 0


def _measured(spark: SparkSession, folder: Path, rounds: int, messages: int) -> dict[str, object]:
    source = make_sentences(spark, folder, messages * (rounds + 1))
    topology = _topology(source, folder, messages)
    store, clocked = Store(str(folder / "store"), topology.name), Clocked()
    store.create()
    run = Run(topology, store, lambda: spark, on_step=clocked)
    for _ in range(rounds + 1):
        clocked.start()
        run_cycle(run)
    assert audit_report(topology, store).passed
    scale = MILLION / messages
    steps = {name: round(statistics.median(each[1:]) * scale, 2) for name, each in clocked.seconds.items()}
    size = partial(_megabytes, scale=scale / (rounds + 1))
    tables = {path.name: size(path) for path in sorted(Path(store.path("")).iterdir()) if path.is_dir()}
    return {
        "messages": messages,
        "seconds of a million": steps | {"all": round(sum(steps.values()), 2)},
        "MB of a million": tables | {"published": size(folder / "published"), "source": size(Path(source))},
        "most MB of the process that asks": most_megabytes(),
    }


def _topology(source: str, folder: Path, messages: int) -> Topology:
    topology = Topology("growing", batch_rows=messages)
    sentences = topology.spout("sentences", DeltaSpout(source))

    @topology.bolt(sentences)
    def words(tuples: DataFrame) -> DataFrame:
        return tuples.select("anchor", F.explode(F.split("sentence", " ")).alias("word"))

    topology.publish(words, to=str(folder / "published"))
    topology.validate()
    return topology


def _megabytes(folder: Path, scale: float) -> float:
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    return round(size * scale / 1e6, 1)


if __name__ == "__main__":
    exit_with(main)
