"""Kafka: a spout's batch of a whole topic ÷ plain Spark, and reading a few records back ÷ that batch.

1 M records of 100 bytes lie in 4 partitions of a broker of the measure's own. The first run is the spout's
batch and the fold, with everything that they log.
"""

import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from acker.batches.run import Run
from acker.components.spout import history
from acker.core.store.store import Store
from acker.operations.cycle import run_spout
from acker.operations.fold import fold
from acker.spark.delta import read
from acker.spouts.kafka.spout import KafkaSpout
from acker.topology.topology import Topology
from bench.pairs import Measure, measure
from embedded.broker import running_broker

TOPIC = "records"
RECORDS = 1_000_000
RECORD_BYTES = 100
PARTITIONS = 4
SCATTERED = 1_000
TAX_AT_MOST = 1.5
REPLAY_AT_MOST = 0.1


def measure_kafka(spark: SparkSession, folder: Path, rounds: int, records: int = RECORDS) -> Measure:
    """The first run of a topic ÷ plain Spark that writes the same to Delta."""
    with _topic(folder, records) as servers:

        def plain(number: int) -> None:
            _plain(spark, servers, folder / f"plain{number}")

        def tracked(number: int) -> None:
            _first_run(spark, servers, folder / f"tracked{number}")

        result = measure("kafka", TAX_AT_MOST, tracked, plain, rounds)
    for number in range(rounds + 1):
        store = Store(str(folder / f"tracked{number}"), "kafka")
        assert spark.read.format("delta").load(str(folder / f"plain{number}")).count() == records
        assert read(spark, store.path("ledger")).where("state = 'acked'").count() == records
    return result


def measure_replay(spark: SparkSession, folder: Path, rounds: int, records: int = RECORDS) -> Measure:
    """Reading 1,000 scattered records back ÷ the first run of all."""
    chosen = random.Random(1).sample(range(records), SCATTERED)
    at = {
        "source_partition": [f"{TOPIC}-{number % PARTITIONS}" for number in chosen],
        "source_offset": [number // PARTITIONS for number in chosen],
    }
    runs: list[Run] = []
    with _topic(folder, records) as servers:

        def first(number: int) -> None:
            runs.append(_first_run(spark, servers, folder / f"tracked{number}"))

        def again(number: int) -> None:
            journal, (spout,) = runs[number].snapshot(), runs[number].topology.spouts
            found = spout.source.read_positions(spark, pa.table(at), history(journal, spout.name))
            values = found.where("_kind IS NULL").select("value").toArrow()["value"].to_pylist()
            assert sorted(values) == sorted(map(_value, chosen))

        return measure("kafka replay", REPLAY_AT_MOST, again, first, rounds)


@contextmanager
def _topic(folder: Path, records: int) -> Iterator[str]:
    """Servers with a topic that is filled."""
    with running_broker(folder / "broker") as broker:
        admin = AdminClient({"bootstrap.servers": broker.servers})
        admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)])[TOPIC].result()
        producer = Producer(
            {
                "bootstrap.servers": broker.servers,
                "queue.buffering.max.messages": records + 1,
                "batch.size": 16_384,  # as Java's producer has it: a broker hands out whole batches
                "enable.idempotence": True,  # so that the order stays, and an offset tells the value
            }
        )
        for number in range(records):
            producer.produce(TOPIC, _value(number), None, number % PARTITIONS)
        assert producer.flush() == 0
        yield broker.servers


def _value(number: int) -> str:
    return f"{number:0{RECORD_BYTES}d}"


def _plain(spark: SparkSession, servers: str, folder: Path) -> None:
    """The topic as one reads it without tracking."""
    options = {
        "kafka.bootstrap.servers": servers,
        "subscribe": TOPIC,
        "startingOffsets": "earliest",
        "kafka.isolation.level": "read_committed",
    }
    records = spark.read.format("kafka").options(**options).load()
    value = F.col("value").cast("string").alias("value")
    records.select(value, "partition", "offset").write.format("delta").save(str(folder))


def _first_run(spark: SparkSession, servers: str, folder: Path) -> Run:
    """The same as a topology."""
    topology = Topology("kafka", batch_rows=2**31 - 1)
    spout = topology.spout("records", KafkaSpout(servers, TOPIC))
    store = Store(str(folder), topology.name)
    store.create()
    run = Run(topology, store, lambda: spark)
    run_spout(run, spout)
    fold(run)
    return run
