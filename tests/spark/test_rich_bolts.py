"""Rich bolts: what they ack, fail, hold back and reset, in batches that may crash."""

from functools import partial

import pytest
from pyspark.sql import functions as F

from acker.batches.batch import finish
from acker.components.anchors import fail_when
from acker.components.collector import RichBolt
from acker.core.errors import BoltError, SettingsError, TopologyError
from acker.core.events import State
from acker.core.retry import ExponentialBackoff
from acker.core.store.tables import query
from acker.operations.cycle import drain, run_cycle
from acker.operations.fold import fold
from acker.operations.replay import plan_by_hand
from acker.operations.selection.selection import Selection
from acker.reports.audit import audit_report
from acker.reports.failures import failures
from acker.reports.held_back import all_held_back
from acker.reports.trace import trace_report
from acker.spouts import DeltaSpout
from acker.topology.topology import Topology
from tests.kit.stops import stopped_once_at_each_step

BY_TASKS = True  # see `conftest`


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


NO_STREAM = "which the bolt does not have"
VERDICTS = {
    1: ("ack", "acked", None),
    2: ("fail", "failed", "no 2"),
    3: ("ack twice", "failed", "acked twice"),
    4: ("fail after ack", "failed", "failed by the bolt"),
    5: ("raise", "failed", "ValueError: cannot take 5"),
    6: ("nothing", "pending", None),
    7: ("misfit", "failed", "ValueError: column id: 'seven' is no bigint"),
    8: ("loose misfit", "failed", "ValueError: column id: 'eight' is no bigint"),
    9: ("wrong stream", "failed", f"ValueError: emitted to the stream 'nowhere', {NO_STREAM}"),
}


def judged(place):
    """A run that has given each verdict once."""
    source = place.add("source", id=list(VERDICTS), what=[what for what, _, _ in VERDICTS.values()])
    topology = Topology("verdicts", message_timeout="10 seconds", windows=1)
    spout = topology.spout("numbers", DeltaSpout(source, key="id"))
    bolt = topology.rich_bolt(spout, schema="id bigint, what string")(Verdicts)
    topology.publish(bolt, to=place.path("published"))
    run = place.run(topology)
    run_cycle(run)
    return run


def test_a_rich_bolt_acks_fails_and_holds_back_each_tuple_by_itself(place):
    run = judged(place)
    rows = query(
        "SELECT source_offset, state, reason FROM ledger WHERE root_id IS NOT NULL AND state <> 'retrying'",
        ledger=run.store.require("ledger"),
    )
    found = {row["source_offset"]: (row["state"], row["reason"]) for row in rows}
    assert found == {number: (state, reason) for number, (_, state, reason) in VERDICTS.items()}
    assert place.rows("published") == [(1, "ack")]


def test_what_a_rich_bolt_leaves_open_is_told_and_times_out_in_its_name(place):
    run = judged(place)
    assert [each["says"] for each in all_held_back(run.topology, run.snapshot())] == [
        "verdicts holds back a tuple that it has neither acked nor failed, since 2026-01-01 00:00:00"
    ]
    for _ in range(2):
        place.clock.advance(10)
        fold(run)
    found = {each.sample.source_offset: each for each in failures(run.snapshot(), 20).commonest}
    assert (found[6].component, found[6].reason) == (
        "verdicts",
        "not complete within 0:00:10: neither acked nor failed by verdicts",
    )


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


@pytest.mark.extended
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


@pytest.mark.extended
def test_a_message_that_is_replayed_takes_its_partner_along(place, states):
    run = place.run(pairing(place))
    place.add("lefts", id=[1, 2], key=[10, 20], value=["a", "b"])
    place.add("rights", id=[1, 2], key=[10, 20], value=["A", "B"])
    run_cycle(run)
    assert replayed(run, State.ACKED) == 2
    assert states(run) == [(1, 1, "acked")] * 2 + [(1, 2, "acked")] * 2 + [(2, 1, "acked")] * 2
    assert place.rows("pairs") == [(10, "a", "A", False), (20, "b", "B", False)]
    assert audit_report(run.topology, run.store).passed


def replayed(run, state):
    """How many messages a replay by hand of the first one on the left takes along."""
    chosen = Selection(states=(state,), spout="lefts", positions=(("0", 1),))
    matched, batches = plan_by_hand(run, chosen, "", "tester")
    for batch in batches:
        finish(run, batch)
    run_cycle(run)
    return matched.count


@pytest.mark.thorough
def test_dead_letters_that_were_joined_are_replayed_together(place):
    outage = place.folder / "outage"
    outage.touch()
    topology = pairing(place, retry=ExponentialBackoff(limit=0))

    @topology.bolt("pairs")
    def sink(tuples):
        return tuples.select("anchor", "key", fail_when(F.lit(outage.exists()), "down"))

    topology.publish(sink, to=place.path("sink"))
    run = place.run(topology)
    place.add("lefts", id=[1], key=[10], value=["a"])
    place.add("rights", id=[1], key=[10], value=["A"])
    run_cycle(run)
    outage.unlink()
    assert replayed(run, State.DEAD_LETTER) == 2
    assert place.rows("sink") == [(10,)]


@pytest.mark.extended
def test_a_trace_tells_who_holds_a_message_back_with_whom_it_was_joined_and_where_it_is(place):
    topology = pairing(place)
    loose = topology.bolt("lefts", name="loose")(lambda tuples: tuples.where("id = 0"))
    topology.publish(loose, to=place.path("loose"))
    run = place.run(topology)
    place.add("lefts", id=[1], key=[10], value=["a"])
    assert drain(run) == 2  # what is held back waits for others
    entries = trace_report(topology, run.store, "lefts:0:1")
    assert ("held back by", "pairs", 1, "1 tuples") in [told(entry) for entry in entries]
    place.add("rights", id=[7], key=[10], value=["A"])
    run_cycle(run)
    left, right = (trace_report(topology, run.store, message) for message in ("lefts:0:1", "rights:0:7"))
    assert ("joined by", "pairs", 2, "with rights:0:7") in [told(entry) for entry in left]
    assert ("joined by", "pairs", 2, "with lefts:0:1") in [told(entry) for entry in right]
    assert [entry.component for entry in left if entry.what == "published"] == ["pairs"]
    assert "held back by" not in [entry.what for entry in left]


def told(entry):
    return entry.what, entry.component, entry.batch, entry.detail


@pytest.mark.extended
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


class Shares(RichBolt):
    """Tells which tasks were given which tuple; what is odd goes to a stream of its own."""

    def prepare(self, context):
        self.context = context

    def execute(self, tup, collector):
        stream = "odd" if tup.id % 2 else None
        collector.emit(tup, (tup.id, self.context.task, tup.component), stream=stream)
        collector.ack(tup)


SHARES = "id bigint, task int, emitter string"


@pytest.fixture(scope="module")
def shared(shared_place):
    """Twelve numbers of four colours, given to three tasks by each grouping."""
    source = shared_place.add("numbers", id=list(range(12)), colour=["red", "green", "blue", "grey"] * 3)
    topology = Topology("shared")
    numbers = topology.spout("numbers", DeltaSpout(source, key="id"))
    inputs = {
        "shuffled": numbers.shuffle_grouping(),
        "coloured": numbers.fields_grouping("colour"),
        "first": numbers.global_grouping(),
        "every": numbers.all_grouping(),
    }
    for name, each in inputs.items():
        streams = {"odd": SHARES}
        bolt = topology.rich_bolt(each, schema=SHARES, streams=streams, tasks=3, name=name)(Shares)
        topology.publish(bolt, to=shared_place.path(f"{name}_even"))
        topology.publish(bolt.stream("odd"), to=shared_place.path(f"{name}_odd"))

    @topology.bolt("coloured", "first.odd")
    def both(left, right):
        return left.select("anchor", "id").unionByName(right.select("anchor", "id"))

    topology.publish(both, to=shared_place.path("both"))
    run = shared_place.run(topology)
    run_cycle(run)
    return run


def given(place, bolt):
    """Number -> the tasks that were given it, from both of the bolt's tables."""
    found = {}
    for number, task, emitter in place.rows(f"{bolt}_even") + place.rows(f"{bolt}_odd"):
        assert emitter == "numbers"
        found.setdefault(number, []).append(task)
    return found


def test_the_tasks_share_the_tuples_of_a_shuffle_grouping(shared, shared_place):
    found = given(shared_place, "shuffled")
    assert [len(tasks) for tasks in found.values()] == [1] * 12
    assert len({task for tasks in found.values() for task in tasks}) > 1  # by a hash of where a tuple lies


def test_tuples_that_agree_go_to_one_task_of_a_fields_grouping(shared, shared_place):
    found = given(shared_place, "coloured")
    assert all(found[number] == found[number % 4] for number in range(12))


def test_the_first_task_is_given_all_of_a_global_grouping(shared, shared_place):
    assert given(shared_place, "first") == {number: [0] for number in range(12)}


def test_every_task_is_given_all_of_an_all_grouping(shared, shared_place):
    assert given(shared_place, "every") == {number: [0, 1, 2] for number in range(12)}


def test_a_stream_has_its_own_readers_and_its_own_table(shared, shared_place):
    assert {row[0] for row in shared_place.rows("every_odd")} == {1, 3, 5, 7, 9, 11}
    assert shared_place.rows("both") == [(number,) for number in range(12)]


def test_messages_of_several_streams_are_complete_and_published_once(shared):
    result = audit_report(shared.topology, shared.store)
    assert (result.emitted, result.acked, result.passed) == (12, 12, True)


@pytest.mark.extended
def test_a_tuple_that_one_task_of_all_holds_back_stays_open(place, states):
    class Lazy(RichBolt):
        def prepare(self, context):
            self.context = context

        def execute(self, tup, collector):
            if self.context.task != 1 or tup.held:
                collector.ack(tup)

    topology = Topology("lazy")
    numbers = topology.spout("numbers", DeltaSpout(place.add("numbers", id=[1]), key="id"))
    topology.rich_bolt(numbers.all_grouping(), schema="id bigint", tasks=2)(Lazy)
    run = place.run(topology)
    run_cycle(run)
    assert states(run) == [(1, 1, "pending")]
    place.add("numbers", id=[2])
    run_cycle(run)
    assert states(run) == [(1, 1, "acked"), (2, 1, "pending")]


@pytest.mark.extended
def test_a_run_that_is_stopped_at_every_step_joins_each_pair_once(place):
    run = place.run(pairing(place))
    place.add("lefts", id=[1, 2], key=[10, 20], value=["a", "b"])
    stopped_once_at_each_step(run)
    place.add("rights", id=[1, 2], key=[10, 20], value=["A", "B"])
    stopped_once_at_each_step(run)
    assert place.rows("pairs") == [(10, "a", "A", True), (20, "b", "B", True)]
    assert audit_report(run.topology, run.store).passed


@pytest.mark.extended
def test_what_a_rich_bolt_held_back_is_failed_by_the_bolt_in_its_place(place, states):
    run = place.run(pairing(place))
    place.add("lefts", id=[1], key=[10], value=["a"])
    run_cycle(run)
    topology = Topology("pairing")
    lefts = topology.spout("lefts", DeltaSpout(place.path("lefts"), key="id"))
    topology.bolt(lefts, name="pairs")(lambda tuples: tuples.select("anchor", "value"))
    place.add("lefts", id=[2], key=[20], value=["b"])
    run_cycle(place.run(topology))
    assert states(run) == [(1, 1, "failed"), (1, 2, "retrying"), (2, 1, "acked")]


NOWHERE = Topology("nowhere")
SOURCE = NOWHERE.spout("source", DeltaSpout("/nowhere", key="id"))


@pytest.mark.parametrize("add", [NOWHERE.bolt, partial(NOWHERE.basic_bolt, schema="id int")])
def test_a_grouping_of_a_bolt_without_tasks_is_refused(add):
    with pytest.raises(TopologyError, match="Bolt plain takes no grouping"):
        add(SOURCE.fields_grouping("id"), name="plain")(lambda tuples: tuples)


def test_a_bolt_without_a_task_is_refused():
    with pytest.raises(SettingsError, match="tasks of bolt pairs must be 1 to 1,000, not 0"):
        NOWHERE.rich_bolt(SOURCE, schema="id int", tasks=0)(Pairs)


def test_a_stream_that_a_bolt_does_not_have_cannot_be_read():
    topology = Topology("nowhere")
    source = topology.spout("source", DeltaSpout("/nowhere", key="id"))
    pairs = topology.rich_bolt(source, schema="id int", streams={"odd": "id int"})(Pairs)
    topology.rich_bolt(pairs.stream("even"), schema="id int", name="evens")(Pairs)
    with pytest.raises(TopologyError, match=r"evens reads pairs\.even, which topology nowhere does not have"):
        topology.validate()


@pytest.mark.parametrize(
    ("odd", "told"),
    [
        ("id string", "emits id to odd in another type than"),
        ("ID bigint", "emits ID to odd in another case than id"),
    ],
)
def test_streams_of_a_bolt_that_disagree_on_a_column_are_refused(place, odd, told):
    topology = Topology("torn")
    numbers = topology.spout("numbers", DeltaSpout(place.add("numbers", id=[1]), key="id"))
    topology.rich_bolt(numbers, schema="id bigint", streams={"odd": odd})(Shares)
    with pytest.raises(BoltError, match=told):
        run_cycle(place.run(topology))
