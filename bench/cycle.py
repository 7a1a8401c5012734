"""Small work: a warm cycle of 1,000 messages ÷ plain Spark that makes the same four appends to Delta.

The tracked side is a whole cycle: a spout, two bolts, the fold and the publish of new rows of a Delta table.
"""

from pathlib import Path

import pyarrow as pa
from deltalake import write_deltalake
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from acker.batches.run import Run
from acker.core.store.store import Store
from acker.operations.cycle import run_cycle
from acker.spark.delta import read
from acker.spouts import DeltaSpout
from acker.topology.topology import Topology
from bench.pairs import Measure, measure

MESSAGES = 1_000
CYCLES = 5  # that are timed together
WARMING = 15  # before
AT_MOST = 1.0
STAGES = ("numbers", "tens", "hundreds", "out")


def measure_cycle(spark: SparkSession, folder: Path, rounds: int, messages: int = MESSAGES) -> Measure:
    """Time both in turn. Raises AssertionError where their results differ."""
    topology = Topology("cycles")
    numbers = topology.spout("numbers", DeltaSpout(str(folder / "tracked"), key="id"))

    @topology.bolt(numbers)
    def tens(tuples: DataFrame) -> DataFrame:
        return tuples.withColumn("id", F.col("id") * 10)

    @topology.bolt(tens)
    def hundreds(tuples: DataFrame) -> DataFrame:
        return tuples.withColumn("id", F.col("id") * 10)

    topology.publish(hundreds, to=str(folder / "published"))
    topology.validate()
    store = Store(str(folder / "store"), topology.name)
    store.create()
    run = Run(topology, store, lambda: spark)

    def feed(source: str, cycle: int) -> None:
        ids = pa.table({"id": range(cycle * messages, (cycle + 1) * messages)})
        write_deltalake(str(folder / source), ids, mode="append")

    def tracked(number: int) -> None:
        for cycle in _cycles(number):
            feed("tracked", cycle)
            run_cycle(run)

    def plain(number: int) -> None:
        for cycle in _cycles(number):
            feed("plain", cycle)
            _plain_cycle(spark, folder, cycle, messages)

    result = measure("cycle", AT_MOST, tracked, plain, rounds)
    published, wanted = (
        read(spark, str(folder / name)).agg(F.count("id"), F.sum("id")).first()
        for name in ("published", "out")
    )
    assert published == wanted
    return result


def _cycles(number: int) -> range:
    """The cycles of a round, the first of which warms up."""
    first = WARMING + (number - 1) * CYCLES
    return range(first, first + CYCLES) if number else range(WARMING)


def _plain_cycle(spark: SparkSession, folder: Path, cycle: int, messages: int) -> None:
    frame = read(spark, str(folder / "plain")).where(F.col("id") >= cycle * messages)
    for name, factor in zip(STAGES, (1, 10, 10, 1), strict=True):
        made = frame.select((F.col("id") * factor).alias("id"), F.lit(cycle).alias("batch"))
        made.write.format("delta").mode("append").save(str(folder / name))
        frame = read(spark, str(folder / name)).where(F.col("batch") == cycle)
