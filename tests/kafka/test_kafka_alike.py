"""A KafkaTarget and a KafkaBolt send the same: text, JSON, and to which partition."""

import json

import pytest
from pyspark.sql import functions as F

from acker import Count, KafkaBolt, KafkaTarget, Topology, TopologyError
from acker.core.retry import ExponentialBackoff
from acker.operations.cycle import run_cycle
from acker.reports.audit import audit_report
from acker.spouts import DeltaSpout
from tests.kit.received import received

VALUES = {  # column -> SQL, and what it is in JSON
    "nan": ("double('NaN')", "NaN"),
    "most": ("float('-Infinity')", "-Infinity"),
    "large": ("1e20D", 1e20),
    "small": ("cast('0.0000000001' AS decimal(38,10))", 1e-10),
    "yes": ("true", True),
    "nothing": ("cast(null AS int)", None),
    "raw": ("x'00ff'", "AP8="),
    "day": ("date'0123-12-31'", "0123-12-31"),
    "at": ("timestamp'2026-01-01 00:00:00.123456'", "2026-01-01T00:00:00.123456Z"),
    "whole": ("timestamp'2026-01-01 00:00:00'", "2026-01-01T00:00:00.000Z"),
    "local": ("timestamp_ntz'2026-01-01 00:00:00.000001'", "2026-01-01T00:00:00.000001"),
    "text": ("'ü \"\\n\\u2028'", 'ü "\n\u2028'),
    "by_day": (
        "map(date'2026-01-01', timestamp'2026-01-01 00:00:00.5')",
        {"2026-01-01": "2026-01-01T00:00:00.500Z"},
    ),
    "by_time": ("map(timestamp'2026-01-01 00:00:00.123456', 1)", {"2026-01-01T00:00:00.123456Z": 1}),
    "by_bytes": ("map(x'00ff', 1)", {"AP8=": 1}),
    "by_number": ("map(1, map(true, cast(null as string)))", {"1": {"true": None}}),
    "by_pair": ("map(named_struct('a', 1), 1)", {'{"a":1}': 1}),
    "nested": (
        "array(named_struct('at', timestamp'2026-01-01 00:00:00.000001', 'x', cast(null AS int)), null)",
        [{"at": "2026-01-01T00:00:00.000001Z", "x": None}, None],
    ),
}


def strictly(text):
    """What JSON says, of which NaN and Infinity are no part."""

    def refuse(name):
        raise AssertionError(name)

    return json.loads(text, parse_constant=refuse)


def sending(place, broker, there, here, **options):
    """A topology that publishes a stream to one topic, and sends it to another before the ack."""
    topology = Topology("alike", retry=ExponentialBackoff(limit=0))
    lines = topology.spout("lines", DeltaSpout(place.path("lines"), key="id"))

    @topology.bolt(lines)
    def typed(tuples):
        return tuples.select("anchor", "id", *(F.expr(sql).alias(name) for name, (sql, _) in VALUES.items()))

    topology.publish(typed, to=KafkaTarget(broker.servers, there.name, **options))
    sent = type("Sent", (KafkaBolt,), {"servers": broker.servers, "topic": here.name, **options})
    topology.rich_bolt(typed, schema="", name="sent")(sent)
    return place.run(topology)


def test_a_target_and_a_bolt_send_the_same_json_and_python_parses_it_strictly(place, broker, topic):
    there, here = topic(), topic()
    place.add("lines", id=[1])
    run_cycle(sending(place, broker, there, here))
    (published,), (sent,) = (received(broker.servers, one.name) for one in (there, here))
    assert published[1] == sent[1]
    assert strictly(sent[1]) == {"id": 1, **{name: value for name, (_, value) in VALUES.items()}}


@pytest.mark.parametrize(
    ("column", "text"), [("yes", "true"), ("at", "2026-01-01 00:00:00.123456"), ("large", "1.0E20")]
)
def test_a_target_and_a_bolt_send_a_column_as_the_same_text(column, text, place, broker, topic):
    there, here = topic(), topic()
    place.add("lines", id=[1])
    run_cycle(sending(place, broker, there, here, key=column, value=column))
    found = [received(broker.servers, one.name)[0][:2] for one in (there, here)]
    assert found == [(text, text), (text, text)]


def test_keys_go_to_the_partitions_that_javas_producers_choose(place, broker, topic):
    there, here = topic(partitions=3), topic(partitions=3)
    place.add("lines", id=[*range(21, 27)])
    run_cycle(sending(place, broker, there, here, key="id", partitioner="murmur2_random"))
    for one in (there, here):
        found = received(broker.servers, one.name, 3)
        assert [key for key, _, _ in found] == [str(n) for n in sorted(range(21, 27), key=javas)]


def javas(number):
    """The one of 3 partitions that Java's producer chooses for a key, and then the key's own order."""
    return (murmur2(str(number).encode()) & 0x7FFFFFFF) % 3, number


def murmur2(data):
    """As org.apache.kafka.common.utils.Utils has it."""
    m, mask = 0x5BD1E995, 0xFFFFFFFF
    h = 0x9747B28C ^ len(data)
    for first in range(0, len(data) // 4 * 4, 4):
        k = int.from_bytes(data[first : first + 4], "little") * m & mask
        k = (k ^ k >> 24) * m & mask
        h = h * m & mask ^ k
    rest = data[len(data) // 4 * 4 :]
    if rest:
        h = (h ^ int.from_bytes(rest, "little")) * m & mask
    h = (h ^ h >> 13) * m & mask
    return h ^ h >> 15


def test_a_partitioner_that_is_none_is_refused_with_those_that_are():
    with pytest.raises(TopologyError, match=r"has the partitioner 'murmur', .* it has consistent_random, "):
        KafkaTarget("s", "t", partitioner="murmur")


@pytest.mark.parametrize("is_counted", [False, True], ids=["rows", "an aggregate"])
def test_a_compacted_topic_gets_no_record_without_a_key_whose_message_fails(is_counted, place, broker, topic):
    one = topic(cleanup_policy="compact")
    topology = Topology("keyed", retry=ExponentialBackoff(limit=0))
    lines = topology.spout("lines", DeltaSpout(place.add("lines", id=[1, 2], k=["a", None]), key="id"))
    target = KafkaTarget(broker.servers, one.name, key="k")
    if is_counted:
        topology.publish(lines, place.path("t"), by="k", aggregates={"n": Count()}, topic=target)
    else:
        topology.publish(lines, target)
    run = place.run(topology)
    run_cycle(run)
    found = audit_report(run.topology, run.store)
    assert [letter.why for letter in found.dead_letters] == [
        f"attempt 1 in lines: topic {one.name} is compacted by key, and the record has none"
    ]
    assert ([key for key, _, _ in received(broker.servers, one.name)], found.verdict) == (["a"], "pass")
