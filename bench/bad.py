"""What it costs to find the rows of a batch that make Spark raise."""

import time
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from deltalake import write_deltalake
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F

from acker.batches.run import Run
from acker.core.store.schemas import EVENTS
from acker.core.store.store import Store
from acker.core.store.tables import query
from acker.operations.cycle import run_bolt, run_spout
from acker.spouts import DeltaSpout
from acker.topology.topology import Topology
from bench.large import Figure

MESSAGES = 100_000
FEW, MANY = 10, 1_000
SECONDS = 60.0


@dataclass(frozen=True)
class _Way:
    """A way to raise on a text that is no number."""

    name: str
    column: Column


def measure_bad(spark: SparkSession, folder: Path, rounds: int) -> Figure:
    """Seconds of a batch of 100,000 messages of which 1,000 raise in a cast."""
    text = F.col("text")
    cast = _Way("cast", text.cast("int"))
    raises = F.when(text == "bad", F.raise_error(F.lit("no number"))).otherwise(text.cast("int"))
    python = F.udf(lambda value: int(value), "int")(text)
    for way in (cast, _Way("raise_error", raises), _Way("UDF", python)):
        print(f"  {FEW} by {way.name}: {_seconds(spark, folder / way.name, way, FEW)} s", flush=True)
    seconds = [_seconds(spark, folder / str(number), cast, MANY) for number in range(rounds)]
    return Figure("bad", "s", sorted(seconds)[rounds // 2], SECONDS, seconds, [])


def _seconds(spark: SparkSession, folder: Path, way: _Way, bad: int) -> float:
    source, step = str(folder / "source"), MESSAGES // bad
    texts = ["bad" if number % step == 0 else str(number) for number in range(MESSAGES)]
    write_deltalake(source, pa.table({"id": range(MESSAGES), "text": texts}))
    topology = Topology("bad")
    spout = topology.spout("texts", DeltaSpout(source, key="id"))
    bolt = topology.bolt(spout, name="numbers")(lambda tuples: tuples.select("anchor", way.column.alias("n")))
    store = Store(str(folder / "store"), topology.name)
    store.create()
    run = Run(topology, store, lambda: spark)
    run_spout(run, spout)
    start = time.perf_counter()
    run_bolt(run, bolt)
    seconds = round(time.perf_counter() - start, 1)
    (row,) = query("SELECT count(*) AS n FROM events WHERE kind = 'fail'", events=store.require(EVENTS))
    assert row["n"] == bad, row
    return seconds
