"""What became of the messages of a replay by hand: acked, given up again, or open still."""

import polars as pl
import pytest
from deltalake import DeltaTable

from acker.core.events import State
from acker.core.retry import ExponentialBackoff
from acker.operations.cycle import drain, run_cycle
from acker.operations.replay import emit_requested, replay_by_hand, request_by_hand
from acker.operations.selection.selection import Selection
from acker.reports.replayed import Replayed, replayed
from tests.kit.polars_topology import PolarsTopology, TableSource

GIVEN_UP = Selection(states=(State.DEAD_LETTER,))


@pytest.fixture
def run(place):
    """Of five messages 2, 3 and 4 are dead letters; once the table `mended` is there 2 and 3 succeed."""
    topology = PolarsTopology("mended", batch_rows=2, retry=ExponentialBackoff(initial_seconds=60, limit=0))
    numbers = topology.spout("numbers", TableSource(place.add("numbers", id=[1, 2, 3, 4, 5])))

    @topology.bolt(numbers)
    def checked(tuples):
        bad = [4] if (place.folder / "mended").exists() else [2, 3, 4]
        return tuples.with_columns(_error=pl.when(pl.col("id").is_in(bad)).then(pl.lit("broken")))

    run = place.run(topology)
    drain(run)
    place.add("mended", is_there=[True])
    return run


def ask(run, selection=GIVEN_UP, request_id="asked"):
    return request_by_hand(run, selection, "why", "me", request_id)[1]


def counts(run, request_id="asked"):
    return tuple(replayed(run.store, request_id).counts.values())


def test_a_replay_is_open_until_a_fold_has_seen_what_became_of_each_message(run):
    assert emit_requested(run, ask(run)) == 3
    assert counts(run) == (3, 3, 0, 0, 0, 3)
    drain(run)
    found = replayed(run.store, "asked")
    assert found == Replayed("mended", matched=3, emitted=3, acked=2, dead_letter=1)
    assert (found.open, found.has_failed) == (0, True)
    assert str(found) == "Of 3 messages that were emitted again: acked 2, given up again 1."


def test_what_was_asked_for_and_not_emitted_is_no_replay(run):
    ask(run)
    assert [replayed(run.store, each) for each in ("asked", "nobody")] == 2 * [Replayed("mended")]


def test_a_message_that_somebody_else_has_emitted_is_not_counted(run):
    request = ask(run)
    replay_by_hand(run, Selection(states=(State.DEAD_LETTER,), positions=(("0", 2),)), "why", "her", "hers")
    assert emit_requested(run, request) == 2
    drain(run)
    assert (counts(run), counts(run, "hers")) == ((3, 2, 1, 1, 0, 0), (1, 1, 1, 0, 0, 0))
    left = "acked 1, given up again 1. Left out, since others had emitted them or they were in flight: 1."
    assert str(replayed(run.store, "asked")).endswith(left)


def test_an_earlier_ack_does_not_count_and_a_later_attempt_does(run):
    emit_requested(run, ask(run, Selection(states=(State.ACKED, State.DEAD_LETTER))))
    assert counts(run) == (5, 5, 0, 0, 0, 5)
    drain(run)
    assert counts(run) == (5, 5, 4, 1, 0, 0)
    replay_by_hand(run, GIVEN_UP, "again", "me", "later")
    run_cycle(run)
    assert (counts(run), counts(run, "later")) == ((5, 5, 4, 1, 0, 0), (1, 1, 0, 1, 0, 0))


def test_a_message_that_is_gone_from_its_source_is_lost(run, place):
    DeltaTable(place.path("numbers")).delete("id = 3")
    emit_requested(run, ask(run))
    drain(run)
    assert counts(run) == (3, 3, 1, 1, 1, 0)
