"""Storm's own test cases against this system, each named after its case in Storm.

Storm's tests count the acks that a spout hears. Here a message whose tree is complete is acked by the next
fold, unless it shares a tuple with a message that is not: those are acked together.
"""

from collections import Counter
from functools import partial

import pytest
from deltalake import DeltaTable
from pyspark.sql import functions as F

from acker.components.anchors import fail_when
from acker.components.collector import RichBolt
from acker.core.errors import SettingsError
from acker.core.retry import ExponentialBackoff
from acker.core.snapshot.ledger import newest_fold
from acker.core.store.tables import query
from acker.operations.cycle import run_cycle, run_spout
from acker.operations.fold import fold
from acker.reports.status import status_report
from acker.spouts import DeltaSpout
from acker.topology.topology import Topology


class Identity(RichBolt):
    """Emits each tuple again."""

    def execute(self, tup, collector):
        collector.emit(tup, tup.values)
        collector.ack(tup)


class Branching(RichBolt):
    """Emits each tuple several times."""

    def __init__(self, branches):
        self.branches = branches

    def execute(self, tup, collector):
        for _ in range(self.branches):
            collector.emit(tup, tup.values)
        collector.ack(tup)


class Agg(RichBolt):
    """Emits one tuple for every few, anchored to all of them."""

    def __init__(self, amount):
        self.amount = amount

    def prepare(self, context):
        self.seen = []

    def execute(self, tup, collector):
        self.seen.append(tup)
        if len(self.seen) == self.amount:
            collector.emit(self.seen, {"id": 0})
            for each in self.seen:
                collector.ack(each)
            self.seen = []


class Ack(RichBolt):
    """Acks each tuple."""

    def execute(self, tup, collector):
        collector.ack(tup)


class DubiousAck(RichBolt):
    """Emits each tuple, anchored to it twice."""

    def execute(self, tup, collector):
        collector.emit([tup, tup], tup.values)
        collector.ack(tup)


class AckEveryOther(RichBolt):
    """Acks the first tuple, the third, and so on."""

    def prepare(self, context):
        self.count = 0

    def execute(self, tup, collector):
        self.count += 1
        if self.count % 2:
            collector.ack(tup)


class ResetTimeout(RichBolt):
    """Resets the timeout of tuple 1 whenever it gets it, and acks none."""

    def execute(self, tup, collector):
        if tup.id == 1:
            collector.reset_timeout(tup)


class Feeder:
    """A spout that is fed by hand, and what its messages came to."""

    def __init__(self, place, topology, name):
        self.place, self.name = place, name
        self.fed = 0
        self.heard = Counter()
        place.spark.createDataFrame([], "id bigint").write.format("delta").save(place.path(name))
        self.component = topology.spout(name, DeltaSpout(place.path(name), key="id"))

    def feed(self):
        self.fed += 1
        self.place.add(self.name, id=[self.fed])

    def completed(self, run):
        """How many messages more have a complete tree, and how many more are acked."""
        rows = query(
            f"SELECT state, ack_val, outstanding FROM ledger WHERE spout = '{self.name}' "
            f"AND (live_in IS NULL OR live_in = {newest_fold(run.store).number})",
            ledger=run.store.require("ledger"),
        )
        complete = sum(1 for row in rows if not row["ack_val"] and not row["outstanding"])
        now = Counter(complete=complete, acked=sum(row["state"] == "acked" for row in rows))
        more = (now["complete"] - self.heard["complete"], now["acked"] - self.heard["acked"])
        self.heard = now
        return more


def fed(feeders, run, *which):
    """Feed some spouts, run a cycle, and say what each spout of all heard."""
    for feeder in which:
        feeder.feed()
    run_cycle(run)
    return [feeder.completed(run) for feeder in feeders]


def add(topology, name, inputs, make):
    """A rich bolt of one column."""
    return topology.rich_bolt(*inputs, schema="id bigint", name=name)(make)


@pytest.mark.thorough
def test_acking(place):
    topology = Topology("acking")
    feeders = one, two, three = [Feeder(place, topology, name) for name in ("one", "two", "three")]
    branches = [
        add(topology, f"branch_{feeder.name}", [feeder.component], partial(Branching, amount))
        for feeder, amount in ((one, 2), (two, 4), (three, 1))
    ]
    agg = add(topology, "agg", branches, partial(Agg, 3))
    branch = add(topology, "branch", [agg], partial(Branching, 2))
    add(topology, "ack", [branch], Ack)
    run = place.run(topology)
    assert fed(feeders, run, one) == [(0, 0), (0, 0), (0, 0)]
    assert fed(feeders, run, two) == [(1, 1), (1, 1), (0, 0)]
    assert fed(feeders, run, one) == [(0, 0), (0, 0), (0, 0)]
    # Storm acks the second message of the first spout here, which shares a tuple with its third.
    assert fed(feeders, run, one) == [(1, 0), (0, 0), (0, 0)]
    assert fed(feeders, run, three) == [(0, 0), (0, 0), (0, 0)]
    assert fed(feeders, run, two) == [(1, 2), (1, 1), (1, 1)]


@pytest.mark.extended
def test_ack_branching(place):
    topology = Topology("branching")
    feeders = (feeder,) = [Feeder(place, topology, "one")]
    identities = [add(topology, name, [feeder.component], Identity) for name in ("left", "right")]
    agg = add(topology, "agg", identities, partial(Agg, 4))
    add(topology, "ack", [agg], Ack)
    run = place.run(topology)
    assert fed(feeders, run, feeder) == [(0, 0)]
    assert fed(feeders, run, feeder) == [(2, 2)]


def test_acking_self_anchor(place):
    topology = Topology("self_anchor")
    feeders = (feeder,) = [Feeder(place, topology, "one")]
    dubious = add(topology, "dubious", [feeder.component], DubiousAck)
    add(topology, "ack", [dubious], Ack)
    run = place.run(topology)
    assert fed(feeders, run, feeder) == [(1, 1)]
    assert fed(feeders, run, feeder, feeder, feeder) == [(3, 3)]


def timed(place, bolt, **settings):
    """A topology whose only bolt is this one, and its spout."""
    topology = Topology("timed", **settings)
    feeder = Feeder(place, topology, "one")
    add(topology, "bolt", [feeder.component], bolt)
    return feeder, place.run(topology)


def test_timeout(place, states):
    feeder, run = timed(place, AckEveryOther, message_timeout="10 seconds", windows=5)
    assert fed([feeder], run, feeder, feeder, feeder) == [(2, 2)]
    for seconds in (2, 2, 2, 2, 1):
        place.clock.advance(seconds)
        fold(run)
    assert states(run) == [(1, 1, "acked"), (2, 1, "pending"), (3, 1, "acked")]
    for seconds in (1, 2):
        place.clock.advance(seconds)
        fold(run)
    assert states(run) == [(1, 1, "acked"), (2, 1, "timed_out"), (2, 2, "retrying"), (3, 1, "acked")]


@pytest.mark.extended
def test_reset_timeout(place, states):
    feeder, run = timed(place, ResetTimeout, message_timeout="10 seconds", windows=1)
    fed([feeder], run, feeder, feeder)
    for _ in range(2):
        place.clock.advance(10)
        fed([feeder], run, feeder)
    assert states(run)[:3] == [(1, 1, "pending"), (2, 1, "timed_out"), (2, 2, "retrying")]


@pytest.mark.extended
def test_disable_tuple_timeout(place, states):
    feeder, run = timed(place, AckEveryOther, message_timeout=None)
    fed([feeder], run, feeder, feeder)
    for _ in range(10):
        place.clock.advance(1_000_000)
        fold(run)
    assert states(run) == [(1, 1, "acked"), (2, 1, "pending")]


def failing(place, **settings):
    """A spout whose messages all fail at their first attempt, and a run."""
    topology = Topology("failing", batch_rows=1, **settings)
    feeder = Feeder(place, topology, "one")

    @topology.bolt(feeder.component)
    def failed(tuples):
        return tuples.select("anchor", "id", fail_when(F.col("id") > 0, "down"))

    return feeder, place.run(topology)


def due(run):
    """(source_offset, attempt, seconds until it is due) of the messages that wait."""
    rows = query(
        f"SELECT * FROM ledger WHERE live_in = {newest_fold(run.store).number} AND state = 'retrying'",
        ledger=run.store.require("ledger"),
    )
    waits = [(row["retry_at"] - run.clock()).total_seconds() for row in rows]
    return sorted((row["source_offset"], row["attempt"], wait) for row, wait in zip(rows, waits, strict=True))


@pytest.mark.extended
def test_retry_service_schedules_a_message_once_and_anew_after_each_failure(place):
    feeder, run = failing(place, retry=ExponentialBackoff(initial_seconds=8, multiplier=2, limit=3))
    fed([feeder], run, feeder)
    assert due(run) == [(1, 2, 8)]
    fold(run)
    assert due(run) == [(1, 2, 8)]
    for attempt, seconds in ((3, 16), (4, 32)):
        place.clock.advance(seconds / 2)
        run_cycle(run)
        assert due(run) == [(1, attempt, seconds)]
    place.clock.advance(32)
    run_cycle(run)
    assert due(run) == []  # the fourth failure is refused


@pytest.mark.extended
def test_retry_service_retries_in_the_order_of_due_times(place, states):
    feeder, run = failing(place, retry=ExponentialBackoff(initial_seconds=10))
    for _ in range(2):
        fed([feeder], run, feeder)
        place.clock.advance(1)
    place.clock.advance(60)
    run_spout(run, feeder.component)
    fold(run)
    assert states(run) == [(1, 1, "failed"), (1, 2, "pending"), (2, 1, "failed"), (2, 2, "retrying")]


def test_retry_service_passes_over_what_retention_deleted(place, states):
    feeder, run = failing(place)
    fed([feeder], run, feeder)
    DeltaTable(place.path("one")).delete("id = 1")
    place.clock.advance(60)
    run_cycle(run)
    assert states(run) == [(1, 1, "failed"), (1, 2, "lost")]
    (position,) = status_report(run.topology, run.store, run.clock())["positions"]
    assert position["committed_upto"] == 2


def test_retry_service_refuses_an_initial_delay_above_the_cap():
    # Storm caps 500 s at 2 s; nobody can have meant both.
    with pytest.raises(SettingsError, match="must lie between initial_seconds and ten years"):
        ExponentialBackoff(initial_seconds=500, cap_seconds=2)


@pytest.mark.extended
def test_inactive_topology(place, states):
    feeder, run = timed(place, Ack)
    feeder.feed()
    fold(run)  # while nobody runs the spout, as in a paused DAG
    assert states(run) == []
    run_cycle(run)
    assert states(run) == [(1, 1, "acked")]
