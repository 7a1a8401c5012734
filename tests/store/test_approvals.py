"""Approvals: which requests need one, and that only the store's own record of an answer counts."""

from datetime import timedelta

import pytest

from acker.airflow import tasks
from acker.core.errors import SettingsError
from acker.core.events import State
from acker.core.store.schemas import REPLAY_STEPS
from acker.core.store.tables import query
from acker.operations.approvals import (
    Told,
    approval_status,
    question_of,
    record_answer,
    refused_since,
)
from acker.operations.cycle import drain
from acker.operations.replay import replay_by_hand
from acker.operations.selection.requests import read_request
from acker.operations.selection.selection import Selection
from acker.reports.health import findings
from acker.reports.looks import Look
from tests.kit.limits import LIMITS
from tests.kit.polars_topology import PolarsTopology, TableSource

LIMIT = 2
DAY_AND_MORE = 25 * 3600


@pytest.fixture
def run(place):
    """Six acked messages."""
    topology = PolarsTopology("asked")
    numbers = topology.spout("numbers", TableSource(place.add("numbers", id=[1, 2, 3, 4, 5, 6])))
    topology.bolt(numbers, name="same")(lambda tuples: tuples)
    run = place.run(topology)
    drain(run)
    return run


def ask(run, name, offsets, who="mallory"):
    """What a form does that chooses these messages."""
    run.clock.advance(1)
    form = {"states": ["acked"], "spout": "numbers", "positions": [f"0:{offset}" for offset in offsets]}
    return tasks.request_by_hand(run, form, who, name)["matched"]


def needs(run, name):
    return tasks.must_be_approved(run, name, LIMIT)


def answer(run, name, is_approved, who="ann"):
    run.clock.advance(1)
    record_answer(run, read_request(run.store, name), is_approved, who, run.clock())


def emit(run, name):
    """How many messages `emit` emits, or why none."""
    run.clock.advance(1)
    try:
        return tasks.emit_requested(run, name, LIMIT).get("messages", 0)
    except SettingsError as error:
        return str(error)


def told(run):
    """What the monitor says of approvals."""
    said = [str(each) for each in findings(Look(run.topology, run.store, LIMITS, run.clock()))]
    return [each for each in said if "#unapproved" in each]


def steps(run):
    rows = query("SELECT * FROM s ORDER BY done_at", s=run.store.require(REPLAY_STEPS))
    return [(row["request_id"], row["step"], row["done_by"]) for row in rows]


def test_only_an_answer_that_the_operator_has_recorded_lets_a_large_request_out(run):
    assert (ask(run, "much", [1, 2, 3]), needs(run, "much")) == (3, True)
    assert emit(run, "much") == (
        "The request is of 3 messages, and nobody has approved it. More than the 2 of "
        "PIPELINE_APPROVAL_LIMIT need that. Clear the task select, and it asks."
    )
    (refused,) = refused_since(run.store, run.clock() - timedelta(hours=1))
    assert (refused["request_id"], refused["requested_by"], refused["matched"]) == ("much", "mallory", 3)
    answer(run, "much", True)
    assert refused_since(run.store, run.clock() - timedelta(hours=1)) == []
    assert [emit(run, "much"), emit(run, "much")] == [3, 0]
    asked = [("much", step, who) for step, who in (("asked", "mallory"), ("refused", "mallory"))]
    assert steps(run) == [*asked, ("much", "approved", "ann"), ("much", "emitted", None)]


def test_what_was_to_be_emitted_without_an_approval_is_told_for_a_day(run):
    ask(run, "much", [1, 2, 3])
    emit(run, "much")
    assert told(run) == [
        "The replay much of 3 messages, which mallory asked for, was to be emitted at 2026-01-01 00:00 UTC "
        "although nobody has approved it: nothing was emitted. Look in Airflow's audit log who has changed "
        "the tasks of this run. See docs/how-to/alerts.md#unapproved."
    ]
    run.clock.advance(DAY_AND_MORE)
    assert told(run) == []


def test_the_newest_answer_counts_and_one_of_another_request_does_not(run):
    ask(run, "much", [1, 2, 3])
    ask(run, "other", [4, 5, 6])
    answer(run, "other", True)
    answer(run, "much", True)
    answer(run, "much", False)
    assert emit(run, "much") == (
        "The request is of 3 messages, and a person has rejected it. Ask again, as a new request."
    )
    refused = refused_since(run.store, run.clock() - timedelta(hours=1))
    assert [each["request_id"] for each in refused] == ["much"]
    assert emit(run, "other") == 3


def test_what_one_person_asks_for_in_pieces_counts_together(run):
    for name, offset in (("a", 1), ("b", 2), ("c", 3)):
        ask(run, name, [offset])
    assert [needs(run, name) for name in "abc"] == [False, False, True]
    assert [emit(run, "a"), emit(run, "b")] == [1, 1]
    assert emit(run, "c") == (
        "The request is of 1 messages, and nobody has approved it. Together with 2 other requests of "
        "mallory, open or of the last 24 hours and not approved, it is of 3 messages. More than the 2 of "
        "PIPELINE_APPROVAL_LIMIT need that. Clear the task select, and it asks."
    )
    ask(run, "d", [4], who="bob")
    assert not needs(run, "d")


def test_what_was_kept_open_for_days_and_is_let_out_at_once_counts_together(run, place):
    for name, offsets in (("a", [1, 2]), ("b", [3, 4])):
        ask(run, name, offsets)
        place.clock.advance(DAY_AND_MORE)
    assert needs(run, "b")  # since the first is open
    assert emit(run, "a") == 2
    assert needs(run, "b")  # since it was emitted just now
    place.clock.advance(DAY_AND_MORE)
    assert emit(run, "b") == 2


def test_what_another_has_approved_or_rejected_does_not_count(run):
    ask(run, "approved", [1, 2, 3])
    answer(run, "approved", True)
    ask(run, "rejected", [4, 5, 6])
    answer(run, "rejected", False)
    ask(run, "small", [4, 5])
    assert not needs(run, "small")


def test_what_is_named_like_a_forgetting_counts_and_one_does_not(run):
    ask(run, "forget-1", [1, 2])
    ask(run, "next", [3])
    assert needs(run, "next")


def test_what_the_command_emits_in_somebodys_name_counts_for_a_day(run, place):
    chosen = Selection(states=(State.ACKED,), positions=(("0", 1), ("0", 2)))
    replay_by_hand(run, chosen, "why", "mallory")
    drain(run)
    ask(run, "next", [3])
    assert needs(run, "next")
    place.clock.advance(DAY_AND_MORE)
    assert not needs(run, "next")


def test_who_approves_is_told_what_was_counted(run):
    ask(run, "a", [1])
    ask(run, "much", [1, 2, 3])
    question = question_of(run.store, read_request(run.store, "much"), run.clock())
    assert question.told == Told(chosen=3, partners=0, acked=3, gone=0, unchecked=question.told.unchecked)
    assert question.together.startswith("Together with 1 other request of mallory")
    assert approval_status(run.store, question.request, run.clock()).messages == 1
