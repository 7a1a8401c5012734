"""A batch that raises through no fault of a row is held: no message uses up an attempt, and others go on."""

import pytest
from pyspark.sql import functions as F

from acker.airflow import tasks
from acker.batches.batch import give_up
from acker.batches.holds import check_not_held, newest_hold
from acker.core.errors import BatchHeld, BoltError
from acker.core.retry import ExponentialBackoff
from acker.operations.cycle import run_bolt, run_cycle, run_spout
from acker.operations.fold import fold
from acker.reports.audit import audit_report
from acker.reports.status import status_report
from acker.spouts import DeltaSpout
from acker.topology.topology import Topology


class Switch:
    """What a bolt does with the column that it reads, until it is mended."""

    column = "missing"


def topology_over(place, switch: Switch) -> Topology:
    topology = Topology("switched", retry=ExponentialBackoff(initial_seconds=1, limit=0))
    numbers = topology.spout("numbers", DeltaSpout(place.path("numbers"), key="id"))
    others = topology.spout("others", DeltaSpout(place.path("others"), key="id"))

    @topology.bolt(numbers)
    def doubled(tuples):
        return tuples.select("anchor", (F.col(switch.column) * 2).alias("twice"))

    @topology.bolt(doubled, others)
    def both(doubled, others):
        return others.select("anchor", "id").unionByName(doubled.select("anchor", F.col("twice").alias("id")))

    topology.publish(both, to=place.path("both"))
    return topology


@pytest.fixture
def switched(place):
    place.add("numbers", id=[1, 2, 3])
    place.add("others", id=[10])
    switch = Switch()
    return place.run(topology_over(place, switch)), switch


@pytest.mark.extended
def test_a_bad_deploy_uses_up_no_attempt_however_often_it_is_tried(place, switched, states):
    run, switch = switched
    for _ in range(4):
        with pytest.raises(BoltError, match="missing"):
            run_cycle(run)
        place.clock.advance(3600)
    switch.column = "id"
    run_cycle(run)
    assert states(run) == [(1, 1, "acked"), (2, 1, "acked"), (3, 1, "acked"), (10, 1, "acked")]
    assert place.rows("both") == [(2,), (4,), (6,), (10,)]
    assert audit_report(run.topology, run.store).passed


@pytest.mark.extended
def test_the_bolts_after_a_held_batch_and_other_branches_go_on(place, switched):
    run, switch = switched
    switch.column = "id"
    run_cycle(run)
    switch.column = "missing"
    place.add("numbers", id=[4])
    place.add("others", id=[11])
    with pytest.raises(BoltError, match="missing"):
        run_cycle(run)
    assert place.rows("both") == [(2,), (4,), (6,), (10,), (11,)]


def test_the_next_try_comes_later_and_later_and_at_most_an_hour_later(place, switched):
    run, _ = switched
    run_spout(run, run.topology.components["numbers"])
    delays = []
    for _ in range(11):
        with pytest.raises(BoltError):
            run_bolt(run, run.topology.components["doubled"])
        hold = newest_hold(run.snapshot(), "doubled")
        delays.append((hold.retry_at - run.clock()).total_seconds())
    assert delays == [10, 20, 40, 80, 160, 320, 640, 1280, 2560, 3600, 3600]
    assert (hold.batch, hold.tries, hold.held_at) == (1, 11, run.clock())


def test_a_scheduled_task_waits_for_the_next_try_and_one_by_hand_does_not(place, switched):
    run, _ = switched
    run_spout(run, run.topology.components["numbers"])
    with pytest.raises(BoltError):
        tasks.run_bolt(run, "doubled", waits=True)
    with pytest.raises(BatchHeld, match="doubled holds batch 1 since 2026-01-01 00:00 UTC, tried once"):
        tasks.run_bolt(run, "doubled", waits=True)
    with pytest.raises(BoltError):
        tasks.run_bolt(run, "doubled", waits=False)
    place.clock.advance(20)
    with pytest.raises(BoltError):
        tasks.run_bolt(run, "doubled", waits=True)


@pytest.mark.extended
def test_a_hold_ends_with_its_batch(switched):
    run, switch = switched
    with pytest.raises(BoltError):
        run_cycle(run)
    assert status_report(run.topology, run.store, run.clock())["components"][2]["held"]["tries"] == 1
    switch.column = "id"
    run_cycle(run)
    check_not_held(run.snapshot(), "doubled", run.clock())
    assert status_report(run.topology, run.store, run.clock())["components"][2]["held"] is None


def test_a_module_that_is_not_installed_holds_the_batch(place):
    place.add("numbers", id=[1, 2])
    topology = Topology("unimported")
    numbers = topology.spout("numbers", DeltaSpout(place.path("numbers"), key="id"))

    @topology.basic_bolt(numbers, schema="id bigint")
    def priced(tup):
        import prices_of_nowhere

        yield (prices_of_nowhere.of(tup.id),)

    topology.publish(priced, to=place.path("priced"))
    run = place.run(topology)
    with pytest.raises(Exception, match="No module named 'prices_of_nowhere'"):
        run_cycle(run)
    assert newest_hold(run.snapshot(), "priced").tries == 1


def test_a_batch_that_is_given_up_fails_its_messages_with_who_and_why(switched, states):
    run, _ = switched
    with pytest.raises(BoltError):
        run_cycle(run)
    give_up(run, run.topology.components["doubled"], "given up by ada: the column will not come back")
    fold(run)
    dead = [(n, 1, state) for n in (1, 2, 3) for state in ("dead_letter", "failed")]
    assert states(run) == [*dead, (10, 1, "pending")]
    letters = audit_report(run.topology, run.store).dead_letters
    assert {each.why for each in letters} == {
        "attempt 1 in doubled: given up by ada: the column will not come back"
    }


def test_a_batch_is_given_up_after_as_many_tries_as_the_setting_says(place, switched, states, monkeypatch):
    monkeypatch.setenv("PIPELINE_GIVE_UP_AFTER_TRIES", "2")
    run, _ = switched
    run_spout(run, run.topology.components["numbers"])
    for _ in range(2):
        with pytest.raises(BoltError):
            tasks.run_bolt(run, "doubled")
    assert tasks.run_bolt(run, "doubled") == {}
    fold(run)
    assert {state for _, _, state in states(run)} == {"failed", "dead_letter"}


@pytest.mark.extended
def test_what_was_given_up_is_replayed_and_published(place, switched):
    run, switch = switched
    with pytest.raises(BoltError):
        run_cycle(run)
    give_up(run, run.topology.components["doubled"], "given up")
    fold(run)
    switch.column = "id"
    tasks.request_by_hand(run, {"states": ["dead_letter"]}, "me", "again")
    tasks.emit_requested(run, "again")
    run_cycle(run)
    assert place.rows("both") == [(2,), (4,), (6,), (10,)]
    assert audit_report(run.topology, run.store).passed


@pytest.mark.extended
def test_without_an_unfinished_batch_there_is_nothing_to_give_up(switched):
    run, switch = switched
    switch.column = "id"
    run_cycle(run)
    with pytest.raises(BoltError, match="doubled has no batch to give up"):
        give_up(run, run.topology.components["doubled"], "because")


@pytest.mark.extended
def test_a_task_says_how_many_messages_its_bolt_failed_and_why(place, caplog):
    place.add("numbers", id=[1, 2, 3, 4])
    topology = Topology("failing")
    numbers = topology.spout("numbers", DeltaSpout(place.path("numbers"), key="id"))

    @topology.basic_bolt(numbers, schema="id bigint")
    def odd(tup):
        if tup.id % 2 == 0 or tup.id == 3:
            raise ValueError("even" if tup.id % 2 == 0 else "three")
        yield (tup.id,)

    run = place.run(topology)
    run_spout(run, run.topology.components["numbers"])
    why = {"ValueError: even": 2, "ValueError: three": 1}
    assert tasks.run_bolt(run, "odd") == {"batches": 1, "failed": 3, "why": why}
    assert "odd failed 3 messages: 2 × ValueError: even (such as numbers:0:" in caplog.text
