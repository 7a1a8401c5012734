"""A Kafka topic as a spout: what is planned, read, read back, and told of what is gone."""

from dataclasses import replace
from datetime import UTC, datetime

import pyarrow as pa
import pytest

from acker.core.errors import SourceError
from acker.spouts import Backlog, History
from acker.spouts.kafka.schemes import Bytes, Json, KeyValue, Text
from acker.spouts.kafka.spout import KafkaSpout

NEW = History(None, list)


def after(*ranges):
    return History(ranges[-1], lambda: list(ranges))


def plan(spout, *before, limit=1_000):
    return spout.next_range(None, after(*before) if before else NEW, limit)


def offsets(planned):
    return {name.rpartition("-")[2]: tuple(span) for name, span in planned["offsets"].items()}


def read(spout, spark, planned, *columns):
    found = spout.read_range(spark, planned)
    rows = found.select("_source_partition", "_source_offset", *columns).collect()
    return sorted((row[0].rpartition("-")[2], *row[1:]) for row in rows)


def read_back(spout, spark, planned, positions, *columns):
    table = pa.table(
        {"source_partition": [p for p, _ in positions], "source_offset": [o for _, o in positions]}
    )
    found = spout.read_positions(spark, table, after(planned))
    rows = found.select("_source_offset", *columns).collect()
    return sorted(tuple(row) for row in rows)


def test_records_are_read_once_and_in_order(broker, topic, spark):
    one = topic()
    one.add("a", "b", "c")
    spout = KafkaSpout(broker.servers, one.name)
    first = plan(spout)
    assert read(spout, spark, first, "value") == [("0", 0, "a"), ("0", 1, "b"), ("0", 2, "c")]
    assert (spout.ends(first), plan(spout, first)) == ({f"{one.name}-0": 3}, None)
    one.add("d")
    assert read(spout, spark, plan(spout, first), "value") == [("0", 3, "d")]


def test_a_limit_is_shared_by_the_partitions_and_none_holds_up_another(broker, topic):
    one = topic(partitions=3)
    for partition, count in enumerate((10, 1, 4)):
        one.add(*map(str, range(count)), partition=partition)
    spout = KafkaSpout(broker.servers, one.name)
    first = plan(spout, limit=9)
    assert offsets(first) == {"0": (0, 4), "1": (0, 1), "2": (0, 4)}
    assert offsets(plan(spout, first, limit=9)) == {"0": (4, 10), "1": (1, 1), "2": (4, 4)}
    assert offsets(plan(replace(spout, partition_rows=2))) == {"0": (0, 2), "1": (0, 1), "2": (0, 2)}
    assert offsets(plan(spout, limit=1)) == {"0": (0, 0), "1": (0, 1), "2": (0, 0)}


def test_what_a_transaction_aborted_is_no_message_and_what_is_open_waits(broker, topic, spark):
    one = topic()
    one.add("a")
    one.add_in_transaction("never", end="abort")
    one.add_in_transaction("b", end="commit")
    open_one = one.add_in_transaction("later", end="open")
    one.add("after it")
    spout = KafkaSpout(broker.servers, one.name)
    first = plan(spout)
    assert [row[2] for row in read(spout, spark, first, "value")] == ["a", "b"]
    assert plan(spout, first) is None
    open_one.commit_transaction(30)
    second = plan(spout, first)
    assert [row[2] for row in read(spout, spark, second, "value")] == ["later", "after it"]
    uncommitted = replace(spout, committed=False)
    assert "never" in [row[2] for row in read(uncommitted, spark, plan(uncommitted), "value")]
    (aborted,) = read_back(spout, spark, second, [(f"{one.name}-0", 1)], "_kind", "_error")
    assert aborted == (1, "lost", "compacted away, of a transaction that was aborted, or without a value")


def test_what_retention_deleted_is_lost_with_the_earliest_offset_that_is_left(broker, topic, spark):
    one = topic()
    one.add("a", "b", "c", "d")
    spout = KafkaSpout(broker.servers, one.name)
    first = plan(spout)
    one.forget(before=2)
    gone = "gone from the topic, whose partition begins at offset 2"
    assert read(spout, spark, first, "value", "_kind", "_error") == [
        ("0", 0, None, "lost", gone),
        ("0", 1, None, "lost", gone),
        ("0", 2, "c", None, None),
        ("0", 3, "d", None, None),
    ]
    positions = [(f"{one.name}-0", offset) for offset in (3, 0)]
    assert read_back(spout, spark, first, positions, "value", "_kind", "_error") == [
        (0, None, "lost", gone),
        (3, "d", None, None),
    ]


def test_what_was_deleted_unread_stops_the_spout_or_is_counted(broker, topic):
    one = topic()
    one.add("a", "b", "c", "d")
    spout = KafkaSpout(broker.servers, one.name)
    first = plan(spout, limit=1)
    one.forget(before=3)
    with pytest.raises(
        SourceError, match=r"-0 begins at offset 3 now, and 1 would be next: .* out_of_range="
    ):
        plan(spout, first)
    lenient = replace(spout, out_of_range="earliest")
    second = plan(lenient, first)
    assert (offsets(second), second["skipped"]) == ({"0": (3, 4)}, {f"{one.name}-0": 2})
    left_out = {"gone or too far behind before they were read": 2}
    told = Backlog({}, left_out=left_out, ends={f"{one.name}-0": 4})
    assert lenient.backlog(after(first, second)) == told


def test_scattered_offsets_are_read_back_and_no_others(broker, topic, spark):
    one = topic(partitions=2)
    for partition in (0, 1):
        one.add(*map(str, range(200)), partition=partition)
    spout = KafkaSpout(broker.servers, one.name)
    planned = plan(spout)
    positions = [(f"{one.name}-{p}", o) for p in (0, 1) for o in range(p, 200, 7)]
    found = read_back(spout, spark, planned, positions, "value", "_kind")
    assert found == sorted((offset, str(offset), None) for _, offset in positions)


def test_a_partition_that_is_added_is_read_from_its_beginning(broker, topic, spark):
    one = topic()
    one.add("a")
    spout = KafkaSpout(broker.servers, one.name, start="latest")
    first = plan(spout)
    assert offsets(first) == {"0": (1, 1)}
    one.grow(2)
    one.add("b", partition=1)
    one.add("c")
    second = plan(spout, first)
    assert read(spout, spark, second, "value") == [("0", 1, "c"), ("1", 0, "b")]


def test_a_topic_that_was_made_anew_is_refused_with_the_way_on(broker, topic, spark):
    one = topic()
    one.add("a", "b")
    spout = KafkaSpout(broker.servers, one.name)
    first = plan(spout)
    one.delete()
    broker.create(one.name)
    for ask in (lambda: plan(spout, first), lambda: spout.read_range(spark, first)):
        with pytest.raises(SourceError, match=r"was deleted and made anew.* Give the spout another name"):
            ask()


def test_a_new_spout_begins_where_it_is_told_to_and_an_old_one_goes_on(broker, topic):
    one = topic()
    for second in (1_000, 2_000, 3_000):
        one.add("x", timestamp=second * 1_000)
    starts = {
        "earliest": 0,
        "latest": 3,
        datetime.fromtimestamp(1_500, UTC): 1,
        datetime.fromtimestamp(9_000, UTC): 3,
    }
    for start, first in starts.items():
        spout = KafkaSpout(broker.servers, one.name, start=start)
        assert offsets(plan(spout)) == {"0": (first, 3)}
    spout = KafkaSpout(broker.servers, one.name, start={f"{one.name}-0": 2})
    assert offsets(plan(spout)) == {"0": (2, 3)}
    begun = plan(KafkaSpout(broker.servers, one.name), limit=1)
    latest = KafkaSpout(broker.servers, one.name, start="latest")
    assert offsets(plan(latest, begun)) == {"0": (1, 3)}
    again = plan(replace(latest, restart="after the outage"), begun)
    assert (offsets(again), again["skipped"]) == ({"0": (3, 3)}, {f"{one.name}-0": 2})
    with pytest.raises(SourceError, match=f"start names nowhere-0, .*: {one.name}-0"):
        plan(KafkaSpout(broker.servers, one.name, start={"nowhere-0": 1}))


def test_a_spout_may_leave_out_what_lies_too_far_behind(broker, topic):
    one = topic()
    one.add(*"abcdef")
    found = plan(KafkaSpout(broker.servers, one.name, max_behind=2))
    assert (offsets(found), found["skipped"]) == ({"0": (4, 6)}, {f"{one.name}-0": 4})


def test_a_pattern_takes_whole_names_and_what_comes_later(broker, topic, spark):
    one = topic()
    spout = KafkaSpout(broker.servers, pattern=f"{one.name}(_more)?")
    one.add("a")
    first = plan(spout)
    broker.create(f"{one.name}_more").add("b")
    broker.create(f"{one.name}_mores").add("c")
    second = plan(spout, first)
    found = spout.read_range(spark, second).select("_source_partition", "value").collect()
    assert [tuple(row) for row in found] == [(f"{one.name}_more-0", "b")]
    assert plan(replace(spout, pattern="nothing.*")) is None


def test_records_become_columns_and_what_does_not_parse_is_failed_for_good(broker, topic, spark):
    one = topic()
    one.add('{"id": 1, "item": "tea"}', '{"id": "x"}', b"\xff", key="k")
    one.add(None, key="k")
    spout = KafkaSpout(broker.servers, one.name, scheme=Json("id bigint, item string"))
    planned = plan(spout)
    assert read(spout, spark, planned, "id", "item", "_kind", "_error") == [
        ("0", 0, 1, "tea", None, None),
        ("0", 1, None, None, "reject", 'not valid JSON for the schema: id: "x" is no bigint: {"id": "x"}'),
        ("0", 2, None, None, "reject", "the value is not valid UTF-8"),
    ]
    raw = replace(spout, scheme=Bytes(), tombstones=True)
    assert [row[2] and bytes(row[2]) for row in read(raw, spark, planned, "value")][2:] == [b"\xff", None]
    pairs = replace(spout, scheme=KeyValue(key="name"), tombstones=True)
    assert read(pairs, spark, planned, "name", "value")[3] == ("0", 3, "k", None)


def test_a_value_that_is_no_object_is_failed_for_good_and_the_rest_goes_on(broker, topic, spark):
    one = topic()
    one.add(b"", b"  ", b"\t", '{"id": 1}{"id": 2}', "null", '{"id": 3}')
    spout = KafkaSpout(broker.servers, one.name, scheme=Json("id bigint"))
    bad = "not valid JSON for the schema: "
    assert read(spout, spark, plan(spout), "id", "_kind", "_error") == [
        ("0", 0, None, "reject", bad),
        ("0", 1, None, "reject", bad + "  "),
        ("0", 2, None, "reject", bad + "\t"),
        ("0", 3, None, "reject", bad + 'more follows the object: {"id": 1}{"id": 2}'),
        ("0", 4, None, "reject", bad + "null"),
        ("0", 5, 3, None, None),
    ]


def test_topics_may_have_columns_of_their_own_and_messages_their_metadata(broker, topic, spark):
    one, two = topic(), topic()
    one.add('{"id": 1}', headers=[("by", b"a"), ("by", b"\xff")], timestamp=1_000)
    two.add("text")
    schemes = {one.name: Json("id bigint"), two.name: Text("line")}
    spout = KafkaSpout(broker.servers, (one.name, two.name), schemes=schemes, metadata=True)
    found = spout.read_range(spark, plan(spout)).select(
        "id", "line", "topic", "offset", "timestamp", "headers"
    )
    rows = {row["topic"]: row.asDict() for row in found.collect()}
    assert (rows[one.name]["id"], rows[one.name]["line"], rows[two.name]["line"]) == (1, None, "text")
    assert {name: bytes(value) for name, value in rows[one.name]["headers"].items()} == {"by": b"\xff"}
    assert rows[one.name]["timestamp"].timestamp() == 1
    assert spout.message_schema(spark).names == [
        "id",
        "topic",
        "partition",
        "offset",
        "timestamp",
        "key",
        "headers",
        "line",
    ]


def test_what_is_unread_is_counted_and_its_age_is_told(broker, topic):
    one = topic(partitions=2)
    one.add("a", timestamp=2_000_000)
    one.add("b", "c", partition=1, timestamp=1_000_000)
    spout = KafkaSpout(broker.servers, one.name)
    ends = {f"{one.name}-0": 1, f"{one.name}-1": 2}
    oldest = datetime.fromtimestamp(1_000, UTC)
    assert spout.backlog(NEW) == Backlog({"offsets": 3}, oldest, ends=ends)
    assert spout.backlog(after(plan(spout, limit=2))) == Backlog({"offsets": 1}, oldest, ends=ends)
    assert spout.backlog(after(plan(spout))) == Backlog({}, ends=ends)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "topics or a pattern"),
        ({"topics": "a", "pattern": "b"}, "topics or a pattern"),
        ({"topics": "a", "start": datetime(2026, 1, 1)}, "has no time zone"),
        ({"topics": "a", "max_behind": 0}, "max_behind is 0"),
    ],
)
def test_what_does_not_fit_together_is_refused(given, said):
    with pytest.raises(SourceError, match=said):
        KafkaSpout("127.0.0.1:9", **given)
