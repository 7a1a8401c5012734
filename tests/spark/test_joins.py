"""Tuples of several messages in DataFrame and basic bolts: all succeed together, or all are tried again."""

import pytest
from pyspark.sql import functions as F

from acker.batches.batch import finish
from acker.components.anchors import collect_anchors, fail_when, merge_anchors
from acker.core.errors import BoltError
from acker.core.events import State
from acker.core.retry import ExponentialBackoff
from acker.operations.cycle import run_bolt, run_cycle, run_spout
from acker.operations.fold import fold
from acker.operations.publish import publish
from acker.operations.replay import plan_by_hand
from acker.operations.selection.matching import select_recorded
from acker.operations.selection.selection import Selection
from acker.reports.audit import audit_report
from acker.spouts import DeltaSpout
from acker.topology.topology import Topology

BY_TASKS = True  # see `conftest`


@pytest.fixture
def joined(place):
    """Orders and payments joined, summed up by customer, and spelled out; an order of 3 fails once."""
    orders = place.add("orders", id=[1, 2, 3, 4], customer=["ann", "bob", "bob", "eve"])
    payments = place.add("payments", id=[1, 2, 3], cents=[100, 200, 300])
    topology = Topology("joined", retry=ExponentialBackoff(initial_seconds=10))
    orders = topology.spout("orders", DeltaSpout(orders, key="id"))
    payments = topology.spout("payments", DeltaSpout(payments, key="id"))
    outage = place.folder / "outage"
    outage.touch()

    @topology.bolt(orders, payments)
    def paid(orders, payments):
        theirs = payments.withColumnRenamed("anchor", "payment")
        both = orders.join(theirs, "id", "left")
        return both.select(
            merge_anchors("anchor", "payment"), "id", "customer", F.coalesce("cents", F.lit(0)).alias("cents")
        )

    @topology.bolt(paid)
    def customers(tuples):
        sums = tuples.groupBy("customer").agg(collect_anchors(), F.sum("cents").alias("cents"))
        return sums.select(
            "anchor",
            "customer",
            "cents",
            fail_when((F.col("customer") == "bob") & F.lit(outage.exists()), "down"),
        )

    @topology.basic_bolt(customers, schema="line string")
    def spelled(tup):
        yield (f"{tup.customer} paid {tup.cents}",)

    @topology.bolt(orders, paid)
    def seen(ordered, paid):
        return ordered.select("anchor", "id").unionByName(paid.select("anchor", "id"))

    topology.publish(seen, to=place.path("seen"))
    topology.publish(paid, to=place.path("paid"))
    topology.publish(spelled, to=place.path("lines"))
    return place.run(topology), outage


@pytest.mark.extended
def test_messages_whose_tuples_were_joined_fail_together_and_are_published_together(joined, place, states):
    run, outage = joined
    run_cycle(run)
    assert place.rows("paid") == [(1, "ann", 100), (4, "eve", 0)]
    assert place.rows("lines") == [("ann paid 100",), ("eve paid 0",)]
    failed = (
        [(2, 1, "failed")] * 2 + [(2, 2, "retrying")] * 2 + [(3, 1, "failed")] * 2 + [(3, 2, "retrying")] * 2
    )
    assert [state for state in states(run) if state[0] in (2, 3)] == failed
    outage.unlink()
    place.clock.advance(10)
    run_cycle(run)
    assert place.rows("paid") == [(1, "ann", 100), (2, "bob", 200), (3, "bob", 300), (4, "eve", 0)]
    assert place.rows("lines") == [("ann paid 100",), ("bob paid 500",), ("eve paid 0",)]
    assert place.rows("seen") == sorted(2 * [(1,), (2,), (3,), (4,)])
    assert audit_report(run.topology, run.store).passed


@pytest.mark.thorough
def test_what_was_acked_together_is_replaced_together_or_not_at_all(joined, place, states):
    run, outage = joined
    outage.unlink()
    run_cycle(run)
    paid, lines = place.rows("paid"), place.rows("lines")
    bob = Selection(states=(State.ACKED,), spout="orders", positions=(("0", 2),))
    matched, batches = plan_by_hand(run, bob, "why", "me")
    assert matched.count == 4
    assert [
        select_recorded(run.topology, run.snapshot(), matched.emissions.head(n)).count for n in (3, 4)
    ] == [0, 4]
    for batch in batches:  # of which one is folded, and runs through the bolts, before the other is emitted
        finish(run, batch)
        for bolt in run.topology.bolts:
            run_bolt(run, bolt)
        fold(run)
        publish(run)
        assert (place.rows("paid"), place.rows("lines")) == (paid, lines) or batch == batches[-1]
    assert {state for _, attempt, state in states(run) if attempt == 2} == {"acked"}
    assert audit_report(run.topology, run.store).passed


@pytest.mark.extended
def test_branches_of_a_message_are_joined_however_many_batches_wait_of_each(place):
    topology = Topology("branches", batch_rows=2)
    numbers = topology.spout("numbers", DeltaSpout(place.add("numbers", id=[1, 2, 3, 4, 5, 6]), key="id"))
    same = topology.bolt(numbers, name="same")(lambda tuples: tuples)

    @topology.bolt(numbers)
    def thrice(tuples):
        return tuples.select("anchor", "id", F.explode(F.array(*map(F.lit, range(3)))).alias("n"))

    @topology.bolt(same, thrice)
    def both(same, thrice):
        return thrice.join(same.drop("anchor"), "id")

    topology.publish(both, to=place.path("both"))
    run = place.run(topology)
    for _ in range(3):  # of the join's two inputs more and more waits
        run_spout(run, numbers, replays=False)
        run_bolt(run, same)
        run_bolt(run, thrice)
    run_cycle(run)
    assert place.rows("both") == [(number, n) for number in range(1, 7) for n in range(3)]
    assert audit_report(run.topology, run.store).passed


@pytest.mark.extended
def test_an_anchor_of_nobody_is_refused(place):
    topology = Topology("nobody")
    left = topology.spout("left", DeltaSpout(place.add("left", id=[1]), key="id"))
    right = topology.spout("right", DeltaSpout(place.add("right", id=[2]), key="id"))

    @topology.bolt(left, right)
    def outer(left, right):
        both = left.join(right.withColumnRenamed("anchor", "other"), "id", "full")
        return both.select("anchor", "id")

    with pytest.raises(BoltError, match="Bolt outer emitted a row whose anchor is none of its inputs"):
        run_cycle(place.run(topology))


@pytest.mark.thorough
def test_messages_whose_tuples_raise_where_they_meet_fail_and_no_others(place, states):
    orders = place.add("orders", id=list(range(1, 9)), key=[1, 2, 3, 4, 5, 6, 7, 8])
    payments = place.add("payments", id=list(range(11, 19)), key=[2, 1, 4, 3, 6, 5, 8, 9])
    topology = Topology("met", message_timeout=None, retry=ExponentialBackoff(limit=0))
    orders = topology.spout("orders", DeltaSpout(orders, key="id"))
    payments = topology.spout("payments", DeltaSpout(payments, key="id"))

    @topology.bolt(orders, payments)
    def paid(orders, payments):
        theirs = payments.select(F.col("anchor").alias("payment"), "key", F.col("id").alias("paid_by"))
        both = orders.join(theirs, "key", "left")
        share = F.expr("key / CASE WHEN paid_by IS NULL THEN 1 WHEN key IN (2, 3, 6) THEN 0 ELSE 1 END")
        return both.select(merge_anchors("anchor", "payment"), "key", share.alias("share"))

    topology.publish(paid, to=place.path("paid"))
    run = place.run(topology)
    run_cycle(run)
    dead = [offset for offset, _, state in states(run) if state == "dead_letter"]
    assert sorted(dead) == [2, 3, 6, 11, 14, 15]
    assert [row[0] for row in place.rows("paid")] == [1, 4, 5, 7, 8]
    assert audit_report(run.topology, run.store).passed
