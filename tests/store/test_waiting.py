"""What a watch finds to do, so that Airflow starts nothing for nothing."""

from dataclasses import dataclass, replace
from datetime import timedelta

import polars as pl
import pytest

from acker.batches.run import Run
from acker.core.retry import ExponentialBackoff
from acker.operations.cycle import run_bolt, run_spout
from acker.operations.fold import fold
from acker.operations.replay import replay_due
from acker.reports.waiting import waits_for_acker, waits_for_components
from acker.spouts import Backlog
from tests.kit.polars_topology import PolarsTopology, TableSource

LATER = timedelta(seconds=10)
TO_READ = "numbers has 2 messages to read"
TO_FOLD = "events of {} are to be folded"


@dataclass(frozen=True)
class Counted(TableSource):
    """A source that tells how much of it is unread."""

    def backlog(self, history):
        known = {tuple(position) for planned in history.every() for position in planned}
        unread = len(set(self._messages().select("_source_partition", "_source_offset").rows()) - known)
        return Backlog({"messages": unread} if unread else {}, None)


@pytest.fixture
def topology():
    return PolarsTopology("watched", retry=ExponentialBackoff(initial_seconds=LATER.total_seconds()))


def waits(run: Run) -> tuple[list[str], list[str]]:
    journal, now = run.snapshot(), run.clock()
    return waits_for_components(run.topology, journal, now), waits_for_acker(run.topology, journal, now)


def test_each_step_leaves_what_the_next_one_finds_and_at_last_nothing_waits(place, topology):
    numbers = topology.spout("numbers", Counted(place.add("numbers", id=[1, 2])))
    kept = topology.bolt(numbers, name="kept")(lambda tuples: tuples)
    run = place.run(topology)
    assert waits(run) == ([TO_READ], [])
    run_spout(run, numbers)
    assert waits(run) == (["kept has 1 of numbers to take"], [TO_FOLD.format("numbers")])
    fold(run)
    assert waits(run) == (["kept has 1 of numbers to take"], [])
    run_bolt(run, kept)
    assert waits(run) == ([], [TO_FOLD.format("kept")])
    fold(run)
    assert waits(run) == ([], [])
    place.add("numbers", id=[3, 4])
    assert waits(run) == ([TO_READ], [])


def test_messages_in_flight_wait_for_the_acker_each_time_the_window_turns(place, topology):
    numbers = topology.spout("numbers", Counted(place.add("numbers", id=[1, 2])))
    topology.bolt(numbers, name="kept")(lambda tuples: tuples)
    run = place.run(topology)
    run_spout(run, numbers)
    for turn in range(3):
        assert fold(run).turn.number == turn
        assert waits(run)[1] == []
        while not waits(run)[1]:
            place.clock.advance(1)
        assert waits(run)[1] == ["messages in flight may time out: 2"]


def test_messages_that_never_time_out_do_not_wait_for_the_acker(place):
    topology = PolarsTopology("watched", message_timeout=None)
    numbers = topology.spout("numbers", Counted(place.add("numbers", id=[1, 2])))
    topology.bolt(numbers, name="kept")(lambda tuples: tuples)
    run = place.run(topology)
    run_spout(run, numbers)
    fold(run)
    place.clock.advance(timedelta(days=30).total_seconds())
    assert waits(run)[1] == []


def test_a_failed_message_waits_for_the_acker_once_its_next_attempt_is_due(place, topology):
    numbers = topology.spout("numbers", Counted(place.add("numbers", id=[1, 2])))
    kept = topology.bolt(numbers, name="kept")(
        lambda tuples: tuples.with_columns(_error=pl.when(pl.col("id") == 2).then(pl.lit("no")))
    )
    run = place.run(topology)
    run_spout(run, numbers)
    run_bolt(run, kept)
    fold(run)
    assert waits(run) == ([], [])
    later = replace(run, clock=lambda: run.clock() + LATER)
    assert waits(later) == ([], ["messages are due for their next attempt: 1"])
    assert replay_due(later) == 1
    assert waits(later)[0] == ["kept has 1 of numbers to take"]


def test_a_held_batch_waits_until_its_next_try(place, topology):
    numbers = topology.spout("numbers", Counted(place.add("numbers", id=[1, 2])))

    @topology.bolt(numbers)
    def broken(tuples):
        raise OSError("no route")

    run = place.run(topology)
    run_spout(run, numbers)
    with pytest.raises(OSError, match="no route"):
        run_bolt(run, broken)
    assert waits(run)[0] == []
    later = replace(run, clock=lambda: run.clock() + LATER)
    assert waits(later)[0] == ["broken has an unfinished batch"]


def test_a_batch_that_was_cut_short_waits(place, topology):
    numbers = topology.spout("numbers", Counted(place.add("numbers", id=[1, 2])))

    def cut_short(step):
        if step.name == "planned":
            raise KeyboardInterrupt

    run = place.run(topology)
    with pytest.raises(KeyboardInterrupt):
        run_spout(replace(run, on_step=cut_short), numbers)
    assert waits(run) == (["numbers has an unfinished batch"], [])


def test_a_source_that_cannot_tell_counts_as_one_with_something_to_read(place, topology):
    topology.spout("numbers", TableSource(place.add("numbers", id=[])))
    said, _ = waits(place.run(topology))
    assert said == ["numbers may have something to read: the spout has no method `backlog`"]


def test_what_was_acked_waits_until_it_is_published(place, topology):
    numbers = topology.spout("numbers", Counted(place.add("numbers", id=[1, 2])))
    topology.publish(numbers, to=place.path("published"))
    run = place.run(topology)
    run_spout(run, numbers)
    fold(run)
    assert waits(run) == (["acked messages are to be published"], [])
