"""Committed positions: how far each partition is emitted and settled, whatever is in flight or gone."""

from dataclasses import replace

import polars as pl
import pytest
from deltalake import DeltaTable

from acker.batches.batch import finish
from acker.cli import rendering as render
from acker.core.events import State
from acker.core.retry import ExponentialBackoff
from acker.operations.cycle import room_for_new, run_bolt, run_cycle, run_spout
from acker.operations.fold import fold
from acker.operations.replay import plan_by_hand
from acker.operations.selection.selection import Selection
from acker.reports.status import status_report
from tests.kit.places import upto
from tests.kit.polars_topology import PolarsTopology, TableSource

# Cases of Storm's OffsetManager: what is emitted, what of it is not acked at first, and up to where is
# committed then and once all is acked.
STORM = {
    "gap_in_middle_of_acked": ([0, 1, 2, 5, 6], [5], 3, 7),
    "gap_before_acked": ([5, 6], [5], None, 7),
    "no_acks": ([], [], None, None),
    "one_ack": ([0], [], 1, 1),
    "multiple_acks": ([0, 1], [], 2, 2),
    "acked_offset_gap": ([0, 1, 2], [1], 1, 3),
    "acked_but_not_emitted_offset_gap": ([0, 2], [], 3, 3),
    "unacked_offset_gap": ([0, 1], [1], 1, 2),
}


def room(run, spout):
    return room_for_new(run.topology, run.snapshot(), spout)


@pytest.fixture(scope="module")
def offsets(shared_place):
    """Per case (emitted_upto, committed_upto, behind): while messages are held back, and afterwards."""
    positions = [(case, offset) for case, (emitted, *_) in STORM.items() for offset in emitted]
    cases, offsets = map(list, zip(*positions, strict=True))
    source = TableSource(shared_place.add("offsets", case=cases, id=offsets), partition="case")
    held = [f"{case}:{offset}" for case, (_, live, *_) in STORM.items() for offset in live]
    topology = PolarsTopology("offsets", retry=ExponentialBackoff(initial_seconds=60))
    messages = topology.spout("messages", source)

    @topology.bolt(messages)
    def checked(tuples):
        is_held = pl.concat_str("case", "id", separator=":").is_in(list(held))
        return tuples.with_columns(_error=pl.when(is_held).then(pl.lit("held back")))

    run = shared_place.run(topology)
    run_cycle(run)
    before = {partition: ends for _, partition, *ends in upto(run)}
    held.clear()
    shared_place.clock.advance(60)
    run_cycle(run)
    return before, {partition: ends for _, partition, *ends in upto(run)}


@pytest.mark.parametrize("case", [case for case, (emitted, *_) in STORM.items() if emitted])
def test_a_partition_commits_as_in_storms_offset_manager(offsets, case):
    emitted, live, first, last = STORM[case]
    end = emitted[-1] + 1
    held = [end, first, end - live[0] if live else 0]
    assert (offsets[0][case], offsets[1][case]) == (held, [end, last, 0])


def test_a_partition_without_messages_has_no_position(offsets):
    assert [sorted(found) for found in offsets] == [sorted(set(STORM) - {"no_acks"})] * 2


@pytest.fixture
def run(place):
    """Of the numbers 1, 2 and 3 the bolt fails those that are in the list `bad`; each is tried twice."""
    topology = PolarsTopology("steps", retry=ExponentialBackoff(initial_seconds=60, limit=1))
    numbers = topology.spout("numbers", TableSource(place.add("numbers", id=[1, 2, 3])))
    topology.bolt(numbers, name="checked")(
        lambda tuples: tuples.with_columns(_error=pl.when(pl.col("id").is_in(place.bad)).then(pl.lit("bad")))
    )
    place.bad = []
    return place.run(topology)


def test_messages_are_committed_when_a_fold_has_settled_them_and_not_before(place, run):
    numbers, checked = run.topology.spouts[0], run.topology.bolts[0]
    found = [upto(run)]
    for step in (lambda: run_spout(run, numbers), lambda: fold(run), lambda: run_bolt(run, checked)):
        step()
        found.append(upto(run))
    fold(run)
    place.add("numbers", id=[7])
    run_spout(run, numbers)
    in_flight = [("numbers", "0", 4, None, 3)]
    assert (found, upto(run)) == ([[], in_flight, in_flight, in_flight], [("numbers", "0", 8, 4, 1)])


def test_a_batch_that_is_not_logged_is_not_emitted(run):
    def end(step):
        if step.name == "written":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_spout(replace(run, on_step=end), run.topology.spouts[0])
    assert upto(run) == []


def test_dead_letters_and_lost_messages_are_settled(place, run):
    place.bad[:] = [2, 3]
    run_cycle(run)
    assert upto(run) == [("numbers", "0", 4, 2, 2)]
    DeltaTable(place.path("numbers")).delete("id = 2")
    place.clock.advance(60)
    run_cycle(run)
    assert status_report(run.topology, run.store, run.clock())["states"] == {
        "acked": 1,
        "failed": 3,
        "lost": 1,
        "dead_letter": 1,
    }
    assert upto(run) == [("numbers", "0", 4, 4, 0)]


def test_a_replay_by_hand_takes_the_commit_back_until_it_is_settled(run):
    run_cycle(run)
    chosen = Selection(states=(State.ACKED,), positions=(("0", 2),))
    _, (batch,) = plan_by_hand(run, chosen, "why", "somebody")
    finish(run, batch)
    assert upto(run) == [("numbers", "0", 4, 2, 2)]
    run_cycle(run)
    assert upto(run) == [("numbers", "0", 4, 4, 0)]


def test_status_tells_people_how_far_a_spout_with_one_partition_is(run, capsys):
    run_cycle(run)
    render.status(status_report(run.topology, run.store, run.clock()))
    assert capsys.readouterr().out.endswith(
        "numbers: emitted up to 4, committed up to 4\n"
        "numbers: what is unread is unknown: the spout has no method `backlog`\n"
    )


def test_messages_that_are_not_tracked_are_committed_at_once_and_take_no_room(place):
    topology = PolarsTopology("forgotten", max_pending=2)
    source = TableSource(place.add("numbers", id=[1, 2, 3]))
    numbers = topology.spout("numbers", source, reliable="id <> 2")
    topology.bolt(numbers, name="same")(lambda tuples: tuples)
    loose = topology.spout("loose", source, reliable=False)
    run = place.run(topology)
    assert (run_spout(run, loose), room(run, "loose")) == ((1, 2, 0), 2)
    assert (run_spout(run, numbers), room(run, "numbers")) == ((1, 2, 0), 1)
    assert upto(run) == [("numbers", "0", 3, None, 2), ("loose", "0", 3, 3, 0)]
