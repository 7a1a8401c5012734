"""Branches of a message, which a bolt of several inputs takes together."""

import pytest

from acker.operations.cycle import run_cycle
from tests.kit.changing import advance, inputs, span
from tests.kit.polars_topology import PolarsTopology, TableSource, acked


@pytest.fixture
def run(place):
    """A run of numbers, whose two branches are joined."""
    topology = PolarsTopology("branches", message_timeout=None)
    numbers = topology.spout("numbers", TableSource(place.add("numbers", id=[1, 2])))
    left = topology.bolt(numbers, name="left")(lambda tuples: tuples)
    right = topology.bolt(numbers, name="right")(lambda tuples: tuples)
    topology.bolt(left, right, name="both")(lambda left, right: left.join(right, on=["anchor", "id"]))
    return place.run(topology)


def test_what_is_emitted_between_the_plans_of_two_branches_is_joined_once_both_have_it(run, place, states):
    advance(run, "numbers", "left")
    place.add("numbers", id=[3])
    advance(run, "numbers", "right", "both")
    run_cycle(run)
    assert acked(run, "both") == [(1,), (2,), (3,)]
    assert states(run) == [(1, 1, "acked"), (2, 1, "acked"), (3, 1, "acked")]


def test_a_branch_that_is_ahead_waits_and_what_both_have_passed_does_not(run, place):
    advance(run, "numbers", "left", "right")
    place.add("numbers", id=[3])
    advance(run, "numbers", "right", "both")
    assert inputs(run, "both") == [("next", {"left": span(0, 1), "right": span(0, 1)})]
    advance(run, "both")
    assert len(inputs(run, "both")) == 1
    advance(run, "left", "both")
    assert inputs(run, "both")[1:] == [("next", {"left": span(1, 2), "right": span(1, 2)})]


def test_a_batch_of_one_branch_that_reaches_further_waits_for_the_other(run, place):
    advance(run, "numbers", "left")
    place.add("numbers", id=[3])
    advance(run, "numbers", "right", "both")  # whose batch has both of the spout's
    assert inputs(run, "both") == []
    advance(run, "left", "both")
    assert inputs(run, "both") == [("next", {"left": span(0, 2), "right": span(0, 1)})]
