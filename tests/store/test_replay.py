"""Replays: what is due is emitted once, what people choose is what they get, and what is gone is lost."""

from dataclasses import replace
from datetime import timedelta

import polars as pl
import pytest
from deltalake import DeltaTable

from acker.batches.batch import finish
from acker.batches.plan import plan
from acker.components.spout import history
from acker.core.errors import SettingsError, StoreError
from acker.core.events import State
from acker.core.retry import ExponentialBackoff
from acker.core.snapshot.inputs import SourceRange
from acker.core.snapshot.replays import messages_of
from acker.core.snapshot.settled import nothing_passed
from acker.core.store.schemas import REPLAYS, stream
from acker.core.store.tables import query
from acker.operations.cycle import drain, run_cycle, run_spout
from acker.operations.fold import fold
from acker.operations.replay import DryRun, dry_run, plan_by_hand, plan_due, replay_by_hand
from acker.operations.selection.matching import select
from acker.operations.selection.requests import read_request
from acker.operations.selection.selection import Selection
from acker.reports.audit import audit_report
from acker.reports.failures import commonest_failures
from tests.kit.polars_topology import PolarsTopology, TableSource

BROKEN = "it's broken"


def unreliable(place):
    """Of six messages 2 and 3 fail, and 4 does with another reason; all may be tried twice."""
    topology = PolarsTopology("unreliable", retry=ExponentialBackoff(initial_seconds=60, limit=1))
    numbers = topology.spout("numbers", TableSource(place.path("numbers")))

    @topology.bolt(numbers)
    def checked(tuples):
        broken = pl.when(pl.col("id").is_in([2, 3])).then(pl.lit(BROKEN))
        return tuples.with_columns(_error=broken.when(pl.col("id") == 4).then(pl.lit("50% off")))

    return topology


def test_a_replay_by_hand_does_not_pass_over_a_batch_that_another_run_has_planned(place):
    place.add("numbers", id=[1])
    run = place.run(unreliable(place))
    run_cycle(run)
    place.add("numbers", id=[5, 6])
    spout = run.topology.spouts[0]
    journal = run.snapshot()
    planned = spout.source.next_range(run.spark, history(journal, spout.name), 10)
    plan(replace(run, run_id="other"), journal, spout.name, "next", SourceRange(planned))
    _, batches = plan_by_hand(run, Selection(states=(State.ACKED,)), "why", "me")
    for batch in batches:
        finish(run, batch)
    run_cycle(run)
    assert audit_report(run.topology, run.store).acked == 3


def test_what_is_due_is_emitted_once_however_often_the_spout_runs_before_a_fold(place):
    place.add("numbers", id=[2, 3])
    run = place.run(unreliable(place))
    run_cycle(run)
    place.clock.advance(60)
    assert [run_spout(run, spout) for spout in 2 * run.topology.spouts] == [(1, 0, 2), (0, 0, 0)]


def chosen(run, **conditions):
    """(source_offset, attempt) of what a selection matches, and how many are in flight."""
    matched = select(run.topology, run.snapshot(), Selection(**conditions))
    return matched.emissions.select("source_offset", "attempt").rows(), matched.in_flight


def emissions(run, batch):
    """(source_partition, source_offset, attempt, replaces) of a replay's messages."""
    return sorted(messages_of(run.store, batch).rows())


def overtaken(run, other, at_call):
    """`run`, whose `at_call`-th look at the clock is when `other` plans all that is due."""
    calls = []

    def clock():
        calls.append(1)
        if len(calls) == at_call:
            other_batches.append(plan_due(other, other.snapshot(), other.topology.spouts[0]))
        return run.clock()

    other_batches = []
    return replace(run, clock=clock, run_id="overtaken"), other_batches


@pytest.fixture(scope="module")
def failed(shared_place):
    """After the first cycle: messages 2, 3 and 4 wait for their retry, which is due in 60 seconds."""
    shared_place.add("numbers", id=[1, 2, 3, 4, 5, 6])
    run = shared_place.run(unreliable(shared_place))
    run_cycle(run)
    return run


@pytest.fixture(scope="module")
def due(failed, shared_place):
    """What two runs planned that took up the same fold at once, at three moments."""
    spout = failed.topology.spouts[0]
    shared_place.clock.advance(59)
    early = plan_due(failed, failed.snapshot(), spout)
    shared_place.clock.advance(1)
    loser, planned = overtaken(failed, replace(failed, run_id="winner"), at_call=2)
    lost = plan_due(loser, loser.snapshot(), spout)
    return early, lost, planned, plan_due(replace(failed, run_id="late"), failed.snapshot(), spout)


@pytest.fixture(scope="module")
def settled(due, failed, shared_place):
    """After the replay: 2 and 3 are dead letters, 4 is no longer in the source, and 7 and 8 are in flight."""
    DeltaTable(shared_place.path("numbers")).delete("id = 4")
    run_cycle(failed)
    shared_place.add("numbers", id=[7, 8])
    shared_place.clock.advance(60)
    run_spout(failed, failed.topology.spouts[0])
    fold(failed)
    return failed


def test_messages_that_wait_for_their_retry_can_be_chosen_before_it_is_due(failed):
    assert chosen(failed, states=(State.RETRYING,)) == ([(2, 2), (3, 2), (4, 2)], 0)


def test_nothing_is_replayed_before_it_is_due(due):
    assert due[0] is None


def test_of_two_runs_that_replay_one_fold_only_one_plans_it(due, failed):
    _, loser, (winner,), late = due
    assert (loser, late) == (None, None)
    assert (winner.kind, winner.number, winner.run_id) == ("replay", 2, "winner")
    assert emissions(failed, winner) == [("0", 2, 2, None), ("0", 3, 2, None), ("0", 4, 2, None)]


def test_a_replay_ends_in_dead_letters_and_what_is_gone_is_lost(settled, states):
    assert states(settled) == [
        (1, 1, "acked"),
        (2, 1, "failed"),
        (2, 2, "dead_letter"),
        (2, 2, "failed"),
        (3, 1, "failed"),
        (3, 2, "dead_letter"),
        (3, 2, "failed"),
        (4, 1, "failed"),
        (4, 2, "lost"),
        (5, 1, "acked"),
        (6, 1, "acked"),
        (7, 1, "pending"),
        (8, 1, "pending"),
    ]


def test_a_lost_message_fails_the_audit_with_its_reason(settled):
    found = audit_report(settled.topology, settled.store)
    assert (found.verdict, found.lost, found.dead_letter, found.pending) == ("fail", 1, 2, 2)
    (finding,) = found.findings["lost"]
    assert (finding.message, finding.why) == (
        "numbers:0:4",
        "attempt 2: the source no longer holds this message",
    )


@pytest.mark.parametrize(
    ("conditions", "found", "in_flight"),
    [
        ({}, [(2, 3), (3, 3)], 2),
        ({"states": (State.DEAD_LETTER, State.LOST)}, [(2, 3), (3, 3), (4, 3)], 2),
        ({"states": (State.ACKED,)}, [(1, 2), (5, 2), (6, 2)], 2),
        ({"states": (State.RETRYING,)}, [], 2),
        ({"spout": "numbers", "limit": 1}, [(2, 3)], 2),
        ({"positions": (("0", 3), ("0", 8), ("0", 99))}, [(3, 3)], 1),
        ({"reason": "IT'S"}, [(2, 3), (3, 3)], 0),
        ({"reason": "50%", "states": (State.DEAD_LETTER,)}, [], 0),
        ({"reason": "' OR '1' = '1"}, [], 0),
        ({"reason": "%"}, [], 0),
        ({"positions": (("0' OR '1' = '1", 2),)}, [], 0),
        ({"partition": "?"}, [(2, 3), (3, 3)], 2),
        ({"partition": "*0*"}, [(2, 3), (3, 3)], 2),
        ({"partition": "."}, [], 0),
        ({"partition": "[0]"}, [], 0),
    ],
)
def test_a_selection_finds_what_it_says_and_leaves_messages_in_flight_alone(
    settled, conditions, found, in_flight
):
    assert chosen(settled, **conditions) == (found, in_flight)


def test_a_selection_by_time_includes_both_ends(settled):
    last = settled.clock()
    replayed, first = last - timedelta(seconds=60), last - timedelta(seconds=120)
    assert chosen(settled, since=last) == ([], 2)
    assert chosen(settled, since=replayed, until=replayed) == ([(2, 3), (3, 3)], 0)
    assert chosen(settled, states=(State.ACKED,), until=first) == ([(1, 2), (5, 2), (6, 2)], 0)


def test_a_selection_alone_plans_and_records_nothing(settled):
    before = settled.snapshot().planned("numbers")
    select(settled.topology, settled.snapshot(), Selection())
    assert settled.snapshot().planned("numbers") == before
    assert query("SELECT * FROM r", r=settled.store.require("replay_requests")) == []


@pytest.mark.parametrize("wrong", [{"states": ()}, {"states": (State.PENDING,)}, {"limit": 0}])
def test_a_selection_that_makes_no_sense_is_refused(wrong):
    with pytest.raises(SettingsError):
        Selection(**wrong)


def test_an_unknown_spout_is_named(settled):
    with pytest.raises(SettingsError, match="Topology unreliable has no spout called letters"):
        select(settled.topology, settled.snapshot(), Selection(spout="letters"))


@pytest.fixture(scope="module")
def by_hand(settled):
    """A replay by hand of both dead letters, taken all the way."""
    planned = plan_by_hand(settled, Selection(reason="IT'S", limit=5), "it's mended", "tester")
    before = query("SELECT * FROM r", r=settled.store.require("replay_requests"))
    run_cycle(settled)
    return planned, before


def test_a_replay_by_hand_is_recorded(by_hand, settled):
    (row,) = by_hand[1]
    assert len(row.pop("request_id")) == 32
    assert row == {
        "requested_by": "tester",
        "requested_at": settled.clock(),
        "why": "it's mended",
        "selection": '{"states": ["dead_letter"], "spout": null, "positions": [], "partition": null, '
        '"component": null, "since": null, "until": null, "reason": "IT\'S", "where": null, "limit": 5}',
        "matched": 2,
    }


def test_a_replay_by_hand_is_one_more_attempt(by_hand, settled, states):
    (matched, (batch,)), _ = by_hand
    assert (matched.count, emissions(settled, batch)) == (2, [("0", 2, 3, None), ("0", 3, 3, None)])
    assert [row for row in states(settled) if row[1] == 3 or row[0] > 6] == [
        (2, 3, "dead_letter"),
        (2, 3, "failed"),
        (3, 3, "dead_letter"),
        (3, 3, "failed"),
        (7, 1, "acked"),
        (8, 1, "acked"),
    ]


def test_messages_are_chosen_by_their_own_columns_while_their_rows_are_in_the_stream(place, states):
    topology = PolarsTopology("days")
    place.add("numbers", id=[1, 2, 3], day=["2026-01-30", "2026-01-31", "2026-01-31"])
    numbers = topology.spout("numbers", TableSource(place.path("numbers")))
    topology.bolt(numbers, name="same")(lambda tuples: tuples)
    run = place.run(topology)
    run_cycle(run)
    chosen = Selection(states=(State.ACKED,), spout="numbers", where="day = '2026-01-31'")
    counts = {"matched": 2, "in_flight": 0, "replayed": 2}
    assert replay_by_hand(run, chosen, "why", "somebody").counts == counts
    run_cycle(run)
    assert states(run) == [(1, 1, "acked"), *((id, n, "acked") for id in (2, 3) for n in (1, 2))]
    run.store.require(stream("numbers")).delete()
    assert dry_run(topology, run.store, chosen, run.clock()) == DryRun(0, 0, 0, unseen=3)


@pytest.fixture
def parted(place):
    """Five acked messages, and batches of two."""
    topology = PolarsTopology("parted", batch_rows=2)
    numbers = topology.spout("numbers", TableSource(place.add("numbers", id=[1, 2, 3, 4, 5])))
    topology.bolt(numbers, name="same")(lambda tuples: tuples)
    run = place.run(topology)
    drain(run)
    return run


ACKED = Selection(states=(State.ACKED,))


def test_a_replay_by_hand_of_many_is_planned_at_once_and_finished_by_who_comes_next(parted, states):
    _, batches = plan_by_hand(parted, ACKED, "why", "me", "asked")
    assert [(batch.number, len(batch.replay), batch.replay.replaces) for batch in batches] == [
        (4, 2, True),
        (5, 2, True),
        (6, 1, True),
    ]
    recorded = query("SELECT DISTINCT request_id, plan FROM r", r=parted.store.require(REPLAYS))
    assert {row["request_id"] for row in recorded} == {"asked"}
    plans = {read_request(parted.store, "asked").plan, *(batch.replay.plan for batch in batches)}
    assert {row["plan"] for row in recorded} == plans
    finish(parted, batches[0])
    assert replay_by_hand(parted, ACKED, "why", "me").counts == {"matched": 5, "in_flight": 0, "replayed": 0}
    assert parted.snapshot().unfinished("numbers") is None
    drain(parted)
    assert states(parted) == [(offset, n, "acked") for offset in (1, 2, 3, 4, 5) for n in (1, 2)]
    assert audit_report(parted.topology, parted.store).passed


def test_a_replay_whose_recorded_messages_were_altered_is_not_emitted(parted):
    _, (batch, *_) = plan_by_hand(parted, ACKED, "why", "me")
    table = parted.store.require(REPLAYS)
    table.update({"source_offset": "source_offset + 1"}, predicate=f"plan = '{batch.replay.plan}'")
    with pytest.raises(StoreError, match="has 2 messages of batch 4 of numbers, which are not the 2 that"):
        finish(parted, batch)
    table.restore(table.version() - 1)
    finish(parted, batch)
    table.delete()
    with pytest.raises(StoreError, match="has 0 messages of batch 5 of numbers, which are not the 2 that"):
        run_cycle(parted)


def test_nothing_has_passed_where_all_that_is_new_failed_and_nothing_else_is_said_of_retries(place):
    place.add("numbers", id=[2, 3])
    run = place.run(unreliable(place))
    run_cycle(run)
    assert nothing_passed(run.snapshot().fold, after=0)
    place.clock.advance(60)
    run_cycle(run)
    assert not nothing_passed(run.snapshot().fold, after=1)  # they are dead letters now, and were not new
    found = commonest_failures(run.snapshot(), after=0, upto=2)
    assert [(each.state, each.count) for each in found.commonest] == [("dead_letter", 2)]
    place.add("numbers", id=[4, 5])
    run_cycle(run)
    assert not nothing_passed(run.snapshot().fold, after=2)  # 4 failed, 5 passed
