"""What a table refuses after the ack: its messages become dead letters, and the rest is published."""

import shutil
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from pyspark.errors import PySparkException
from pyspark.sql import functions as F

from acker.components.anchors import collect_anchors
from acker.core.errors import StoreError
from acker.core.events import State
from acker.core.store.schemas import REFUSALS
from acker.operations.cycle import drain, run_bolt, run_cycle, run_spout
from acker.operations.fold import fold
from acker.operations.maintenance.trim import trim_streams
from acker.operations.publish import publish, publish_stream
from acker.operations.replay import plan_by_hand
from acker.operations.selection.selection import Selection
from acker.operations.standing import republish
from acker.reports.audit import audit_report
from acker.reports.trace import trace_report
from acker.spouts import DeltaSpout
from acker.targets.functions import Count, Min, Sum
from acker.targets.refusing import MOST_REFUSED
from acker.topology.topology import Topology

MOST = 2**63 - 1


def sales(place, extremes=False):
    """Sales as rows, and their sums by city."""
    topology = Topology("sales")
    lines = topology.spout("lines", DeltaSpout(place.path("lines"), key="id"))
    rows = topology.bolt(lines, name="rows")(lambda tuples: tuples)
    sums = topology.bolt(lines, name="sums")(lambda tuples: tuples)
    topology.publish(rows, to=place.path("rows"))
    more = {"lowest": Min("amount")} if extremes else {}
    topology.publish(
        sums, to=place.path("sums"), by="city", aggregates={"n": Count(), "sum": Sum("amount"), **more}
    )
    return topology


def acked(run):
    """Run all but the publish."""
    for spout in run.topology.spouts:
        run_spout(run, spout)
    for bolt in run.topology.bolts:
        run_bolt(run, bolt)
    fold(run)


def begun(place, topology=None):
    """A run that has published message 1, and then acked 2 to 9, of which 5 and 6 have no amount above 0."""
    run = place.run(topology or sales(place))
    place.add("lines", id=[1], city=["Ulm"], amount=[1])
    run_cycle(run)
    place.add("lines", id=[*range(2, 10)], city=["Ulm", "Bonn"] * 4, amount=[2, 3, 4, -5, 0, 7, 8, 9])
    acked(run)
    return run


def rule(place, what="ADD CONSTRAINT positive CHECK (amount > 0)", table="rows"):
    place.spark.sql(f"ALTER TABLE delta.`{place.path(table)}` {what}")


def told(run):
    """The verdict, how many are acked, dead and unpublished, and who gave each dead letter up."""
    found = audit_report(run.topology, run.store)
    counts = found.verdict, found.acked, found.dead_letter, found.unpublished
    return counts, [each.why for each in found.dead_letters], found.findings


NOTHING = {"lost": [], "unexpected": [], "duplicated": []}


def test_what_a_table_refuses_after_the_ack_leaves_all_tables_as_dead_letters(place, states):
    run = begun(place)
    rule(place)

    publish(run)

    good = [(1, "Ulm", 1), (2, "Ulm", 2), (3, "Bonn", 3), (4, "Ulm", 4)]
    good += [(7, "Bonn", 7), (8, "Ulm", 8), (9, "Bonn", 9)]
    assert place.rows("rows") == good
    assert told(run) == (("pass", 9, 0, 2), [], NOTHING)
    assert place.rows("sums") == [("Bonn", 4, 14), ("Ulm", 5, 15)]

    run_cycle(run)

    why = f"attempt 1 in rows: {place.path('rows')}: breaks the constraint positive: amount > 0"
    assert told(run) == (("pass", 7, 2, 0), [why, why], NOTHING)
    assert place.rows("sums") == [("Bonn", 3, 19), ("Ulm", 4, 15)]
    assert [each for each in states(run) if each[0] in (5, 6)] == [
        (offset, 1, state) for offset in (5, 6) for state in ("acked", "dead_letter", "failed")
    ]
    assert run_cycle(run).commits == 0


@pytest.mark.extended
def test_a_replay_of_what_was_refused_is_an_ordinary_one(place):
    run = begun(place)
    rule(place)
    publish(run)
    run_cycle(run)
    rule(place, "DROP CONSTRAINT positive")

    plan_by_hand(run, Selection(), "the rule is gone", "tester")
    drain(run)

    assert told(run) == (("pass", 9, 0, 0), [], NOTHING)
    assert place.rows("sums") == [("Bonn", 4, 14), ("Ulm", 5, 15)]
    assert len(place.rows("rows")) == 9


@pytest.mark.extended
def test_a_replay_by_hand_that_came_before_the_refusal_goes_on(place):
    run = begun(place)
    publish_stream(run, run.topology.publications["sums"])
    rule(place)
    chosen = Selection(states=(State.ACKED,), positions=(("0", 5), ("0", 6)))
    plan_by_hand(run, chosen, "again", "tester")
    publish(run)
    fold(run)
    rule(place, "DROP CONSTRAINT positive")

    drain(run)

    assert told(run) == (("pass", 9, 0, 0), [], NOTHING)
    assert place.rows("sums") == [("Bonn", 4, 14), ("Ulm", 5, 15)]


@pytest.mark.extended
def test_a_sum_that_does_not_fit_refuses_the_message_that_goes_past_it(place):
    run = place.run(sales(place))
    place.add("lines", id=[1, 2], city=["Ulm", "Bonn"], amount=[MOST - 10, 1])
    run_cycle(run)
    place.add("lines", id=[3, 4, 5, 6], city=["Ulm", "Ulm", "Bonn", "Ulm"], amount=[4, 100, 5, 6])

    acked(run)
    rule(place, f"ADD CONSTRAINT top CHECK (sum <= {MOST})", "sums")

    drain(run)

    counts, why, findings = told(run)
    assert (counts, findings) == (("pass", 5, 1, 0), NOTHING)
    assert why[0].startswith("attempt 1 in sums: ") and "CHECK constraint top" in why[0]
    assert place.rows("sums") == [("Bonn", 2, 6), ("Ulm", 3, MOST)]
    assert place.rows("rows") == [
        (1, "Ulm", MOST - 10),
        (2, "Bonn", 1),
        (3, "Ulm", 4),
        (5, "Bonn", 5),
        (6, "Ulm", 6),
    ]


@pytest.mark.extended
def test_what_was_acked_together_is_refused_together(place):
    topology = Topology("all")
    lines = topology.spout("lines", DeltaSpout(place.path("lines"), key="id"))

    @topology.bolt(lines)
    def pairs(tuples):
        pair = tuples.groupBy(F.floor(F.col("id") / 2))
        return pair.agg(collect_anchors(), F.min("amount").alias("amount")).select("anchor", "amount")

    topology.publish(pairs, to=place.path("rows"))
    run = begun(place, topology)
    rule(place)

    drain(run)

    counts, why, findings = told(run)
    assert (counts, findings) == (("pass", 5, 4, 0), NOTHING)
    assert ["joined with" in each for each in why].count(True) == 2
    plan_by_hand(run, Selection(), "again", "tester")
    rule(place, "DROP CONSTRAINT positive")
    drain(run)
    assert told(run) == (("pass", 9, 0, 0), [], NOTHING)


def test_one_row_of_many_messages_is_no_fault_of_the_table(place):
    topology = Topology("all")
    lines = topology.spout("lines", DeltaSpout(place.path("lines"), key="id"))

    @topology.bolt(lines)
    def by_city(tuples):
        city = tuples.groupBy("city").agg(collect_anchors(), F.min("amount").alias("amount"))
        return city.select("anchor", "amount")

    topology.publish(by_city, to=place.path("rows"))
    run = place.run(topology)
    place.add("lines", id=[1], city=["Ulm"], amount=[1])
    run_cycle(run)
    many = range(10, 11 + MOST_REFUSED)
    place.add("lines", id=[2, 3], city=["Bonn"] * 2, amount=[2, 3])
    place.add("lines", id=[*many], city=["Wien"] * len(many), amount=[*many[1:], -1])
    acked(run)
    rule(place)

    drain(run)

    counts, _, findings = told(run)
    assert (counts, findings) == (("pass", 3, len(many), 0), NOTHING)


@pytest.mark.extended
def test_a_table_that_refuses_most_messages_is_at_fault_itself(place):
    run = begun(place)
    few, most = range(10, 10 + MOST_REFUSED // 2), range(100, 101 + MOST_REFUSED)
    rows = {"id": [*few, *most], "amount": [1] * len(few) + [-1] * len(most)}
    place.add("lines", **rows, city=["Ulm"] * len(rows["id"]))
    acked(run)
    rule(place)

    with pytest.raises(StoreError, match="refuses most messages of fold 3, so it is taken to be at fault: "):
        publish_stream(run, run.topology.publications["rows"])

    assert run.store.require(REFUSALS).version() == 1


def test_a_table_that_refuses_everything_is_at_fault_itself(place):
    run = begun(place)
    other = pa.table({"id": pa.array([], pa.struct({"x": pa.int32()}))})
    write_deltalake(place.path("rows"), other, mode="overwrite", schema_mode="overwrite")

    with pytest.raises(PySparkException):
        publish_stream(run, run.topology.publications["rows"])

    assert run.store.require(REFUSALS).version() == 0
    assert not Path(run.store.path("scratch")).exists() or not any(Path(run.store.path("scratch")).iterdir())


def test_what_another_table_could_not_take_back_is_not_refused(place):
    run = begun(place, sales(place, extremes=True))
    rule(place)

    with pytest.raises(Exception, match="could not take them back"):
        publish(run)

    assert run.store.require(REFUSALS).version() == 0


def test_trace_tells_who_refused_a_message(place):
    run = begun(place)
    rule(place)
    publish(run)
    run_cycle(run)

    story = trace_report(run.topology, run.store, "lines:0:5")

    ends = ("acked", "refused", "failed", "dead_letter", "published")
    assert sorted((each.what, each.component, each.batch) for each in story if each.what in ends) == [
        *(("acked", "acker", 2), ("dead_letter", "acker", 3), ("failed", "acker", 3)),
        *(("published", "sums", 2), ("refused", "rows", 2)),
    ]


@pytest.mark.extended
def test_what_other_tables_are_to_give_up_is_not_trimmed(place):
    run = begun(place)
    publish_stream(run, run.topology.publications["sums"])
    rule(place)
    publish_stream(run, run.topology.publications["rows"])
    place.clock.advance(1e7)
    before = trim_streams(run, timedelta())
    fold(run)
    between = trim_streams(run, timedelta())
    publish(run)

    assert (before, between) == (dict.fromkeys(before, 1), dict.fromkeys(before, 0))
    assert place.rows("sums") == [("Bonn", 3, 19), ("Ulm", 4, 15)]
    assert told(run)[0] == ("pass", 7, 2, 0)


def between(run, table):
    """A run between whose search for what a table refuses and its record another one publishes there.

    The rule is gone by then.
    """
    publication = run.topology.publications[table]
    others = [replace(run)]

    def clock():
        if others:
            run.spark.sql(f"ALTER TABLE delta.`{publication.to}` DROP CONSTRAINT some")
            publish_stream(others.pop(), publication)
        return run.clock()

    publish_stream(replace(run, clock=clock), publication)


@pytest.mark.extended
def test_rows_that_another_publisher_has_brought_in_after_all_leave_with_their_refusal(place):
    run = begun(place)
    rule(place, "ADD CONSTRAINT some CHECK (amount > 0)")
    between(run, "rows")
    assert [len(found) for found in told(run)[2].values()] == [0, 2, 0]  # unexpected

    drain(run)

    assert told(run)[0] == ("pass", 7, 2, 0)
    assert [row[0] for row in place.rows("rows")] == [1, 2, 3, 4, 7, 8, 9]


@pytest.mark.extended
def test_a_sum_to_which_another_publisher_has_added_after_all_is_told_by_the_audit(place):
    run = begun(place)
    rule(place, "ADD CONSTRAINT some CHECK (sum < 15)", "sums")
    between(run, "sums")
    drain(run)

    counts, (why,), findings = told(run)
    assert (counts, "some" in why) == (("fail", 8, 1, 0), True)
    assert any("Ulm" in f"{each.message} {each.why}" for found in findings.values() for each in found)

    shutil.rmtree(place.path("sums"))
    republish(run, "sums")

    assert told(run)[0] == ("pass", 8, 1, 0)
    assert place.rows("sums")[0] == ("Bonn", 4, 14)
