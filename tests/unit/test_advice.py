"""What a topology is told that can be run and is hardly meant."""

import pytest

from acker.spouts import DeltaSpout
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


@pytest.mark.parametrize("function", [yields, returns, may_return, raises, print])
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
