"""What a topology is told that can be run and is hardly meant."""

import pytest

from acker.spouts import DeltaSpout
from acker.spouts.kafka import KafkaSpout
from acker.targets.kafka import KafkaTarget
from acker.topology.advice import advice
from acker.topology.topology import Topology


def yields(row):
    yield row


def returns(row):
    return [row]


def may_return(row):
    if row.id:
        return None
    return [row]


def raises(row):
    raise ValueError(row)


def forgets(row):
    {"id": row.id}  # noqa: B018


def gives_up(row):
    if row.id:
        return
    print(row)


def advised(function, publish=True):
    topology = Topology("shop")
    orders = topology.spout("orders", DeltaSpout("orders", key="id"))
    items = topology.basic_bolt(orders, schema="id bigint", name="items")(function)
    topology.publish(items if publish else orders, to="items")
    return advice(topology)


def helped(row):
    return returns(row) or None


def parted(row):
    return (each for each in [row])


def delegates(row):
    yield from returns(row)


def guarded(row):
    try:
        return returns(row)
    finally:
        print(row)


def opens(row):
    with open(row.path):
        return [row]


def matches(row):
    match row.id:
        case 1:
            return [row]
        case _:
            return None


OTHERS = [helped, parted, delegates, guarded, opens, matches]
OTHERS += [lambda row: [row], lambda row: (row.id and [row]) or None, lambda row: [row] if row.id else None]


@pytest.mark.parametrize("function", [yields, returns, may_return, raises, print, *OTHERS])
def test_a_bolt_that_may_emit_is_left_alone(function):
    assert advised(function) == []


@pytest.mark.parametrize("function", [forgets, gives_up])
def test_a_bolt_that_can_only_return_nothing_is_told_although_its_rows_are_published(function):
    assert advised(function) == ["Bolt items never emits a row: write `yield` before the row that it makes."]


def test_a_bolt_whose_rows_nobody_waits_for_need_not_emit_any():
    assert advised(forgets, publish=False) == []


def test_a_topology_that_publishes_nothing_is_told():
    topology = Topology("shop")
    topology.spout("orders", DeltaSpout("orders", key="id"))
    assert advice(topology) == [
        "Topology shop publishes nothing, so nobody sees what it makes: add topology.publish(bolt, to=...)."
    ]


def test_a_topology_that_reads_what_it_publishes_is_told_so(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    topology, apart = Topology("shop"), Topology("apart")
    for each, table, topic in ((topology, "orders", "b"), (apart, "others", "c")):
        orders = each.spout("orders", DeltaSpout("orders", key="id"))
        records = each.spout("records", KafkaSpout("localhost:9092", topics=("a", "b")))
        each.publish(orders, to=table)
        each.publish(records, to=KafkaTarget("localhost:9092", topic=topic))
    assert [each.partition(": what")[0] for each in advice(topology)] == [
        f"orders is published to {tmp_path}/orders, which spout orders reads",
        "records is published to kafka://localhost:9092/b, which spout records reads",
    ]
    assert advice(apart) == []
