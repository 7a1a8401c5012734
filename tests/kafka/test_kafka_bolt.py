"""Sending within a topology: acked by the brokers' word, failed by it, held where nobody answers."""

import pytest

from acker import Topology
from acker.components.kafka_bolt import KafkaBolt
from acker.core.store.tables import query
from acker.operations.cycle import run_cycle
from acker.reports.audit import audit_report
from acker.spouts import DeltaSpout
from tests.kit.received import received


def sending(place, broker, **attributes):
    """A topology whose only bolt sends the rows of a table; attributes are those of the bolt's class."""
    topology = Topology("sending")
    numbers = topology.spout("numbers", DeltaSpout(place.path("numbers"), key="n"))
    bolt = type("Sent", (KafkaBolt,), {"servers": broker.servers, **attributes})
    topology.rich_bolt(numbers, schema="", name="sent")(bolt)
    return place.run(topology)


def states(run):
    found = query(
        "SELECT state, reason FROM ledger WHERE root_id IS NOT NULL AND live_in IS NULL "
        "ORDER BY source_offset",
        ledger=run.store.require("ledger"),
    )
    return [(row["state"], row["reason"]) for row in found]


def test_a_tuple_is_acked_when_the_brokers_have_it(place, broker, topic):
    one = topic()
    place.add("numbers", n=[1, 2], word=["x", "y"])
    run = sending(place, broker, topic=one.name, key="n")
    run_cycle(run)
    assert received(broker.servers, one.name) == [
        ("1", '{"n":1,"word":"x"}', {}),
        ("2", '{"n":2,"word":"y"}', {}),
    ]
    assert states(run) == [("acked", None), ("acked", None)]
    assert audit_report(run.topology, run.store).passed


def test_topic_key_and_value_are_methods_where_a_class_gives_them(place, broker, topic):
    name = topic().name
    place.add("numbers", n=[1, 2])
    run = sending(
        place,
        broker,
        topic_of=lambda self, tup: name if tup.n == 1 else None,
        value_of=lambda self, tup: f"number {tup.n}",
    )
    run_cycle(run)
    assert received(broker.servers, name) == [(None, "number 1", {})]
    assert states(run) == [("acked", None), ("acked", None)]


def test_what_the_brokers_do_not_take_fails_its_message(place, broker, topic):
    one = topic()
    place.add("numbers", n=[1, 2], word=["x", "y" * 2_000_000])
    run = sending(place, broker, topic=one.name, value="word")
    run_cycle(run)
    assert received(broker.servers, one.name) == [(None, "x", {})]
    assert [state for state, _ in states(run)] == ["acked", "failed"]
    assert states(run)[1][1].startswith("Kafka does not take it: ")


@pytest.mark.thorough
def test_where_no_broker_answers_the_batch_is_held_and_no_message_fails(place, broker, topic):
    place.add("numbers", n=[1])
    nowhere = sending(place, broker, topic="t", settings=lambda self: {"bootstrap.servers": "127.0.0.1:1"})
    with pytest.raises(Exception, match="gave no answer in 30 s"):
        run_cycle(nowhere)
    one = topic()
    run = sending(place, broker, topic=one.name)
    place.clock.advance(3_600)
    run_cycle(run)
    assert received(broker.servers, one.name) == [(None, '{"n":1}', {})]
    assert states(run) == [("acked", None)]


def test_fire_and_forget_acks_without_waiting(place, broker):
    place.add("numbers", n=[1])
    run = sending(
        place,
        broker,
        topic="t",
        fire_and_forget=True,
        settings=lambda self: {"bootstrap.servers": "127.0.0.1:1", "message.timeout.ms": 100},
    )
    run_cycle(run)
    assert states(run) == [("acked", None)]
