"""Bolts that come, go and read something else while messages are in flight: no loss, and no false ack."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta

import pytest

from acker.operations.cycle import drain, run_cycle
from acker.operations.fold import fold, waiting_batches
from acker.operations.maintenance.trim import trim_streams
from acker.reports.audit import audit_report
from acker.reports.status import status_report
from tests.kit.changing import (
    ADDS,
    AGAIN,
    AGAIN_SOON,
    CHAIN,
    POLARS,
    REMOVED,
    UNREAD,
    advance,
    build,
    failed,
    inputs,
    span,
)
from tests.kit.polars_topology import acked
from tests.kit.stops import Stop, stopping_at


@pytest.fixture
def pending(place):
    """Numbers 1 and 2, which have passed `tens` and wait for `hundreds`."""
    place.add("numbers", id=[1, 2])
    run = place.run(build(POLARS, place, CHAIN))
    advance(run, "numbers", "tens")
    return run


def test_a_bolt_that_is_added_begins_with_the_first_batch_that_is_planned_for_it(place, pending, states):
    both = {**CHAIN, "sums": ("tens",), "totals": ("hundreds", "sums")}
    run = place.run(build(POLARS, place, both))
    run_cycle(run)
    assert states(run) == [(1, 1, "acked"), (2, 1, "acked")]
    place.add("numbers", id=[3])
    run_cycle(run)
    assert states(run) == [(1, 1, "acked"), (2, 1, "acked"), (3, 1, "acked")]
    assert acked(run, "totals") == [(10_111,), (10_112,), (10_113,), (11_013,)]
    assert audit_report(run.topology, run.store).passed


def test_what_waited_for_a_bolt_that_was_removed_fails_and_completes_without_it(place, pending, states):
    run = place.run(build(POLARS, place, {"tens": ("numbers",)}))
    fold(run)
    assert failed(run) == [("hundreds", 1, REMOVED, 2)]
    assert states(run) == [(n, attempt, state) for n in (1, 2) for attempt, state in AGAIN_SOON]
    drain(run)
    assert (states(run), acked(run, "tens")) == (AGAIN, [(11,), (12,)])
    assert inputs(run, "hundreds") == [("retire", {"tens": span(0, 1)})]
    assert audit_report(run.topology, run.store).passed


def test_a_bolt_that_was_removed_costs_its_messages_once(place, pending):
    run = place.run(build(POLARS, place, {"tens": ("numbers",)}))
    drain(run)
    place.add("numbers", id=[3])
    drain(run)
    assert failed(run) == [("hundreds", 1, REMOVED, 2)]
    assert acked(run, "tens") == [(11,), (12,), (13,)]


@pytest.mark.extended
def test_a_bolt_that_was_renamed_is_one_that_is_gone_and_one_that_is_new(place, pending, states):
    run = place.run(build(POLARS, place, {"tens": ("numbers",), "totals": ("tens",)}))
    drain(run)
    assert failed(run) == [("hundreds", 1, REMOVED, 2)]
    assert (states(run), acked(run, "totals")) == (AGAIN, [(10_011,), (10_012,)])
    assert audit_report(run.topology, run.store).passed


def test_a_bolt_with_another_function_goes_on_where_the_other_was(place, pending, states):
    run = place.run(build(POLARS, place, CHAIN, adds={**ADDS, "hundreds": 500}))
    drain(run)
    assert (states(run), acked(run, "hundreds")) == ([(1, 1, "acked"), (2, 1, "acked")], [(511,), (512,)])
    assert failed(run) == []


@pytest.mark.extended
def test_what_waited_for_a_bolt_that_reads_something_else_now_fails_and_is_replayed(place, pending, states):
    run = place.run(build(POLARS, place, {"tens": ("numbers",), "hundreds": ("numbers",)}))
    drain(run)
    assert failed(run) == [("hundreds", 1, UNREAD, 2)]
    assert (states(run), acked(run, "hundreds")) == (AGAIN, [(101,), (102,)])
    assert inputs(run, "hundreds") == [
        ("retire", {"tens": span(0, 1)}),
        ("next", {"numbers": span(0, 2), "tens": span(1, 1)}),
    ]
    assert audit_report(run.topology, run.store).passed


@pytest.mark.extended
def test_a_bolt_that_reads_a_stream_again_takes_nothing_twice(place, pending, states):
    drain(pending)
    place.add("numbers", id=[3])
    between = place.run(build(POLARS, place, {"tens": ("numbers",), "hundreds": ("numbers",)}))
    drain(between)
    place.add("numbers", id=[4])
    drain(pending)
    assert acked(pending, "hundreds") == [(103,), (111,), (112,), (114,)]
    assert inputs(pending, "hundreds") == [
        ("next", {"tens": span(0, 1)}),
        ("next", {"numbers": span(0, 2), "tens": span(1, 1)}),
        ("next", {"tens": span(1, 3), "numbers": span(2, 2)}),
    ]
    assert states(pending) == [(n, 1, "acked") for n in (1, 2, 3, 4)]
    assert audit_report(pending.topology, pending.store).passed


def test_a_bolt_that_comes_back_before_a_fold_goes_on_as_if_it_had_been_there(place, pending, states):
    between = place.run(build(POLARS, place, {"tens": ("numbers",)}))
    place.add("numbers", id=[3])
    advance(between, "numbers", "tens")
    drain(pending)
    assert states(pending) == [(1, 1, "acked"), (2, 1, "acked"), (3, 1, "acked")]
    assert acked(pending, "hundreds") == [(111,), (112,)]  # number 3 was planned without `hundreds`


@pytest.mark.extended
def test_a_bolt_that_comes_back_takes_only_what_was_emitted_for_it_since(place, pending, states):
    fold(place.run(build(POLARS, place, {"tens": ("numbers",)})))
    drain(pending)
    assert (states(pending), acked(pending, "hundreds")) == (AGAIN, [(111,), (112,)])
    assert inputs(pending, "hundreds") == [
        ("retire", {"tens": span(0, 1)}),
        ("next", {"tens": span(1, 2)}),
    ]
    assert audit_report(pending.topology, pending.store).passed


@pytest.mark.extended
def test_a_bolt_that_comes_back_to_a_retirement_that_was_only_planned_carries_it_out(place, pending, states):
    shorter = build(POLARS, place, {"tens": ("numbers",)})
    with pytest.raises(Stop):
        fold(place.run(shorter, stopping_at("planned", "hundreds")))
    drain(pending)
    assert failed(pending) == [("hundreds", 1, "bolt hundreds did not read tens for a while", 2)]
    assert (states(pending), acked(pending, "hundreds")) == (AGAIN, [(111,), (112,)])


def test_a_batch_of_a_bolt_that_is_gone_fails_its_messages_if_it_was_only_planned(place, pending, states):
    stopped = replace(pending, on_step=stopping_at("planned", "hundreds"))
    with pytest.raises(Stop):
        advance(stopped, "hundreds")
    run = place.run(build(POLARS, place, {"tens": ("numbers",)}))
    drain(run)
    assert inputs(run, "hundreds") == [("next", {"tens": span(0, 1)})]
    assert failed(run) == [("hundreds", 1, REMOVED, 2)]
    assert (states(run), acked(run, "tens")) == (AGAIN, [(11,), (12,)])


def test_a_batch_of_a_bolt_that_is_gone_is_logged_as_it_is_if_it_was_written(place, pending, states):
    stopped = replace(pending, on_step=stopping_at("written", "hundreds"))
    with pytest.raises(Stop):
        advance(stopped, "hundreds")
    run = place.run(build(POLARS, place, {"tens": ("numbers",)}))
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
    run = place.run(build(POLARS, place, {"hundreds": ("numbers",)}))
    place.add("numbers", id=[3])
    drain(run)
    assert failed(run) == ([("hundreds", 1, UNREAD, 2)] if again else [])
    first = AGAIN if again else [(1, 1, "acked"), (2, 1, "acked")]
    assert states(run) == [*first, (3, 1, "acked")]
    assert acked(run, "hundreds") == ([(101,), (102,), (103,)] if again else [(103,), (111,), (112,)])
    assert audit_report(run.topology, run.store).passed


@pytest.mark.extended
def test_what_a_bolt_that_is_gone_had_written_for_another_that_is_gone_fails_too(place, pending, states):
    place.add("numbers", id=[3])
    advance(pending, "numbers")
    stopped = replace(pending, on_step=stopping_at("written", "tens"))
    with pytest.raises(Stop):
        advance(stopped, "tens")
    run = place.run(build(POLARS, place, {"sums": ("numbers",)}))
    drain(run)
    assert failed(run) == [("hundreds", 1, REMOVED, 3)]
    assert states(run) == [*AGAIN, (3, 1, "failed"), (3, 2, "acked")]
    assert acked(run, "sums") == [(1_001,), (1_002,), (1_003,)]


def test_a_change_that_is_stopped_at_every_step_ends_as_one_that_was_not(place, pending, states):
    seen = []

    def on_step(step):
        if (step.name, step.component) not in seen:
            seen.append((step.name, step.component))
            raise Stop

    run = place.run(build(POLARS, place, {"tens": ("numbers",), "totals": ("tens",)}), on_step)
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
    assert (states(run), acked(run, "totals")) == (AGAIN, [(10_011,), (10_012,)])


@pytest.mark.extended
def test_two_folds_at_once_retire_once(place, pending, states):
    run = place.run(build(POLARS, place, {"tens": ("numbers",)}))
    other = replace(run, run_id="other")
    with ThreadPoolExecutor(2) as both:
        list(both.map(fold, (run, other)))
    drain(run)
    assert inputs(run, "hundreds") == [("retire", {"tens": span(0, 1)})]
    assert failed(run) == [("hundreds", 1, REMOVED, 2)]
    assert (states(run), acked(run, "tens")) == (AGAIN, [(11,), (12,)])


@pytest.mark.extended
def test_a_first_batch_that_fails_without_a_write_leaves_no_bolt_waiting(place, states):
    place.add("numbers", id=[1])
    place.add("others", id=[2])
    spouts = ("numbers", "others")
    before = place.run(build(POLARS, place, CHAIN, spouts=spouts), stopping_at("planned", "tens"))
    with pytest.raises(Stop):
        advance(before, "numbers", "tens")
    run = place.run(build(POLARS, place, {**CHAIN, "tens": ("others",)}, spouts=spouts))
    waits = waiting_batches(run.topology, run.snapshot(), {"numbers": 1, "tens": 1})
    assert waits == {("tens", "hundreds"): [1]}
    drain(run)
    assert states(run) == [(1, 1, "failed"), (1, 2, "acked"), (2, 1, "acked")]
    assert acked(run, "hundreds") == [(112,)]


@pytest.mark.extended
def test_nothing_is_trimmed_that_is_yet_to_be_retired(place, pending):
    place.clock.advance(2 * 86_400)
    fold(pending)
    run = place.run(build(POLARS, place, {"tens": ("numbers",)}))
    assert trim_streams(run, timedelta(days=1)) == {}
    drain(run)
    assert acked(run, "tens") == [(11,), (12,)]


def test_the_status_counts_what_waits_for_the_bolts_of_today(place, pending):
    run = place.run(build(POLARS, place, {"tens": ("numbers",), "hundreds": ("numbers",)}))
    fold(run)
    found = {
        each["component"]: each for each in status_report(run.topology, run.store, run.clock())["components"]
    }
    assert (found["hundreds"]["logged"], found["hundreds"]["waiting_batches"]) == (1, {"numbers": 0})
