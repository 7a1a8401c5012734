"""Bolts that come, go and read something else: what is published, held back, trimmed, and not yet there."""

from datetime import timedelta

import pytest

from acker.components.collector import RichBolt
from acker.operations.cycle import drain, run_cycle
from acker.operations.fold import fold
from acker.operations.maintenance.compact import compact, vacuum
from acker.operations.maintenance.trim import trim_streams
from acker.operations.publish import publish
from acker.reports.audit import audit_report
from acker.spouts import DeltaSpout
from acker.topology.topology import Topology
from tests.kit.changing import (
    AGAIN,
    CHAIN,
    REMOVED,
    SPARK,
    advance,
    build,
    failed,
)


@pytest.fixture
def pending(place):
    """Numbers 1 and 2, which have passed `tens` and wait for `hundreds`."""
    place.add("numbers", id=[1, 2])
    run = place.run(build(SPARK, place, CHAIN, published="hundreds"))
    advance(run, "numbers", "tens")
    return run


@pytest.mark.extended
def test_a_published_bolt_that_was_renamed_publishes_on_to_its_table(place, pending):
    drain(pending)
    run = place.run(build(SPARK, place, {"tens": ("numbers",), "totals": ("tens",)}, published="totals"))
    drain(run)
    assert audit_report(run.topology, run.store).passed
    place.add("numbers", id=[3])
    drain(run)
    assert place.rows("out") == [(111,), (112,), (10_013,)]
    found = audit_report(run.topology, run.store)
    assert (found.passed, found.unpublished) == (True, 0)


@pytest.mark.extended
def test_a_bolt_that_reads_one_more_stream_takes_what_waited_before_that_has_a_row(place, pending, states):
    wider = {"tens": ("numbers",), "sums": ("numbers",), "hundreds": ("tens", "sums")}
    run = place.run(build(SPARK, place, wider, published="hundreds"))
    run_cycle(run)
    assert (states(run), place.rows("out")) == ([(1, 1, "acked"), (2, 1, "acked")], [(111,), (112,)])
    place.add("numbers", id=[3])
    run_cycle(run)
    assert place.rows("out") == [(111,), (112,), (113,), (1_103,)]


@pytest.mark.extended
def test_a_bolt_that_reads_a_spout_without_messages_goes_on(place, pending):
    place.add("others", id=[1])
    place.spark.sql(f"DELETE FROM delta.`{place.path('others')}`")
    wider = {"tens": ("numbers",), "hundreds": ("tens", "others")}
    run = place.run(build(SPARK, place, wider, published="hundreds", spouts=("numbers", "others")))
    run_cycle(run)
    assert place.rows("out") == [(111,), (112,)]


class Keeper(RichBolt):
    """Holds back every tuple that it is given."""

    def execute(self, tup, collector):
        collector.emit(tup, {"id": tup.id}, stream="seen")


@pytest.mark.extended
def test_what_a_bolt_that_is_gone_held_back_fails_and_so_does_what_waited_for_its_streams(place, states):
    place.add("numbers", id=[1, 2])
    topology = Topology("changing", message_timeout=None)
    numbers = topology.spout("numbers", DeltaSpout(place.path("numbers"), key="id"))
    keeper = topology.rich_bolt(numbers, schema="id bigint", streams={"seen": "id bigint"})(Keeper)
    topology.bolt(keeper.stream("seen"), name="hundreds")(SPARK.adding(100))
    advance(place.run(topology), "numbers", "keeper")
    run = place.run(build(SPARK, place, {"tens": ("numbers",)}, published="tens"))
    drain(run)
    assert failed(run) == [
        ("hundreds", 1, REMOVED, 2),
        ("keeper", 2, "bolt keeper is no longer in the topology", 2),
    ]
    assert (states(run), place.rows("out")) == (AGAIN, [(11,), (12,)])


def test_what_was_acked_before_a_change_is_published_after_it(place, pending):
    advance(pending, "hundreds")
    fold(pending)
    run = place.run(build(SPARK, place, {"hundreds": ("numbers",)}, published="hundreds"))
    place.add("numbers", id=[3])
    drain(run)
    publish(run)
    assert place.rows("out") == [(103,), (111,), (112,)]
    assert audit_report(run.topology, run.store).passed


@pytest.mark.thorough
def test_streams_of_components_that_are_gone_are_trimmed_and_hold_nothing(place, pending):
    place.add("others", id=[1])
    spouts = ("numbers", "others")
    both = {**CHAIN, "sums": ("others", "tens")}
    drain(place.run(build(SPARK, place, both, published="hundreds", spouts=spouts)))
    place.add("numbers", id=[3])
    advance(pending, "numbers", "tens")
    run = place.run(build(SPARK, place, {"tens": ("numbers",), "totals": ("tens",)}, published="totals"))
    drain(run)
    place.clock.advance(2 * 86_400)
    place.add("numbers", id=[4])
    drain(run)
    gone = trim_streams(run, timedelta(days=1))
    assert gone == {"numbers": 3, "others": 1, "tens": 3, "hundreds": 2, "sums": 1, "totals": 1}
    compact(run)
    assert "streams/sums" in vacuum(run, 168)
    place.add("numbers", id=[5])
    drain(run)
    assert place.rows("out") == [(111,), (112,), (10_013,), (10_014,), (10_015,)]
