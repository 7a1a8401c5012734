"""Hooks: what a topology's own functions hear of each fold, and who calls them."""

import logging
from dataclasses import replace

import polars as pl
import pytest
from deltalake import DeltaTable

from acker.core.retry import ExponentialBackoff
from acker.operations.cycle import run_cycle, run_spout
from acker.operations.fold import fold
from acker.topology.hooks import Hook, Message, Notice
from tests.kit.polars_topology import PolarsTopology, TableSource


def unread(place, **hooks):
    """A run of a topology whose spout nobody reads, so that a fold acks what it sees emitted."""
    topology = PolarsTopology("unread")
    topology.spout("numbers", TableSource(place.add("numbers", id=[1, 2, 3])))
    for name, function in hooks.items():
        getattr(topology, name)(function)
    return place.run(topology)


def emit(run):
    run_spout(run, run.topology.spouts[0])


def messages(*offsets, attempt=1, reason=None, component=None):
    return tuple(Message("numbers", "0", offset, attempt, reason, component) for offset in offsets)


@pytest.fixture(scope="module")
def heard(shared_place):
    """What all hooks hear, fold by fold: of 12 messages 2, 3 and 4 fail; then 2 is mended and 4 is gone."""
    place, broken, notices = shared_place, {2, 3, 4}, []
    topology = PolarsTopology("told", retry=ExponentialBackoff(initial_seconds=60, limit=1))
    numbers = topology.spout("numbers", TableSource(place.add("told", id=list(range(1, 13)))))

    @topology.bolt(numbers)
    def checked(tuples):
        return tuples.with_columns(_error=pl.when(pl.col("id").is_in(list(broken))).then(pl.lit("broken")))

    for hook in Hook:
        getattr(topology, hook)(notices.append)
    run = place.run(topology)
    run_cycle(run)
    run_cycle(run)
    broken.remove(2)
    DeltaTable(place.path("told")).delete("id = 4")
    place.clock.advance(60)
    run_cycle(run)
    return [{n.hook: n for n in notices if n.fold == number} for number in (1, 2, 3)]


def test_a_fold_tells_what_was_emitted_acked_and_is_to_be_retried(heard):
    first = heard[0]
    assert set(first) == {"on_emit", "on_ack", "on_retry"}
    assert first["on_ack"] == Notice("told", Hook.ON_ACK, 1, 9, messages(1, *range(5, 13)))
    failed = messages(2, 3, 4, attempt=2, reason="broken", component="checked")
    assert first["on_retry"] == Notice("told", Hook.ON_RETRY, 1, 3, failed)


def test_a_notice_counts_all_messages_and_names_ten(heard):
    told = heard[0]["on_emit"]
    assert (told.count, [message.source_offset for message in told.sample]) == (12, list(range(1, 11)))


def test_a_fold_that_decides_nothing_tells_nothing(heard):
    assert heard[1] == {}


def test_replayed_messages_are_told_as_emitted_and_by_what_became_of_them(heard):
    third = heard[2]
    broken = {"reason": "broken", "component": "checked"}
    gone = messages(4, attempt=2, reason="the source no longer holds this message")
    assert third == {
        "on_emit": Notice(
            "told", Hook.ON_EMIT, 3, 2, messages(2, attempt=2) + messages(3, attempt=2, **broken)
        ),
        "on_ack": Notice("told", Hook.ON_ACK, 3, 1, messages(2, attempt=2)),
        "on_dead_letter": Notice("told", Hook.ON_DEAD_LETTER, 3, 1, messages(3, attempt=2, **broken)),
        "on_lost": Notice("told", Hook.ON_LOST, 3, 1, gone),
    }


def test_a_hook_that_raises_is_logged_and_stops_neither_the_fold_nor_the_others(place, caplog):
    told = []

    def page(notice):
        raise ConnectionError("no line")

    run = unread(place, on_emit=page, on_ack=page)
    run.topology.on_ack(told.append)
    emit(run)
    assert (fold(run).number, [notice.count for notice in told]) == (1, [3])
    assert [(record.levelno, record.getMessage()) for record in caplog.records] == [
        (
            logging.ERROR,
            f"The hook {hook} of unread raised when it was told of fold 1. "
            "The fold stands; the hook is not called again for it.",
        )
        for hook in ("on_emit", "on_ack")
    ]
    assert "no line" in caplog.text


def test_a_client_that_loses_the_race_for_a_fold_calls_no_hook(place):
    told = []
    winner = unread(place, on_emit=told.append)
    emit(winner)
    loser = replace(winner, on_step=lambda step: fold(winner) if step.name == "folding" else None)
    assert (fold(loser).number, [notice.fold for notice in told]) == (1, [1])


def test_what_a_process_did_not_tell_when_it_ended_is_not_told_later(place):
    told = []
    run = unread(place, on_emit=told.append, on_ack=told.append)
    emit(run)

    def end(step):
        if step.name == "folded":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fold(replace(run, on_step=end))
    assert (fold(run).number, told) == (2, [])


def test_messages_of_a_batch_are_emitted_once_however_many_folds_they_are_in_flight(place):
    told = []
    topology = PolarsTopology("slow")
    numbers = topology.spout("numbers", TableSource(place.add("numbers", id=[1, 2])))
    topology.bolt(numbers, name="same")(lambda tuples: tuples)
    topology.on_emit(told.append)
    run = place.run(topology)
    emit(run)
    fold(run)
    fold(run)
    place.add("numbers", id=[3])
    emit(run)
    fold(run)
    assert [(notice.fold, notice.count) for notice in told] == [(1, 2), (3, 1)]


def test_messages_that_timed_out_are_told_as_retried(place):
    told = []
    topology = PolarsTopology("late", message_timeout="1 minute", hard_timeout="1 minute", windows=1)
    numbers = topology.spout("numbers", TableSource(place.add("numbers", id=[1, 2])))
    topology.bolt(numbers, name="same")(lambda tuples: tuples)
    topology.on_retry(told.append)
    run = place.run(topology)
    emit(run)
    for _ in range(3):
        fold(run)
        place.clock.advance(60)
    reason = "not complete within 0:01:00"
    assert told == [Notice("late", Hook.ON_RETRY, 3, 2, messages(1, 2, attempt=2, reason=reason))]
