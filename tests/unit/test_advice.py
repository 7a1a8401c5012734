"""What a topology is told that can be run and is hardly meant."""

from functools import partial, partialmethod

import pytest

from acker.components.collector import RichBolt
from acker.spouts import DeltaSpout
from acker.spouts.kafka.spout import KafkaSpout
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


class Forgets(RichBolt):
    def execute(self, tup, collector):
        if tup.item is None:
            raise ValueError("no item")
        collector.emit(tup, {"item": tup.item})
        self.kept = [each for each in (tup,)]

    def finish_batch(self, collector):
        collector.emit(None, {"item": "all"})


class ForgetsToo(Forgets):
    def prepare(self, context):
        self.seen = context.batch


class Acks(RichBolt):
    def execute(self, tup, collector):
        collector.ack(tup)


class AcksAtTheEnd(RichBolt):
    def execute(self, tup, collector):
        self.waiting.append(tup)

    def finish_batch(self, collector):
        for each in self.waiting:
            collector.ack(each)


class AcksByName(RichBolt):
    def execute(self, tup, collector):
        getattr(collector, "ack")(tup)  # noqa: B009


class AcksInherited(Acks):
    def prepare(self, context):
        self.seen = context.batch


class FailsAlone(RichBolt):
    def execute(self, tup, collector):
        collector.fail(tup)


class HandsOn(RichBolt):
    def execute(self, tup, collector):
        helped(tup, collector)


class HandsOnByKeyword(RichBolt):
    def execute(self, tup, collector):
        helped(collector=collector, row=tup)


class KeepsIt(RichBolt):
    def execute(self, tup, collector):
        self.collector = collector


class HasIt(RichBolt):
    def execute(self, tup, collector):
        return [collector for _ in tup]


class LendsIt(RichBolt):
    def execute(self, tup, collector):
        return lambda: helped(collector)


class OnlyRaises(RichBolt):
    def execute(self, tup, collector):
        raise ValueError(tup)


class Wrapped(RichBolt):
    execute = partialmethod(helped)


def advised_of_rich(factory):
    topology = Topology("shop")
    orders = topology.spout("orders", DeltaSpout("orders", key="id"))
    words = topology.rich_bolt(orders, schema="item string", name="words")(factory)
    topology.publish(words, to="words")
    return advice(topology)


@pytest.mark.parametrize("factory", [Forgets, ForgetsToo, partial(Forgets)])
def test_a_rich_bolt_whose_code_can_neither_ack_nor_fail_is_told(factory):
    assert advised_of_rich(factory) == [
        "Bolt words neither acks nor fails any tuple, so its messages are never complete: "
        "call collector.ack(tup) when a tuple is done."
    ]


SETTLING = [Acks, AcksAtTheEnd, AcksByName, AcksInherited, FailsAlone, OnlyRaises]
MAY_SETTLE = [HandsOn, HandsOnByKeyword, KeepsIt, HasIt, LendsIt, Wrapped, lambda: Forgets()]


@pytest.mark.parametrize("factory", [*SETTLING, *MAY_SETTLE])
def test_a_rich_bolt_that_may_settle_its_tuples_is_left_alone(factory):
    assert advised_of_rich(factory) == []
