"""What an author's tests are told of bolts and topologies, with the author's code in this file."""

from datetime import UTC, datetime

import pytest
from pyspark.sql import functions as F

from acker import (
    Count,
    DeltaSpout,
    ExponentialBackoff,
    FileSpout,
    RichBolt,
    Target,
    Topology,
    fail_when,
    merge_anchors,
)
from acker.core.errors import SettingsError
from acker.testing import Failure, run_bolt, run_topology

pytestmark = pytest.mark.extended

CENTS = {"tea": 300, "milk": 120}

shop = Topology("shop", retry=ExponentialBackoff(initial_seconds=3600, limit=1))
orders = shop.spout("orders", FileSpout("/nowhere", format="json", schema="id bigint, items string"))
payments = shop.spout("payments", DeltaSpout("/nowhere", key="id"))


@shop.bolt(orders)
def items(tuples):
    """Take an order apart."""
    empty = fail_when(F.col("items").isNull(), "an order without items")
    item = F.explode_outer(F.split("items", ",")).alias("item")
    return tuples.select("anchor", "id", item, empty)


@shop.basic_bolt(items, schema="id bigint, item string, cents bigint")
def priced(tup):
    yield tup.id, tup.item, CENTS[tup.item]


@shop.bolt(orders, payments)
def matched(orders, payments):
    both = orders.alias("o").join(payments.alias("p"), "id")
    wrong = fail_when(F.col("cents") < 0, "paid below nothing")
    return both.select(merge_anchors("o.anchor", "p.anchor"), "id", "cents", wrong)


@shop.rich_bolt(
    orders.fields_grouping("id"),
    payments.fields_grouping("id"),
    schema="id bigint, cents bigint",
    streams={"free": "id bigint"},
)
class Paid(RichBolt):
    """Wait for an order's payment, and for a payment's order."""

    def prepare(self, context):
        self.waiting = {}

    def execute(self, tup, collector):
        other = self.waiting.pop(tup.id, None)
        if other is None:
            self.waiting[tup.id] = tup
            return
        both = [other, tup]
        payment = next(each for each in both if each.component == "payments")
        if payment.cents:
            collector.emit(both, (tup.id, payment.cents))
        else:
            collector.emit(both, {"id": tup.id}, stream="free")
        for each in both:
            collector.ack(each)


@shop.bolt(Paid, Paid.stream("free"))
def done(paid, free):
    return paid.select("anchor", "id").unionByName(free.select("anchor", "id"))


def test_a_dataframe_bolt_emits_in_the_order_of_its_rows_and_fails_those_that_it_refuses(spark):
    none = {"id": 2, "items": None}
    rows = [{"id": 3, "items": "tea,milk,bread"}, none, none, {"id": 1, "items": "milk"}]
    result = run_bolt(items, rows, spark=spark)
    assert result.rows == [
        {"id": 3, "item": "tea"},
        {"id": 3, "item": "milk"},
        {"id": 3, "item": "bread"},
        {"id": 1, "item": "milk"},
    ]
    assert result.failures == [Failure(none, "an order without items")] * 2
    assert (result.held, result.streams) == ([], {})


def test_a_basic_bolt_fails_the_rows_at_which_it_raises(spark):
    result = run_bolt(priced, [{"id": 1, "item": "tea"}, {"id": 2, "item": "wine"}], spark=spark)
    assert result.rows == [{"id": 1, "item": "tea", "cents": 300}]
    assert result.failures == [Failure({"id": 2, "item": "wine"}, "KeyError: 'wine'")]


def test_rows_that_are_joined_fail_together(spark):
    rows = {"orders": [{"id": 1}, {"id": 2}], "payments": [{"id": 2, "cents": -1}, {"id": 1, "cents": 5}]}
    result = run_bolt(matched, rows, spark=spark)
    assert result.rows == [{"id": 1, "cents": 5}]
    why = "paid below nothing"
    assert result.failures == [Failure({"id": 2}, why), Failure({"id": 2, "cents": -1}, why)]


def test_a_rich_bolt_tells_what_it_holds_back_and_what_it_emits_to_each_stream(spark):
    rows = {
        "orders": [{"id": 3}, {"id": 2}, {"id": 1}],
        "payments": [{"id": 1, "cents": 5}, {"id": 2, "cents": 0}, {"id": 4, "cents": 7}],
    }
    result = run_bolt(Paid, rows, spark=spark)
    assert result.rows == [{"id": 1, "cents": 5}]
    assert result.streams == {"free": [{"id": 2}]}
    assert result.held == [{"id": 3}, {"id": 4, "cents": 7}]
    assert result.failures == []


def test_a_bolt_may_read_several_streams_of_one_component(spark):
    result = run_bolt(done, {"paid.free": [{"id": 2}], "paid": [{"id": 1, "cents": 5}]}, spark=spark)
    assert result.rows == [{"id": 1}, {"id": 2}]
    schema = {"paid": "id bigint, cents bigint"}
    assert run_bolt(done, {"paid.free": [{"id": 2}]}, schema=schema, spark=spark).rows == [{"id": 2}]


def test_rows_may_hold_whatever_columns_may(spark):
    echo = Topology("echo").bolt("values", name="echo")(lambda tuples: tuples)
    noon = datetime(2026, 1, 1, 12, tzinfo=UTC)
    row = {"at": noon, "lines": [{"sku": "tea", "cents": 1.5}], "raw": b"\x00", "tags": {"a": 1}}
    ddl = "at timestamp, lines array<struct<sku:string,cents:double>>, raw binary, tags map<string,int>"
    assert run_bolt(echo, [row], schema=ddl, spark=spark).rows == [row]
    told = {name: value for name, value in row.items() if name != "tags"}
    assert run_bolt(echo, [told, {"more": True}], spark=spark).rows == [
        {**told, "more": None},
        {**dict.fromkeys(told), "more": True},
    ]


def test_rows_whose_types_are_not_known_are_refused(spark):
    with pytest.raises(SettingsError, match="type of column items of orders is not known"):
        run_bolt(items, [{"id": 1, "items": None}], spark=spark)
    with pytest.raises(SettingsError, match="type of column id of orders is not clear"):
        run_bolt(items, [{"id": 1}, {"id": "two"}], spark=spark)
    with pytest.raises(SettingsError, match="Row 1 of orders is 'tea'; give a dict"):
        run_bolt(items, ["tea"], spark=spark)
    with pytest.raises(SettingsError, match="There is no row of orders that tells its columns"):
        run_bolt(matched, {"payments": [{"id": 1, "cents": 5}]}, spark=spark)


def test_rows_that_do_not_fit_their_schema_are_refused(spark):
    with pytest.raises(SettingsError, match=r"schema of orders has no column 'item'\. Did you mean items\?"):
        run_bolt(items, [{"item": "tea"}], schema="id bigint, items string", spark=spark)
    with pytest.raises(SettingsError, match="The rows of orders do not fit their columns"):
        run_bolt(items, [{"id": "one"}], schema="id bigint, items string", spark=spark)
    with pytest.raises(SettingsError, match="The schema 'id number' of orders is no DDL"):
        run_bolt(items, [{"id": 1}], schema="id number", spark=spark)


def test_a_topology_publishes_acks_and_gives_up_and_its_own_tables_stay_as_they_are(spark, tmp_path):
    told = []
    topology = Topology("sales", retry=ExponentialBackoff(initial_seconds=3600, limit=1))
    topology.spout(
        "orders", FileSpout(str(tmp_path / "orders"), format="json", schema="id int, items string")
    )
    taken = topology.bolt("orders", name="items")(items.function)
    sold = topology.basic_bolt(taken, schema=priced.schema, name="priced")(priced.function)
    topology.publish(sold, to=str(tmp_path / "sales"))
    topology.publish(taken, to=str(tmp_path / "items"), by="item", aggregates={"n": Count()})
    topology.on_ack(told.append)
    before = {name: dict(value) for name, value in vars(topology).items() if isinstance(value, dict)}
    rows = [{"id": 2, "items": "tea,milk"}, {"id": 3}, {"id": 4, "items": "wine"}, {"id": 1, "items": "tea"}]
    result = run_topology(topology, {"orders": rows}, spark=spark)
    assert result.published == {
        "priced": [
            {"id": 2, "item": "tea", "cents": 300},
            {"id": 2, "item": "milk", "cents": 120},
            {"id": 1, "item": "tea", "cents": 300},
        ],
        "items": [{"item": "milk", "n": 1}, {"item": "tea", "n": 2}],
    }
    assert result.states == {"acked": 2, "dead_letter": 2}
    assert result.dead_letters == result.failures
    assert result.failures == [
        Failure({"id": 3}, "an order without items", "items"),
        Failure({"id": 4, "items": "wine"}, "KeyError: 'wine'", "priced"),
    ]
    after = {name: dict(value) for name, value in vars(topology).items() if isinstance(value, dict)}
    assert (after, told, list(tmp_path.iterdir())) == (before, [], [])


def test_what_fails_is_tried_again_at_once_and_at_most_so_often(spark):
    tries = []

    def flaky(tuples):
        tries.append(1)
        return tuples.select("anchor", "id", fail_when(F.lit(len(tries) % 3 > 0), "down"))

    topology = Topology("flaky", retry=ExponentialBackoff(initial_seconds=3600, limit=None))
    topology.bolt(topology.spout("numbers", DeltaSpout("/nowhere", key="id")))(flaky)
    result = run_topology(topology, {"numbers": [{"id": 1}]}, spark=spark)
    assert (result.states, result.dead_letters) == ({"acked": 1}, [])
    assert result.failures == [Failure({"id": 1}, "down", "flaky")]
    assert run_topology(topology, {"numbers": [{"id": 1}]}, retries=1, spark=spark).states == {
        "dead_letter": 1
    }
    assert len(tries) == 5


class Elsewhere(Target):
    """A place that a test must not reach."""

    uri = "elsewhere"
    pinned = position = violations = apply = audit = published_at = None


def test_messages_wait_for_those_of_a_spout_that_is_left_out_and_no_own_target_is_called(spark):
    topology = Topology("waiting")
    for name in ("orders", "payments"):
        topology.spout(name, DeltaSpout("/nowhere", key="id"))
    paid = topology.rich_bolt("orders", "payments", schema=Paid.schema, streams=Paid.further, name="paid")(
        Paid.factory
    )
    topology.publish(paid, to=Elsewhere())
    waiting = run_topology(topology, {"orders": [{"id": 1}]}, spark=spark)
    assert (waiting.states, waiting.published) == ({"pending": 1}, {"paid": []})
    inputs = {"orders": [{"id": 1}], "payments": [{"id": 1, "cents": 5}]}
    paid = run_topology(topology, inputs, spark=spark)
    assert (paid.states, paid.published) == ({"acked": 2}, {"paid": [{"id": 1, "cents": 5}]})
