"""Records at given offsets, as a worker of Spark's reads them: what is there, and why the rest is missing."""

import subprocess
import sys

import pyarrow as pa
import pytest
from pyspark import cloudpickle

from acker import Json, Text
from acker.spouts import History
from acker.spouts.kafka import offsets
from acker.spouts.kafka.offsets import HOLE, NEAR, OffsetReader, gone, spans
from acker.spouts.kafka.spout import KafkaSpout


def reader(servers, committed=True, tombstones=False, headers=False):
    return OffsetReader({"bootstrap.servers": servers}, committed, tombstones, headers)


def rows(reader, *places):
    """What is read at (topic, partition, offset, earliest), as (partition, offset, value, missing)."""
    names = ["topic", "partition", "offset", "earliest"]
    asked = pa.RecordBatch.from_pylist([dict(zip(names, place, strict=True)) for place in places])
    found = [row for batch in reader(iter([asked])) for row in batch.to_pylist()]
    return sorted((row["partition"], row["offset"], row["value"], row["missing"]) for row in found)


def test_near_offsets_are_read_in_one_go_and_those_far_apart_are_not():
    assert spans([]) == []
    assert spans([3, 4, 4 + NEAR, 5 + 2 * NEAR]) == [[3, 4, 4 + NEAR], [5 + 2 * NEAR]]


def test_offsets_of_several_partitions_are_read_wherever_they_lie(broker, topic):
    one = topic(partitions=2)
    for partition in (0, 1):
        one.add(*map(str, range(1_000)), partition=partition)
    asked = [(one.name, 1, 999, 0), (one.name, 0, 5, 0), (one.name, 0, 6, 0), (one.name, 0, 800, 0)]
    asked.append((one.name, 1, 0, 0))
    expected = sorted((p, offset, str(offset).encode(), None) for _, p, offset, _ in asked)
    assert rows(reader(broker.servers), *asked) == expected


def test_why_a_record_is_missing_is_told(broker, topic):
    one = topic()
    one.add("a", "b", None)
    one.add_in_transaction("never", end="abort")  # and a marker, with which the partition ends
    one.forget(before=1)
    asked = [(one.name, 0, offset, 1) for offset in range(4)]
    found = [(0, 0, None, gone(1)), (0, 1, b"b", None), (0, 2, None, HOLE), (0, 3, None, HOLE)]
    assert rows(reader(broker.servers), *asked) == found
    lenient = reader(broker.servers, committed=False, tombstones=True)
    assert rows(lenient, *asked[2:]) == [(0, 2, None, None), (0, 3, b"never", None)]


def test_an_offset_that_a_broker_does_not_have_yet_is_not_taken_for_a_hole(broker, topic):
    one = topic()
    one.add("a")
    with pytest.raises(
        RuntimeError, match=f"asked for partition {one.name}-0: it ends at offset 1, and 1 was"
    ):
        rows(reader(broker.servers), (one.name, 0, 1, 0))


def test_a_worker_reads_without_this_project(broker, topic):
    one = topic()
    one.add("a", "b")
    asked = pa.RecordBatch.from_pylist([{"topic": one.name, "partition": 0, "offset": 1, "earliest": 0}])
    pickled = cloudpickle.dumps((reader(broker.servers), [asked]))
    code = """
import pickle, sys
sys.modules["acker"] = None  # an import of it fails
read, asked = pickle.load(sys.stdin.buffer)
print([row["value"] for batch in read(iter(asked)) for row in batch.to_pylist()])
"""
    done = subprocess.run([sys.executable, "-c", code], input=pickled, capture_output=True)
    assert (done.stdout.decode(), done.returncode) == ("[b'b']\n", 0), done.stderr


@pytest.mark.extended
def test_a_broker_that_does_not_answer_is_named(monkeypatch):
    monkeypatch.setattr(offsets, "_ANSWER_SECONDS", 1.0)
    with pytest.raises(
        TimeoutError, match=r"Kafka at 127\.0\.0\.1:9, .* orders-0: no record 7 came within 1 s"
    ):
        rows(reader("127.0.0.1:9"), ("orders", 0, 7, 0))


def test_what_is_read_back_is_what_was_read(broker, topic, spark):
    one, two = topic(partitions=2), topic()
    one.add('{"id": 1}', "no json", key="k", headers=[("by", b"a"), ("by", b"\xff")], timestamp=1_000)
    one.add('{"id": 2}', partition=1)
    two.add("text", None)
    schemes = {one.name: Json("id bigint"), two.name: Text("line")}
    spout = KafkaSpout(broker.servers, (one.name, two.name), schemes=schemes, metadata=True, tombstones=True)
    planned = spout.next_range(None, History(None, list), 100)
    read = spout.read_range(spark, planned)
    positions = read.select("_source_partition", "_source_offset").toArrow()
    positions = positions.rename_columns(["source_partition", "source_offset"])
    again = spout.read_positions(spark, positions, History(planned, lambda: [planned]))
    assert again.schema == read.schema
    order = ["_source_partition", "_source_offset"]
    first = read.sort(*order).collect()
    assert len(first) == 5
    assert again.sort(*order).collect() == first
