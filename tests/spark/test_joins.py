"""Tuples of several messages, of named streams, of every task, and of no message at all."""

from pyspark.sql import functions as F

from acker.retry import ExponentialBackoff
from acker.tables import query
from pipeline.bolts import collect_anchors, fail_when, merge_anchors
from pipeline.collector import RichBolt
from pipeline.cycle import run_cycle
from pipeline.reports import audit_report
from pipeline.spouts import DeltaSpout
from pipeline.topology import Topology

NEVER = ExponentialBackoff(limit=0)


def messages(run):
    """Message -> (state, reason), of attempts that have not been given up."""
    rows = query(
        "SELECT * FROM ledger WHERE root_id IS NOT NULL AND state <> 'dead_letter'",
        ledger=run.store.require("ledger"),
    )
    return {f"{row['spout']}:{row['source_offset']}": (row["state"], row["reason"]) for row in rows}


def test_messages_that_a_dataframe_bolt_joins_are_published_or_fail_together(place):
    place.add("lefts", id=[1, 2, 3], name=["a", "b", "c"])
    place.add("rights", id=[1, 2], value=[10, 20])
    topology = Topology("joined", retry=NEVER)
    lefts = topology.spout("lefts", DeltaSpout(place.path("lefts"), key="id"))
    rights = topology.spout("rights", DeltaSpout(place.path("rights"), key="id"))

    @topology.bolt(lefts, rights)
    def pairs(left, right):
        both = left.alias("l").join(right.alias("r"), "id", "left")
        return both.select(merge_anchors("l.anchor", "r.anchor"), "id", "name", "value")

    @topology.bolt(pairs)
    def checked(tuples):
        return tuples.select("anchor", "id", "name", "value", fail_when(F.col("value") == 20, "no 20"))

    topology.publish(checked, to=place.path("checked"))
    run = place.run(topology)
    run_cycle(run)
    assert messages(run) == {
        "lefts:1": ("acked", None),
        "rights:1": ("acked", None),
        "lefts:2": ("failed", "no 20"),
        "rights:2": ("failed", "no 20"),
        "lefts:3": ("acked", None),
    }
    assert place.rows("checked") == [(1, "a", 10), (3, "c", None)]
    assert audit_report(topology, run.store).passed


def test_a_row_that_was_aggregated_belongs_to_every_message_of_its_group(place):
    place.add("numbers", id=[1, 2, 3, 4], word=["a", "a", "b", "b"])
    topology = Topology("grouped", retry=NEVER)
    numbers = topology.spout("numbers", DeltaSpout(place.path("numbers"), key="id"))

    @topology.bolt(numbers)
    def checked(tuples):
        return tuples.select("anchor", "id", "word")

    @topology.bolt(checked)
    def counts(tuples):
        return tuples.groupBy("word").agg(collect_anchors(), F.count("*").alias("count"))

    @topology.bolt(checked)
    def picky(tuples):
        return tuples.select("anchor", fail_when(F.col("id") == 3, "no 3"))

    topology.publish(counts, to=place.path("counts"))
    run = place.run(topology)
    run_cycle(run)
    assert messages(run) == {
        "numbers:1": ("acked", None),
        "numbers:2": ("acked", None),
        "numbers:3": ("failed", "no 3"),
        "numbers:4": ("failed", "joined with numbers:0:3: no 3"),
    }
    assert place.rows("counts") == [("a", 2)]


class Spread(RichBolt):
    """Tells which task got which tuple, in a stream for each kind of grouping, and one tuple of nobody."""

    def prepare(self, context):
        self.task = context.task

    def execute(self, tup, collector):
        collector.emit(tup, {"id": tup.id, "task": self.task}, stream=tup.component)
        if tup.id == 1:
            collector.emit(None, {"id": -1, "task": self.task}, stream=tup.component)
        collector.ack(tup)


def test_groupings_say_which_task_gets_a_tuple_and_named_streams_are_read_and_published(place):
    topology = Topology("spread")
    spouts = {}
    for name in ("alls", "globals", "fields"):
        place.add(name, id=[1, 2, 3], word=["a", "a", "a"])
        spouts[name] = topology.spout(name, DeltaSpout(place.path(name), key="id"))
    spread = topology.rich_bolt(
        spouts["alls"].all_grouping(),
        spouts["globals"].global_grouping(),
        spouts["fields"].fields_grouping("word"),
        schema="id bigint",
        streams=dict.fromkeys(spouts, "id bigint, task int"),
        tasks=2,
    )(Spread)

    @topology.bolt(spread.stream("fields"))
    def tasks(tuples):
        return tuples.select("anchor", "task")

    topology.publish(spread.stream("alls"), to=place.path("to_all"))
    topology.publish(spread.stream("globals"), to=place.path("to_one"))
    topology.publish(tasks, to=place.path("tasks"))
    run = place.run(topology)
    run_cycle(run)
    assert place.rows("to_all") == [(-1, 0), (-1, 1), (1, 0), (1, 1), (2, 0), (2, 1), (3, 0), (3, 1)]
    assert place.rows("to_one") == [(-1, 0), (1, 0), (2, 0), (3, 0)]
    assert len(place.rows("tasks")) == 4 and len(set(place.rows("tasks"))) == 1
    assert {state for state, _ in messages(run).values()} == {"acked"}
    assert audit_report(topology, run.store).passed


def test_untracked_tuples_are_published_with_the_fold_that_first_saw_them_and_never_tried_again(place):
    place.add("numbers", id=[1, 2, 3, 4])
    topology = Topology("untracked", retry=NEVER)
    numbers = topology.spout("numbers", DeltaSpout(place.path("numbers"), key="id"), reliable="id > 2")

    @topology.bolt(numbers)
    def checked(tuples):
        return tuples.select("anchor", "id", fail_when(F.col("id") % 2 == 0, "even"))

    @topology.bolt(numbers, anchored=False)
    def counted(tuples):
        return tuples.agg(F.count("*").alias("count"))

    topology.publish(checked, to=place.path("checked"))
    topology.publish(counted, to=place.path("counted"))
    run = place.run(topology)
    run_cycle(run)
    run_cycle(run)
    assert messages(run) == {"numbers:3": ("acked", None), "numbers:4": ("failed", "even")}
    assert (place.rows("checked"), place.rows("counted")) == ([(1,), (3,)], [(4,)])
    assert audit_report(topology, run.store).passed


def test_a_topology_without_reliability_tracks_nothing_and_publishes_what_did_not_fail(place):
    place.add("numbers", id=[1, 2, 3])
    topology = Topology("unreliable", reliable=False)
    numbers = topology.spout("numbers", DeltaSpout(place.path("numbers"), key="id"))

    @topology.basic_bolt(numbers, schema="id bigint, third double")
    def thirds(tup):
        yield tup.id, 1 / (tup.id - 2)

    topology.publish(thirds, to=place.path("thirds"))
    run = place.run(topology)
    run_cycle(run)
    assert messages(run) == {}
    assert place.rows("thirds") == [(1, -1.0), (3, 1.0)]
    assert audit_report(topology, run.store).emitted == 0
