"""What an author imports."""

import subprocess
import sys

import acker

AUTHORS = [
    *("Topology", "DeltaSpout", "FileSpout", "KafkaSpout", "Spout"),
    *("Avro", "Bytes", "Json", "KeyValue", "Scheme", "Text", "collect_anchors", "fail_when", "merge_anchors"),
    *("Collector", "Context", "KafkaBolt", "RichBolt", "Tuple", "PermanentFailure", "Target"),
    *("DeltaAppend", "DeltaAggregate", "KafkaTarget"),
    *("Count", "Max", "Min", "Sum", "ExponentialBackoff", "FailedAttempt", "Notice"),
    *("AckerError", "BoltError", "SourceError", "StoreError", "TopologyError"),
]


def test_every_public_name_is_there():
    assert acker.__all__ == AUTHORS
    assert [name for name in AUTHORS if getattr(acker, name).__name__ != name] == []


def test_importing_the_library_loads_neither_spark_nor_polars():
    heavy = "{'pyspark', 'polars', 'pyarrow', 'deltalake', 'pandas', 'airflow'}"
    code = f"import acker, sys; print(sorted({heavy} & {{name.partition('.')[0] for name in sys.modules}}))"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == "[]"


def test_without_kafkas_extra_every_name_can_be_imported_and_those_of_kafka_say_what_is_missing():
    code = """
import sys
sys.modules["confluent_kafka"] = None
from acker import *
for kind in (KafkaSpout, KafkaTarget):
    try:
        kind("localhost:9092", "orders")
    except AckerError as error:
        print(kind.__name__, error)
topology = Topology("shop")
orders = topology.spout("orders", FileSpout("orders"))
topology.publish(orders, "table", by="value", aggregates={"n": Count()})
"""
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    why = "Kafka needs the package confluent-kafka: pip install 'acker[kafka]'."
    assert told.stdout.splitlines() == [f"KafkaSpout {why}", f"KafkaTarget {why}"]
