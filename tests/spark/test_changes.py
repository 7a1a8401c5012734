"""Bolts that come, go and read something else while messages are in flight: no loss, and no false ack."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta

import pytest

from acker.components.collector import RichBolt
from acker.operations.compact import compact, vacuum
from acker.operations.cycle import drain, run_cycle
from acker.operations.fold import fold, waiting_batches
from acker.operations.publish import publish
from acker.operations.trim import trim_streams
from acker.reports.audit import audit_report
from acker.reports.status import status_report
from acker.spouts import DeltaSpout
from acker.topology.topology import Topology
from tests.kit.stops import Stop, stopping_at
from tests.spark.changing import (
    ADDS,
    AGAIN,
    AGAIN_SOON,
    CHAIN,
    REMOVED,
    UNREAD,
    adding,
    advance,
    build,
    failed,
    inputs,
    span,
)


@pytest.fixture
def pending(place):
    """Numbers 1 and 2, which have passed `tens` and wait for `hundreds`."""
    place.add("numbers", id=[1, 2])
    run = place.run(build(place, CHAIN))
    advance(run, "numbers", "tens")
    return run


def test_a_bolt_that_is_added_begins_with_the_first_batch_that_is_planned_for_it(place, pending, states):
    both = {**CHAIN, "sums": ("tens",), "totals": ("hundreds", "sums")}
    run = place.run(build(place, both, published="totals"))
    run_cycle(run)
    assert states(run) == [(1, 1, "acked"), (2, 1, "acked")]
    place.add("numbers", id=[3])
    run_cycle(run)
    assert states(run) == [(1, 1, "acked"), (2, 1, "acked"), (3, 1, "acked")]
    assert place.rows("out") == [(10_111,), (10_112,), (10_113,), (11_013,)]
    assert audit_report(run.topology, run.store).passed


def test_what_waited_for_a_bolt_that_was_removed_fails_and_completes_without_it(place, pending, states):
    run = place.run(build(place, {"tens": ("numbers",)}, published="tens"))
    fold(run)
    assert failed(run) == [("hundreds", 1, REMOVED, 2)]
    assert states(run) == [(n, attempt, state) for n in (1, 2) for attempt, state in AGAIN_SOON]
    drain(run)
    assert (states(run), place.rows("out")) == (AGAIN, [(11,), (12,)])
    assert inputs(run, "hundreds") == [("retire", {"tens": span(0, 1)})]
    assert audit_report(run.topology, run.store).passed


def test_a_bolt_that_was_removed_costs_its_messages_once(place, pending):
    run = place.run(build(place, {"tens": ("numbers",)}, published="tens"))
    drain(run)
    place.add("numbers", id=[3])
    drain(run)
    assert failed(run) == [("hundreds", 1, REMOVED, 2)]
    assert place.rows("out") == [(11,), (12,), (13,)]


def test_a_bolt_that_was_renamed_is_one_that_is_gone_and_one_that_is_new(place, pending, states):
    run = place.run(build(place, {"tens": ("numbers",), "totals": ("tens",)}, published="totals"))
    drain(run)
    assert failed(run) == [("hundreds", 1, REMOVED, 2)]
    assert (states(run), place.rows("out")) == (AGAIN, [(10_011,), (10_012,)])
    assert audit_report(run.topology, run.store).passed


@pytest.mark.extended
def test_a_published_bolt_that_was_renamed_publishes_on_to_its_table(place, pending):
    drain(pending)
    run = place.run(build(place, {"tens": ("numbers",), "totals": ("tens",)}, published="totals"))
    drain(run)
    assert audit_report(run.topology, run.store).passed
    place.add("numbers", id=[3])
    drain(run)
    assert place.rows("out") == [(111,), (112,), (10_013,)]
    found = audit_report(run.topology, run.store)
    assert (found.passed, found.unpublished) == (True, 0)


def test_a_bolt_with_another_function_goes_on_where_the_other_was(place, pending, states):
    run = place.run(build(place, CHAIN, adds={**ADDS, "hundreds": 500}))
    drain(run)
    assert (states(run), place.rows("out")) == ([(1, 1, "acked"), (2, 1, "acked")], [(511,), (512,)])
    assert failed(run) == []


def test_what_waited_for_a_bolt_that_reads_something_else_now_fails_and_is_replayed(place, pending, states):
    run = place.run(build(place, {"tens": ("numbers",), "hundreds": ("numbers",)}))
    drain(run)
    assert failed(run) == [("hundreds", 1, UNREAD, 2)]
    assert (states(run), place.rows("out")) == (AGAIN, [(101,), (102,)])
    assert inputs(run, "hundreds") == [
        ("retire", {"tens": span(0, 1)}),
        ("next", {"numbers": span(0, 2), "tens": span(1, 1)}),
    ]
    assert audit_report(run.topology, run.store).passed


@pytest.mark.extended
def test_a_bolt_that_reads_one_more_stream_takes_what_waited_before_that_has_a_row(place, pending, states):
    wider = {"tens": ("numbers",), "sums": ("numbers",), "hundreds": ("tens", "sums")}
    run = place.run(build(place, wider))
    run_cycle(run)
    assert (states(run), place.rows("out")) == ([(1, 1, "acked"), (2, 1, "acked")], [(111,), (112,)])
    place.add("numbers", id=[3])
    run_cycle(run)
    assert place.rows("out") == [(111,), (112,), (113,), (1_103,)]


def test_a_bolt_that_reads_a_spout_without_messages_goes_on(place, pending):
    place.add("others", id=[1])
    place.spark.sql(f"DELETE FROM delta.`{place.path('others')}`")
    wider = {"tens": ("numbers",), "hundreds": ("tens", "others")}
    run = place.run(build(place, wider, spouts=("numbers", "others")))
    run_cycle(run)
    assert place.rows("out") == [(111,), (112,)]


@pytest.mark.extended
def test_a_bolt_that_reads_a_stream_again_takes_nothing_twice(place, pending, states):
    drain(pending)
    place.add("numbers", id=[3])
    between = place.run(build(place, {"tens": ("numbers",), "hundreds": ("numbers",)}))
    drain(between)
    place.add("numbers", id=[4])
    drain(pending)
    assert place.rows("out") == [(103,), (111,), (112,), (114,)]
    assert inputs(pending, "hundreds") == [
        ("next", {"tens": span(0, 1)}),
        ("next", {"numbers": span(0, 2), "tens": span(1, 1)}),
        ("next", {"tens": span(1, 3), "numbers": span(2, 2)}),
    ]
    assert states(pending) == [(n, 1, "acked") for n in (1, 2, 3, 4)]
    assert audit_report(pending.topology, pending.store).passed


def test_a_bolt_that_comes_back_before_a_fold_goes_on_as_if_it_had_been_there(place, pending, states):
    between = place.run(build(place, {"tens": ("numbers",)}, published="tens"))
    place.add("numbers", id=[3])
    advance(between, "numbers", "tens")
    drain(pending)
    assert states(pending) == [(1, 1, "acked"), (2, 1, "acked"), (3, 1, "acked")]
    assert place.rows("out") == [(111,), (112,)]  # number 3 was planned without `hundreds`


def test_a_bolt_that_comes_back_takes_only_what_was_emitted_for_it_since(place, pending, states):
    fold(place.run(build(place, {"tens": ("numbers",)}, published="tens")))
    drain(pending)
    assert (states(pending), place.rows("out")) == (AGAIN, [(111,), (112,)])
    assert inputs(pending, "hundreds") == [
        ("retire", {"tens": span(0, 1)}),
        ("next", {"tens": span(1, 2)}),
    ]
    assert audit_report(pending.topology, pending.store).passed


@pytest.mark.extended
def test_a_bolt_that_comes_back_to_a_retirement_that_was_only_planned_carries_it_out(place, pending, states):
    shorter = build(place, {"tens": ("numbers",)}, published="tens")
    with pytest.raises(Stop):
        fold(place.run(shorter, stopping_at("planned", "hundreds")))
    drain(pending)
    assert failed(pending) == [("hundreds", 1, "bolt hundreds did not read tens for a while", 2)]
    assert (states(pending), place.rows("out")) == (AGAIN, [(111,), (112,)])


def test_a_batch_of_a_bolt_that_is_gone_fails_its_messages_if_it_was_only_planned(place, pending, states):
    stopped = replace(pending, on_step=stopping_at("planned", "hundreds"))
    with pytest.raises(Stop):
        advance(stopped, "hundreds")
    run = place.run(build(place, {"tens": ("numbers",)}, published="tens"))
    drain(run)
    assert inputs(run, "hundreds") == [("next", {"tens": span(0, 1)})]
    assert failed(run) == [("hundreds", 1, REMOVED, 2)]
    assert (states(run), place.rows("out")) == (AGAIN, [(11,), (12,)])


def test_a_batch_of_a_bolt_that_is_gone_is_logged_as_it_is_if_it_was_written(place, pending, states):
    stopped = replace(pending, on_step=stopping_at("written", "hundreds"))
    with pytest.raises(Stop):
        advance(stopped, "hundreds")
    run = place.run(build(place, {"tens": ("numbers",)}, published="tens"))
    fold(run)
    assert (states(run), failed(run)) == ([(1, 1, "acked"), (2, 1, "acked")], [])


@pytest.mark.extended
@pytest.mark.parametrize(
    ("step", "again"), [("planned", True), ("written", False)], ids=["only planned", "written"]
)
def test_a_batch_with_what_its_bolt_no_longer_reads_ends_and_the_bolt_goes_on(
    place, pending, states, step, again
):
    stopped = replace(pending, on_step=stopping_at(step, "hundreds"))
    with pytest.raises(Stop):
        advance(stopped, "hundreds")
    run = place.run(build(place, {"hundreds": ("numbers",)}))
    place.add("numbers", id=[3])
    drain(run)
    assert failed(run) == ([("hundreds", 1, UNREAD, 2)] if again else [])
    first = AGAIN if again else [(1, 1, "acked"), (2, 1, "acked")]
    assert states(run) == [*first, (3, 1, "acked")]
    assert place.rows("out") == ([(101,), (102,), (103,)] if again else [(103,), (111,), (112,)])
    assert audit_report(run.topology, run.store).passed


@pytest.mark.extended
def test_what_a_bolt_that_is_gone_had_written_for_another_that_is_gone_fails_too(place, pending, states):
    place.add("numbers", id=[3])
    advance(pending, "numbers")
    stopped = replace(pending, on_step=stopping_at("written", "tens"))
    with pytest.raises(Stop):
        advance(stopped, "tens")
    run = place.run(build(place, {"sums": ("numbers",)}, published="sums"))
    drain(run)
    assert failed(run) == [("hundreds", 1, REMOVED, 3)]
    assert states(run) == [*AGAIN, (3, 1, "failed"), (3, 2, "acked")]
    assert place.rows("out") == [(1_001,), (1_002,), (1_003,)]


def test_a_change_that_is_stopped_at_every_step_ends_as_one_that_was_not(place, pending, states):
    seen = []

    def on_step(step):
        if (step.name, step.component) not in seen:
            seen.append((step.name, step.component))
            raise Stop

    run = place.run(build(place, {"tens": ("numbers",), "totals": ("tens",)}, published="totals"), on_step)
    for _ in range(20):
        try:
            drain(run)
        except Stop:
            continue
    assert seen[:4] == [
        ("planned", "hundreds"),
        ("logged", "hundreds"),
        ("folding", "acker"),
        ("folded", "acker"),
    ]
    assert inputs(run, "hundreds") == [("retire", {"tens": span(0, 1)})]
    assert failed(run) == [("hundreds", 1, REMOVED, 2)]
    assert (states(run), place.rows("out")) == (AGAIN, [(10_011,), (10_012,)])


def test_two_folds_at_once_retire_once(place, pending, states):
    run = place.run(build(place, {"tens": ("numbers",)}, published="tens"))
    other = replace(run, run_id="other")
    with ThreadPoolExecutor(2) as both:
        list(both.map(fold, (run, other)))
    drain(run)
    assert inputs(run, "hundreds") == [("retire", {"tens": span(0, 1)})]
    assert failed(run) == [("hundreds", 1, REMOVED, 2)]
    assert (states(run), place.rows("out")) == (AGAIN, [(11,), (12,)])


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
    topology.bolt(keeper.stream("seen"), name="hundreds")(adding(100))
    advance(place.run(topology), "numbers", "keeper")
    run = place.run(build(place, {"tens": ("numbers",)}, published="tens"))
    drain(run)
    assert failed(run) == [
        ("hundreds", 1, REMOVED, 2),
        ("keeper", 2, "bolt keeper is no longer in the topology", 2),
    ]
    assert (states(run), place.rows("out")) == (AGAIN, [(11,), (12,)])


@pytest.mark.extended
def test_what_was_acked_before_a_change_is_published_after_it(place, pending):
    advance(pending, "hundreds")
    fold(pending)
    run = place.run(build(place, {"hundreds": ("numbers",)}))
    place.add("numbers", id=[3])
    drain(run)
    publish(run)
    assert place.rows("out") == [(103,), (111,), (112,)]
    assert audit_report(run.topology, run.store).passed


@pytest.mark.extended
def test_a_first_batch_that_fails_without_a_write_leaves_no_bolt_waiting(place, states):
    place.add("numbers", id=[1])
    place.add("others", id=[2])
    spouts = ("numbers", "others")
    before = place.run(build(place, CHAIN, spouts=spouts), stopping_at("planned", "tens"))
    with pytest.raises(Stop):
        advance(before, "numbers", "tens")
    run = place.run(build(place, {**CHAIN, "tens": ("others",)}, spouts=spouts))
    waits = waiting_batches(run.topology, run.snapshot(), {"numbers": 1, "tens": 1})
    assert waits == {("tens", "hundreds"): [1]}
    drain(run)
    assert states(run) == [(1, 1, "failed"), (1, 2, "acked"), (2, 1, "acked")]
    assert place.rows("out") == [(112,)]


@pytest.mark.extended
def test_streams_of_components_that_are_gone_are_trimmed_and_hold_nothing(place, pending):
    place.add("others", id=[1])
    spouts = ("numbers", "others")
    drain(place.run(build(place, {**CHAIN, "sums": ("others", "tens")}, spouts=spouts)))
    place.add("numbers", id=[3])
    advance(pending, "numbers", "tens")
    run = place.run(build(place, {"tens": ("numbers",), "totals": ("tens",)}, published="totals"))
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


def test_nothing_is_trimmed_that_is_yet_to_be_retired(place, pending):
    place.clock.advance(2 * 86_400)
    fold(pending)
    run = place.run(build(place, {"tens": ("numbers",)}, published="tens"))
    assert trim_streams(run, timedelta(days=1)) == {}
    drain(run)
    assert place.rows("out") == [(11,), (12,)]


def test_the_status_counts_what_waits_for_the_bolts_of_today(place, pending):
    run = place.run(build(place, {"tens": ("numbers",), "hundreds": ("numbers",)}))
    fold(run)
    found = {
        each["component"]: each for each in status_report(run.topology, run.store, run.clock())["components"]
    }
    assert (found["hundreds"]["logged"], found["hundreds"]["waiting_batches"]) == (1, {"numbers": 0})
