"""Replay: 1,000 scattered of 1 M messages emitted again by hand ÷ the first run that emitted them all.

The first run is the spout's batch and the fold. The replay is what `acker replay` does: it selects, plans,
reads the messages back from the source, and writes and logs their batch.
"""

import random
from collections.abc import Callable
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from acker.batches.run import Run
from acker.core.events import State
from acker.core.store.store import Store
from acker.operations.cycle import run_spout
from acker.operations.fold import fold
from acker.operations.replay import replay_by_hand
from acker.operations.selection.selection import Selection
from acker.spark.delta import read
from acker.spouts import DeltaSpout, FileSpout
from acker.spouts.base import Spout
from acker.topology.topology import Topology
from bench.pairs import Measure, measure

MESSAGES = 1_000_000
SCATTERED = 1_000
FILES = 4
AT_MOST = 0.15

Position = tuple[str, int]
Source = tuple[Spout, Callable[[int], Position]]  # and where its message of a number is


def measure_again(
    spark: SparkSession, folder: Path, rounds: int, source: str, messages: int = MESSAGES
) -> Measure:
    """Time both in turn. Raises AssertionError where a replay emits anything but what was chosen."""
    spout, position = SOURCES[source](spark, folder, messages)
    chosen = random.Random(1).sample(range(messages), SCATTERED)
    at = tuple(map(position, chosen))
    runs: list[Run] = []

    def first(number: int) -> None:
        topology = Topology("again", batch_rows=2**31 - 1)
        topology.spout("messages", spout)
        store = Store(str(folder / f"tracked{number}"), topology.name)
        store.create()
        run = Run(topology, store, lambda: spark)
        runs.append(run)
        run_spout(run, topology.spouts[0])
        fold(run)

    def again(number: int) -> None:
        chosen_again = Selection(states=(State.ACKED,), spout="messages", positions=at)
        assert replay_by_hand(runs[number], chosen_again, "bench", "bench").replayed == SCATTERED

    result = measure(f"replay of {source}", AT_MOST, again, first, rounds)
    for run in runs:
        rows = read(spark, run.store.path("streams/messages"))
        assert rows.count() == messages + SCATTERED
        numbers = rows.where("_attempt = 2").selectExpr("CAST(value AS bigint) AS n").toArrow()["n"]
        assert sorted(numbers.to_pylist()) == sorted(chosen)
    return result


def _by_row_id(spark: SparkSession, folder: Path, messages: int) -> Source:
    path = str(folder / "source")
    writer = _numbers(spark, messages).coalesce(1).write.format("delta")
    writer.option("delta.enableRowTracking", "true").save(path)
    return DeltaSpout(path), lambda number: ("0", number)


def _by_key(spark: SparkSession, folder: Path, messages: int) -> Source:
    path = str(folder / "source")
    _numbers(spark, messages).write.format("delta").save(path)
    return DeltaSpout(path, key="id"), lambda number: ("0", number)


def _of_text(spark: SparkSession, folder: Path, messages: int) -> Source:
    path, each = folder / "source", messages // FILES
    path.mkdir(parents=True)
    for file in range(FILES):
        lines = (f"{number:0100d}\n" for number in range(file * each, (file + 1) * each))
        (path / f"{file}.txt").write_text("".join(lines))
    return FileSpout(str(path)), lambda number: (f"{number // each}.txt", number % each + 1)


def _numbers(spark: SparkSession, messages: int) -> DataFrame:
    return spark.range(0, messages, 1, FILES).selectExpr("id", "lpad(id, 100, '0') AS value")


SOURCES = {"ids": _by_row_id, "keys": _by_key, "files": _of_text}
