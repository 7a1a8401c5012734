"""Whole topologies, cycle by cycle: what is read, acked, retried, given up and published."""

from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import functions as F

from acker.components.anchors import fail_when
from acker.core.retry import ExponentialBackoff
from acker.core.snapshot.verdict import Finding
from acker.core.store.tables import query
from acker.operations.cycle import CycleResult, drain, room_for_new, run_bolt, run_cycle, run_spout
from acker.operations.fold import fold
from acker.reports.audit import audit_report
from acker.reports.status import status_report
from acker.reports.trace import trace_report
from acker.spouts import DeltaSpout, FileSpout
from acker.topology.topology import Topology


def trace(topology, run, message):
    """A message's trace without its times: the clock stood still."""
    entries = trace_report(topology, run.store, message)
    return [(entry.attempt, entry.what, entry.component, entry.batch, entry.detail) for entry in entries]


@pytest.fixture(scope="module")
def diamond(shared_place):
    """Two bolts read one stream and a third reads both; number 6 causes no row at all."""
    source = shared_place.add("numbers", id=[1, 2, 3, 4, 5, 6])
    topology = Topology("diamond")
    numbers = topology.spout("numbers", DeltaSpout(source, key="id"))
    topology.spout("unread", DeltaSpout(source, key="id"))

    @topology.bolt(numbers)
    def doubled(tuples):
        return tuples.where("id < 5").select("anchor", "id", (F.col("id") * 2).alias("double"))

    @topology.basic_bolt(numbers, schema="id bigint, word string")
    def described(tup):
        if tup.id % 2 == 1:
            yield tup.id, "odd"
            yield {"word": "small", "id": tup.id} if tup.id < 4 else (tup.id, None)

    @topology.bolt(doubled, described)
    def joined(doubles, words):
        both = doubles.join(words.drop("id"), "anchor", "left").select("anchor", "id", "double", "word")
        return both.unionByName(words.where("id = 5"), allowMissingColumns=True)

    topology.publish(joined, to=shared_place.path("joined"))
    steps = []
    run = shared_place.run(topology, lambda step: steps.append((step.name, step.component, step.number)))
    first = run_cycle(run)
    halfway = len(steps)
    second = run_cycle(run)
    return topology, run, (first, second), (steps[:halfway], steps[halfway:])


def test_a_cycle_takes_every_component_from_plan_to_log_once(diamond):
    steps = diamond[3][0]
    components = ("numbers", "unread", "doubled", "described", "joined")
    batches = [(name, one, 1) for one in components for name in ("planned", "written", "logged")]
    assert steps == [*batches, ("folding", "acker", 1), ("folded", "acker", 1), ("published", "joined", 1)]


def test_all_that_a_diamond_makes_is_published_once(diamond, shared_place):
    assert shared_place.rows("joined") == [
        (1, 2, "odd"),
        (1, 2, "small"),
        (2, 4, None),
        (3, 6, "odd"),
        (3, 6, "small"),
        (4, 8, None),
        (5, None, "odd"),
        (5, None, None),
    ]


def test_a_message_that_causes_nothing_is_acked_and_so_is_one_that_nobody_reads(diamond, states):
    acked = [(offset, 1, "acked") for offset in (1, 2, 3, 4, 5, 6)]
    assert states(diamond[1]) == sorted(acked + acked)


def test_a_stream_that_two_bolts_read_is_two_edges(diamond):
    events = diamond[1].store.require("events")
    found = query(
        "SELECT component, kind, emitted, consumed FROM events WHERE kind <> 'batch'", events=events
    )
    per_message = Counter(tuple(row.values()) for row in found if row["component"] != "joined")
    assert per_message == {
        ("numbers", "init", 2, 0): 6,
        ("unread", "init", 0, 0): 6,
        ("doubled", "ack", 1, 1): 4,
        ("doubled", "ack", 0, 1): 2,
        ("described", "ack", 2, 1): 3,
        ("described", "ack", 0, 1): 3,
    }


def test_a_cycle_with_nothing_new_plans_no_batch_and_publishes_nothing(diamond):
    results, (_, second) = diamond[2], diamond[3]
    assert results == (CycleResult(12, 0, 5, 1), CycleResult(0, 0, 0, 0))
    assert second == [("folding", "acker", 2), ("folded", "acker", 2)]


def test_the_audit_of_a_finished_topology_passes(diamond):
    topology, run, *_ = diamond
    found = audit_report(topology, run.store)
    assert (found.verdict, found.emitted, found.acked, found.pending, found.unpublished) == (
        "pass",
        12,
        12,
        0,
        0,
    )


@pytest.mark.extended
def test_streams_without_statistics_are_counted_row_by_row(place, states):
    topology = Topology("plain", batch_rows=2)
    numbers = topology.spout("numbers", DeltaSpout(place.add("numbers", id=[1, 2, 3]), key="id"))
    topology.bolt(numbers, name="kept")(lambda tuples: tuples)
    run = place.run(topology)
    place.spark.conf.set("spark.databricks.delta.stats.collect", "false")
    try:
        drain(run)
    finally:
        place.spark.conf.unset("spark.databricks.delta.stats.collect")
    assert states(run) == [(1, 1, "acked"), (2, 1, "acked"), (3, 1, "acked")]


def test_messages_that_were_lost_before_they_were_emitted_take_no_room(place):
    file = place.folder / "files" / "a"
    file.parent.mkdir()
    file.write_text("1\n2\n")
    topology = Topology("held", max_pending=3)
    lines = topology.spout("lines", FileSpout(str(file.parent)))
    run = place.run(topology, lambda step: file.unlink() if step.name == "planned" else None)
    assert (run_spout(run, lines), room_for_new(topology, run.snapshot(), "lines")) == ((1, 2, 0), 3)


@pytest.mark.extended
def test_a_late_fail_of_one_attempt_is_not_one_of_the_next(place, states):
    topology = Topology("late", retry=ExponentialBackoff(initial_seconds=60))
    numbers = topology.spout("numbers", DeltaSpout(place.add("numbers", id=[1]), key="id"))
    outage = place.folder / "outage"

    def failing(tuples):
        return tuples.withColumn("_error", fail_when(F.lit(outage.exists()), "down"))

    fast, slow = (topology.bolt(numbers, name=name)(failing) for name in ("fast", "slow"))
    run = place.run(topology)
    outage.touch()
    run_spout(run, numbers)
    run_bolt(run, fast)
    fold(run)
    run_bolt(run, slow)
    outage.unlink()
    place.clock.advance(60)
    run_spout(run, numbers)
    fold(run)
    assert states(run) == [(1, 1, "failed"), (1, 2, "pending")]
    run_cycle(run)
    assert states(run) == [(1, 1, "failed"), (1, 2, "acked")]


@pytest.fixture(scope="module")
def recovery(shared_place):
    """Message 2 fails while a file is there and 3 fails for ever; both are tried twice."""
    place = shared_place
    outage = Path(place.path("outage"))
    topology = Topology("recovery", retry=ExponentialBackoff(initial_seconds=60, limit=1))
    numbers = topology.spout("numbers", DeltaSpout(place.add("tried", id=[1, 2, 3]), key="id"))

    @topology.bolt(numbers)
    def looked_up(tuples):
        down = fail_when(F.lit(outage.exists()) & (F.col("id") == 2), "the lookup is down")
        never = fail_when(F.col("id") == 3, F.concat(F.lit("no number "), "id"))
        return tuples.select("anchor", "id", F.coalesce(down, never).alias("_error"))

    @topology.bolt(looked_up)
    def squared(tuples):
        return tuples.select("anchor", (F.col("id") * F.col("id")).alias("square"))

    topology.publish(squared, to=place.path("squares"))
    outage.touch()
    run = place.run(topology)
    run_cycle(run)
    before = status_report(topology, run.store, place.clock()), place.rows("squares")
    outage.unlink()
    pauses = []

    def sleep(seconds):
        pauses.append(seconds)
        place.clock.advance(seconds)

    return topology, run, before, (drain(run, sleep=sleep), pauses)


def test_what_failed_waits_for_its_retry_and_what_was_acked_is_published(recovery):
    status, published = recovery[2]
    assert status["states"] == {"acked": 1, "failed": 2, "retrying": 2}
    assert (status["due"], status["fold"], published) == (0, 1, [(1,)])


def test_draining_sleeps_until_a_retry_is_due_and_ends_when_all_has_settled(recovery):
    cycles, pauses = recovery[3]
    assert (cycles, sum(pauses)) == (3, 60)


def test_a_second_attempt_recovers_and_the_last_one_gives_up(recovery, shared_place, states):
    assert states(recovery[1]) == [
        (1, 1, "acked"),
        (2, 1, "failed"),
        (2, 2, "acked"),
        (3, 1, "failed"),
        (3, 2, "dead_letter"),
        (3, 2, "failed"),
    ]
    assert shared_place.rows("squares") == [(1,), (4,)]


def test_the_audit_names_the_dead_letter_with_its_component_and_reason(recovery):
    topology, run, *_ = recovery
    found = audit_report(topology, run.store)
    assert (found.verdict, found.recovered, found.dead_letter, found.retrying) == ("pass", 1, 1, 0)
    assert found.dead_letters == [Finding("numbers:0:3", "attempt 2 in looked_up: no number 3")]


def test_a_trace_tells_a_recovered_message_from_its_first_attempt_to_its_publication(recovery, shared_place):
    topology, run, *_ = recovery
    down, squares = "the lookup is down", shared_place.path("squares")
    assert trace(topology, run, "numbers:0:2") == [
        (1, "emitted", "numbers", 1, "0 tuples in, 1 out"),
        (1, "failed by", "looked_up", 1, down),
        (1, "failed", "acker", 1, f"looked_up: {down}"),
        (2, "emitted", "numbers", 2, "0 tuples in, 1 out"),
        (2, "acked by", "looked_up", 2, "1 tuples in, 1 out"),
        (2, "acked by", "squared", 2, "1 tuples in, 0 out"),
        (2, "acked", "acker", 3, ""),
        (2, "published", "squared", 3, f"to {squares}"),
    ]


def test_a_trace_tells_why_a_message_was_given_up(recovery):
    topology, run, *_ = recovery
    assert trace(topology, run, "0:3")[-3:] == [
        (2, "failed by", "looked_up", 2, "no number 3"),
        (2, "failed", "acker", 3, "looked_up: no number 3"),
        (2, "dead_letter", "acker", 3, "looked_up: no number 3"),
    ]


def test_a_trace_says_when_a_message_was_published(recovery):
    topology, run, *_ = recovery
    published = trace_report(topology, run.store, "numbers:0:1")[-1]
    assert (published.what, published.at.tzinfo is not None) == ("published", True)
