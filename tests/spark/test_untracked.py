"""Reliability off: tuples of no message, which are published once and fail nobody."""

from datetime import timedelta

import pytest
from pyspark.sql import functions as F

from acker.components.anchors import fail_when
from acker.components.collector import RichBolt
from acker.operations.cycle import run_cycle
from acker.operations.maintenance.trim import trim_streams
from acker.reports.audit import audit_report
from acker.reports.status import status_report
from acker.spouts import DeltaSpout
from acker.targets.functions import Sum
from acker.topology.topology import Topology


def doubling(place, **settings):
    """Numbers, of which 3 fails, doubled, published, and added up."""
    topology = Topology("doubling", **settings.pop("topology", {}))
    numbers = topology.spout("numbers", DeltaSpout(place.path("numbers"), key="id"), **settings)

    @topology.bolt(numbers)
    def doubled(tuples):
        return tuples.select("anchor", (F.col("id") * 2).alias("id"), fail_when(F.col("id") == 3, "three"))

    @topology.bolt(doubled)
    def total(tuples):
        return tuples.select("anchor", "id", F.lit("all").alias("what"))

    topology.publish(doubled, to=place.path("doubled"))
    topology.publish(total, to=place.path("total"), by="what", aggregates={"sum": Sum("id")})
    return place.run(topology)


def check_published(place, run, doubled):
    assert place.rows("doubled") == [(number,) for number in doubled]
    assert place.rows("total") == [("all", sum(doubled))]
    assert audit_report(run.topology, run.store).passed


@pytest.mark.extended
def test_a_topology_without_reliability_publishes_what_was_emitted(place, states):
    place.add("numbers", id=[1, 2, 3])
    run = doubling(place, topology={"reliable": False})
    run_cycle(run)
    run_cycle(run)
    place.add("numbers", id=[4])
    run_cycle(run)
    assert states(run) == []
    check_published(place, run, [2, 4, 8])
    (position,) = status_report(run.topology, run.store, place.clock())["positions"]
    assert (position["emitted_upto"], position["committed_upto"]) == (5, 5)


def test_a_message_may_be_untracked(place, states):
    place.add("numbers", id=[1, 2, 3, 4])
    run = doubling(place, reliable="id % 2 = 0")
    run_cycle(run)
    assert states(run) == [(2, 1, "acked"), (4, 1, "acked")]
    check_published(place, run, [2, 4, 8])


class Pair(RichBolt):
    """Emits every second tuple with the one before it."""

    def prepare(self, context):
        self.first = None

    def execute(self, tup, collector):
        if self.first is None:
            self.first = tup
            return
        collector.emit(tup, {"left": self.first.id, "right": tup.id})
        collector.ack(self.first)
        collector.ack(tup)
        self.first = None


@pytest.mark.extended
def test_what_is_held_back_is_not_trimmed_although_nobody_tracks_it(place):
    topology = Topology("loose", reliable=False)
    numbers = topology.spout("numbers", DeltaSpout(place.add("numbers", id=[1]), key="id"))
    pairs = topology.rich_bolt(numbers, schema="left bigint, right bigint")(Pair)
    topology.publish(pairs, to=place.path("pairs"))
    run = place.run(topology)
    run_cycle(run)
    place.clock.advance(60)
    assert trim_streams(run, timedelta(0)) == {}
    place.add("numbers", id=[2])
    run_cycle(run)
    assert place.rows("pairs") == [(1, 2)]
    place.clock.advance(60)
    assert trim_streams(run, timedelta(0)) == {"numbers": 2, "pair": 2}


def test_a_bolt_may_emit_what_belongs_to_no_message(place, states):
    topology = Topology("loose")
    numbers = topology.spout("numbers", DeltaSpout(place.add("numbers", id=[1, 2]), key="id"))

    @topology.bolt(numbers, anchored=False)
    def counted(tuples):
        return tuples.agg(F.count("*").alias("n"))

    class Half(RichBolt):
        def execute(self, tup, collector):
            collector.emit(tup if tup.id == 1 else None, {"id": tup.id})
            if tup.id == 1:
                collector.fail(tup)
            else:
                collector.ack(tup)

    half = topology.rich_bolt(numbers, schema="id bigint")(Half)
    topology.publish(counted, to=place.path("counted"))
    topology.publish(half, to=place.path("half"))
    run = place.run(topology)
    run_cycle(run)
    assert states(run) == [(1, 1, "failed"), (1, 2, "retrying"), (2, 1, "acked")]
    assert place.rows("counted") == [(2,)]
    assert place.rows("half") == [(2,)]
