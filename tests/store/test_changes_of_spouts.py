"""Spouts that go while their messages are in flight: these go on, or say why not."""

from dataclasses import replace

import pytest

from acker.core.errors import SettingsError
from acker.core.events import State
from acker.operations.cycle import drain, run_cycle, run_spout
from acker.operations.fold import fold
from acker.operations.replay import plan_by_hand
from acker.operations.selection.selection import Selection
from acker.reports.trace import trace_report
from tests.kit.changing import CHAIN, POLARS, advance, build, failed
from tests.kit.polars_topology import acked
from tests.kit.stops import Stop, stopping_at


@pytest.fixture
def with_others(place):
    """Two spouts, of which `others` has a message that failed in `tens` and waits for its retry."""
    place.add("numbers", id=[1])
    place.add("others", id=[5])
    topology = build(
        POLARS, place, {"tens": ("numbers", "others"), "hundreds": ("tens",)}, spouts=("numbers", "others")
    )
    run = place.run(topology)
    with pytest.raises(Stop):
        advance(replace(run, on_step=stopping_at("planned", "tens")), "others", "tens")
    gone = build(POLARS, place, {"hundreds": ("others",)}, spouts=("others",))
    fold(place.run(gone))
    return run


def test_messages_of_a_spout_that_is_gone_go_on_or_say_why_not(place, with_others, states):
    assert states(with_others) == [(5, 1, "failed"), (5, 2, "retrying")]
    place.add("others", id=[6])
    run_spout(with_others, with_others.topology.components["others"], replays=False)
    advance(with_others, "tens")
    place.add("others", id=[7, 8])
    place.clock.advance(-1)  # nothing is due
    advance(with_others, "others")
    run = place.run(build(POLARS, place, CHAIN))
    place.clock.advance(1)
    drain(run)
    assert states(run) == [
        (1, 1, "acked"),
        (5, 1, "failed"),
        (5, 2, "lost"),
        (6, 1, "acked"),
        (7, 1, "failed"),
        (7, 2, "lost"),
        (8, 1, "failed"),
        (8, 2, "lost"),
    ]
    assert acked(run, "hundreds") == [(111,), (116,)]
    assert ("tens", 4, "bolt tens no longer reads others", 2) in failed(run)


def test_messages_of_a_spout_that_is_gone_cannot_be_chosen_for_a_replay(place, with_others):
    run = place.run(build(POLARS, place, CHAIN))
    drain(run)
    entries = [(entry.attempt, entry.what) for entry in trace_report(run.topology, run.store, "others:0:5")]
    assert entries == [(1, "emitted"), (1, "failed by"), (1, "failed"), (2, "lost")]
    lost = Selection(states=(State.LOST,))
    assert plan_by_hand(run, lost, "why", "me")[0].count == 0
    with pytest.raises(SettingsError, match="has no spout called others"):
        plan_by_hand(run, replace(lost, spout="others"), "why", "me")


@pytest.mark.parametrize(("step", "count"), [("planned", 1), ("written", 2)])
def test_what_a_spout_that_is_gone_has_emitted_goes_on(place, states, step, count):
    place.add("numbers", id=[1])
    place.add("others", id=[2])
    both = {"tens": ("numbers", "others")}
    topology = build(POLARS, place, both, spouts=("numbers", "others"))
    stopped = place.run(topology, stopping_at(step, "others"))
    with pytest.raises(Stop):
        run_cycle(stopped)
    run = place.run(build(POLARS, place, {"tens": ("numbers",)}))
    drain(run)
    ends = [(1, 1, "acked"), (2, 1, "failed"), (2, 2, "lost")]
    assert (states(run), acked(run, "tens")) == (ends[: 2 * count - 1], [(11,)])
