"""Rich bolts: what they ack, fail, hold back and reset, in batches that may crash."""

from acker.events import State
from acker.retry import ExponentialBackoff
from acker.tables import query
from pipeline.acking import fold
from pipeline.batch import finish
from pipeline.collector import RichBolt
from pipeline.cycle import run_cycle
from pipeline.replay import Selection, plan_by_hand
from pipeline.reports import audit_report
from pipeline.spouts import DeltaSpout
from pipeline.topology import Topology


class Verdicts(RichBolt):
    """Does with each tuple what it says."""

    def execute(self, tup, collector):
        collector.emit(tup, {"id": tup.id, "what": tup["what"]})
        if tup.what == "fail":
            collector.fail(tup, f"no {tup.id}")
        if tup.what in ("ack", "ack twice", "raise"):
            collector.ack(tup)
        if tup.what == "ack twice":
            collector.ack(tup)
        if tup.what == "fail after ack":
            collector.ack(tup)
            collector.fail(tup)
        if tup.what == "raise":
            raise ValueError(f"cannot take {tup.id}")
        if tup.what == "misfit":
            collector.ack(tup)
            collector.emit(tup, {"id": "seven", "what": "misfit"})
        if tup.what == "loose misfit":
            collector.ack(tup)
            collector.emit(None, {"id": "eight", "what": "misfit"})
        if tup.what == "wrong stream":
            collector.emit(tup, {"id": 9}, stream="nowhere")


NO_NUMBER = "with type str: tried to convert to int64"
NO_STREAM = "which the bolt does not have"
VERDICTS = {
    1: ("ack", "acked", None),
    2: ("fail", "failed", "no 2"),
    3: ("ack twice", "failed", "acked twice"),
    4: ("fail after ack", "failed", "failed by the bolt"),
    5: ("raise", "failed", "ValueError: cannot take 5"),
    6: ("nothing", "pending", None),
    7: ("misfit", "failed", f"ArrowInvalid: Could not convert 'seven' {NO_NUMBER}"),
    8: ("loose misfit", "failed", f"ArrowInvalid: Could not convert 'eight' {NO_NUMBER}"),
    9: ("wrong stream", "failed", f"ValueError: emitted to the stream 'nowhere', {NO_STREAM}"),
}


def test_a_rich_bolt_acks_fails_and_holds_back_each_tuple_by_itself(place):
    source = place.add("source", id=list(VERDICTS), what=[what for what, _, _ in VERDICTS.values()])
    topology = Topology("verdicts", message_timeout="10 seconds", windows=1)
    spout = topology.spout("numbers", DeltaSpout(source, key="id"))
    bolt = topology.rich_bolt(spout, schema="id bigint, what string")(Verdicts)
    topology.publish(bolt, to=place.path("published"))
    run = place.run(topology)
    run_cycle(run)
    rows = query(
        "SELECT source_offset, state, reason FROM ledger WHERE root_id IS NOT NULL AND state <> 'retrying'",
        ledger=run.store.require("ledger"),
    )
    found = {row["source_offset"]: (row["state"], row["reason"]) for row in rows}
    assert found == {number: (state, reason) for number, (_, state, reason) in VERDICTS.items()}
    assert place.rows("published") == [(1, "ack")]


class Pairs(RichBolt):
    """Joins two tuples of a key, whichever comes first, and tells the second whether the first was held."""

    def prepare(self, context):
        self.first = {}

    def execute(self, tup, collector):
        other = self.first.pop(tup.key, None)
        if other is None:
            self.first[tup.key] = tup
        else:
            values = {"key": tup.key, "left": other.value, "right": tup.value, "held": other.held}
            collector.emit([other, tup], values)
            collector.ack(other)
            collector.ack(tup)


SCHEMA = "key bigint, left string, right string, held boolean"


def pairing(place, **settings):
    """Two spouts whose tuples are joined by key in two tasks, and published."""
    topology = Topology("pairing", **settings)
    sides = []
    for name in ("lefts", "rights"):
        place.spark.createDataFrame([], "id bigint, key bigint, value string").write.format("delta").save(
            place.path(name)
        )
        sides.append(topology.spout(name, DeltaSpout(place.path(name), key="id")).fields_grouping("key"))
    pairs = topology.rich_bolt(*sides, schema=SCHEMA, tasks=2)(Pairs)
    topology.publish(pairs, to=place.path("pairs"))
    return topology


def test_a_tuple_that_is_held_back_is_joined_batches_later(place, states):
    run = place.run(pairing(place))
    place.add("lefts", id=[1, 2, 3], key=[10, 20, 30], value=["a", "b", "c"])
    run_cycle(run)
    place.add("rights", id=[1], key=[20], value=["B"])
    run_cycle(run)
    place.add("rights", id=[2, 3], key=[30, 10], value=["C", "A"])
    assert states(run) == [(1, 1, "acked"), (1, 1, "pending"), (2, 1, "acked"), (3, 1, "pending")]
    run_cycle(run)
    assert place.rows("pairs") == [(10, "a", "A", True), (20, "b", "B", True), (30, "c", "C", True)]
    assert {state for _, _, state in states(run)} == {"acked"}
    assert audit_report(run.topology, run.store).passed


def test_a_message_that_is_replayed_takes_its_partner_along(place, states):
    run = place.run(pairing(place))
    place.add("lefts", id=[1, 2], key=[10, 20], value=["a", "b"])
    place.add("rights", id=[1, 2], key=[10, 20], value=["A", "B"])
    run_cycle(run)
    chosen = Selection(states=(State.ACKED,), spout="lefts", positions=(("0", 1),))
    matched, batches = plan_by_hand(run, chosen, "", "tester")
    assert matched.count == 2
    for batch in batches:
        finish(run, run.topology.components[batch.component], batch)
    run_cycle(run)
    assert states(run) == [(1, 1, "acked")] * 2 + [(1, 2, "acked")] * 2 + [(2, 1, "acked")] * 2
    assert place.rows("pairs") == [(10, "a", "A", False), (20, "b", "B", False)]
    assert audit_report(run.topology, run.store).passed


def test_a_held_tuple_whose_message_timed_out_is_let_go_and_its_replay_joined(place, states):
    run = place.run(pairing(place, message_timeout="10 seconds", windows=1, retry=ExponentialBackoff()))
    place.add("lefts", id=[1], key=[10], value=["a"])
    run_cycle(run)
    for _ in range(2):
        place.clock.advance(10)
        fold(run)
    assert states(run) == [(1, 1, "timed_out"), (1, 2, "retrying")]
    place.add("rights", id=[1], key=[10], value=["A"])
    place.clock.advance(10)
    run_cycle(run)
    assert place.rows("pairs") == [(10, "a", "A", False)]
    assert states(run) == [(1, 1, "acked"), (1, 1, "timed_out"), (1, 2, "acked")]
    assert audit_report(run.topology, run.store).passed
