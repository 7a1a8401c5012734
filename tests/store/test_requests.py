"""Requests for replays: what was counted when somebody asked is emitted once somebody has approved it."""

from dataclasses import replace

import pytest

from acker.core.errors import SettingsError, StoreError
from acker.core.events import State
from acker.core.snapshot.replays import record_requested
from acker.core.store.schemas import REPLAY_REQUESTS, REPLAYS
from acker.core.store.tables import query
from acker.operations.cycle import drain
from acker.operations.replay import emit_requested, plan_requested, replay_by_hand, request_by_hand
from acker.operations.selection.requests import read_request
from acker.operations.selection.selection import Selection
from acker.reports.audit import audit_report
from tests.kit.polars_topology import PolarsTopology, TableSource

ACKED = Selection(states=(State.ACKED,))


@pytest.fixture
def run(place):
    """Three acked messages, and batches of two."""
    topology = PolarsTopology("asked", batch_rows=2)
    numbers = topology.spout("numbers", TableSource(place.add("numbers", id=[1, 2, 3])))
    topology.bolt(numbers, name="same")(lambda tuples: tuples)
    run = place.run(topology)
    drain(run)
    return run


def ask(run, selection=ACKED, request_id="asked"):
    return request_by_hand(run, selection, "why", "me", request_id)[1]


def recorded(run):
    return query("SELECT request_id, requested_by, matched FROM r", r=run.store.require(REPLAY_REQUESTS))


def test_what_matches_after_it_was_counted_is_not_emitted(run, place, states):
    request = ask(run)
    place.add("numbers", id=[4, 5, 6])
    drain(run)
    assert emit_requested(run, request) == request.matched == 3
    drain(run)
    assert states(run) == [
        *((offset, attempt, "acked") for offset in (1, 2, 3) for attempt in (1, 2)),
        *((offset, 1, "acked") for offset in (4, 5, 6)),
    ]
    assert audit_report(run.topology, run.store).passed


def test_what_somebody_else_has_replayed_meanwhile_is_left_out(run, states):
    request = ask(run)
    first = Selection(states=(State.ACKED,), positions=(("0", 1),))
    assert replay_by_hand(run, first, "why", "somebody else").replayed == 1
    assert emit_requested(run, request) == 2  # where no fold has seen it yet
    drain(run)
    assert [state for state in states(run) if state[1] > 1] == [(n, 2, "acked") for n in (1, 2, 3)]


def test_a_message_that_is_in_flight_or_was_emitted_since_is_left_out(run, place):
    every, later = ask(run), ask(run, request_id="later")
    assert emit_requested(run, every) == 3
    assert plan_requested(run, later) == []
    drain(run)
    assert plan_requested(run, later) == []


def test_a_request_that_is_emitted_again_emits_nothing_more(run):
    request = ask(run)
    assert [emit_requested(run, request) for _ in range(2)] == [3, 0]
    drain(run)
    assert emit_requested(run, request) == 0


def test_a_request_that_is_made_again_is_what_it_was_the_first_time(run, place):
    first = ask(run)
    place.add("numbers", id=[4])
    drain(run)
    assert ask(run) == first == read_request(run.store, "asked")
    assert recorded(run) == [{"request_id": "asked", "requested_by": "me", "matched": 3}]
    assert len(query("SELECT * FROM r", r=run.store.require(REPLAYS))) == 3


def test_a_request_is_of_the_messages_that_were_recorded_before_its_process_was_killed(run):
    found, other = request_by_hand(run, ACKED, "why", "me", "other")
    killed = replace(other, request_id="asked")
    record_requested(run.store, killed.plan, "asked", found.emissions.head(2))
    assert ask(run) == replace(killed, matched=2)


def test_a_request_of_nothing_stays_one(run, place):
    nothing = Selection(states=(State.DEAD_LETTER,))
    request = ask(run, nothing)
    assert (request.matched, emit_requested(run, request)) == (0, 0)
    assert ask(run, nothing) == request


def test_a_request_is_of_one_selection(run):
    request = ask(run)
    with pytest.raises(SettingsError, match="The request asked was made before with another selection"):
        ask(run, Selection(states=(State.ACKED, State.LOST)))
    assert read_request(run.store, "asked") == request


def test_a_request_that_was_not_made_is_not_emitted(run):
    with pytest.raises(StoreError, match="0 rows for the request ' OR true --"):
        read_request(run.store, "' OR true --")


def test_a_request_whose_messages_are_gone_is_not_emitted(run):
    request = ask(run)
    run.store.require(REPLAYS).delete("source_offset = 2")
    with pytest.raises(StoreError, match="has 2 messages of the request asked, which are not the 3 that"):
        emit_requested(run, request)
