"""Maintenance: what goes is what nobody needs, and nothing else that anybody sees changes."""

from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from pyspark.sql import functions as F

from acker.batches.batch import finish
from acker.components.collector import RichBolt
from acker.core.errors import TopologyError
from acker.core.events import State
from acker.core.retry import ExponentialBackoff
from acker.core.snapshot.trims import Trim, append_trim, newest_trim
from acker.core.store.tables import query
from acker.operations.cycle import run_bolt, run_cycle, run_spout
from acker.operations.fold import fold
from acker.operations.maintenance.compact import compact, vacuum
from acker.operations.maintenance.trim import trim_events, trim_streams
from acker.operations.publish import publish
from acker.operations.replay import plan_by_hand
from acker.operations.selection.selection import Selection
from acker.reports.audit import audit_report
from acker.reports.trace import trace_report
from acker.spouts import DeltaSpout
from acker.targets.functions import Count, Sum
from acker.topology.topology import Topology

DAY = timedelta(days=1)
COMPONENTS = ("numbers", "doubled", "summed")


@pytest.fixture
def run(place):
    """Numbers that are published doubled, and added up by whether they are odd."""
    topology = Topology("kept", message_timeout=None, retry=ExponentialBackoff(limit=1))
    numbers = topology.spout("numbers", DeltaSpout(place.add("numbers", id=[1, 2, 3]), key="id"))

    @topology.bolt(numbers)
    def doubled(tuples):
        return tuples.select("anchor", (F.col("id") * 2).alias("twice"))

    @topology.bolt(numbers)
    def summed(tuples):
        return tuples.select("anchor", "id", (F.col("id") % 2 == 1).alias("odd"))

    topology.publish(doubled, to=place.path("doubled"))
    topology.publish(summed, to=place.path("sums"), by="odd", aggregates={"n": Count(), "sum": Sum("id")})
    return place.run(topology)


def a_day_later(place, run):
    """One cycle more, a day after the first."""
    run_cycle(run)
    place.clock.advance(2 * 86_400)
    place.add("numbers", id=[4])
    run_cycle(run)


@contextmanager
def any_retention(spark):
    """Let Spark vacuum files of any age."""
    spark.conf.set("spark.databricks.delta.retentionDurationCheck.enabled", "false")
    yield
    spark.conf.unset("spark.databricks.delta.retentionDurationCheck.enabled")


def batches(run, component):
    rows = query("SELECT DISTINCT _batch FROM s", s=run.store.require(f"streams/{component}"))
    return sorted(row["_batch"] for row in rows)


@pytest.mark.extended
def test_old_batches_go_and_nothing_that_was_published_changes(place, run):
    a_day_later(place, run)
    assert trim_streams(run, DAY) == dict.fromkeys(COMPONENTS, 1)
    assert [batches(run, name) for name in COMPONENTS] == [[2], [2], [2]]
    assert audit_report(run.topology, run.store).passed
    place.add("numbers", id=[5])
    run_cycle(run)
    assert place.rows("doubled") == [(2,), (4,), (6,), (8,), (10,)]
    assert place.rows("sums") == [(False, 2, 6), (True, 3, 9)]
    assert audit_report(run.topology, run.store).passed


@pytest.mark.thorough
def test_the_audit_still_finds_what_is_wrong_with_trimmed_messages(place, run):
    a_day_later(place, run)
    trim_streams(run, DAY)
    run.spark.sql(f"INSERT INTO delta.`{place.path('doubled')}` (twice, _root_id) VALUES (7, 99)")
    run.spark.sql(f"UPDATE delta.`{place.path('sums')}` SET _tuples = _tuples + 1 WHERE odd")
    result = audit_report(run.topology, run.store)
    assert (result.lost, result.unexpected, result.duplicated) == (0, 1, 1)


@pytest.mark.extended
def test_what_is_in_flight_holds_its_batch_and_all_after_it(place, run):
    run_cycle(run)
    place.add("numbers", id=[4])
    run_spout(run, run.topology.components["numbers"])
    run_bolt(run, run.topology.components["doubled"])
    fold(run)
    place.add("numbers", id=[5])
    run_spout(run, run.topology.components["numbers"])
    place.clock.advance(2 * 86_400)
    assert trim_streams(run, DAY) == {"numbers": 1, "doubled": 1, "summed": 1}
    assert batches(run, "numbers") == [2, 3]
    run_cycle(run)
    assert place.rows("sums") == [(False, 2, 6), (True, 3, 9)]
    assert audit_report(run.topology, run.store).passed


class Keeper(RichBolt):
    """Holds back every tuple that it is given."""

    def execute(self, tup, collector):
        pass


@pytest.mark.extended
def test_what_is_live_in_a_fold_stays_although_a_later_one_is_compacted_meanwhile(place):
    topology = Topology("held", message_timeout=None)
    numbers = topology.spout("numbers", DeltaSpout(place.add("numbers", id=[1]), key="id"))
    topology.rich_bolt(numbers, schema="id bigint")(Keeper)
    run = place.run(topology)
    run_cycle(run)
    place.clock.advance(60)

    def clock():
        """The trimming looks at it once it has found the newest fold."""
        fold(run)
        compact(run)
        return place.clock()

    assert trim_streams(replace(run, clock=clock), timedelta(0)) == {}
    assert (newest_trim(run.store), batches(run, "numbers")) == (Trim(), [1])


@pytest.mark.extended
def test_what_a_publisher_has_yet_to_publish_stays(place, run):
    for component in run.topology.spouts:
        run_spout(run, component)
    for bolt in run.topology.bolts:
        run_bolt(run, bolt)
    fold(run)
    place.clock.advance(2 * 86_400)
    assert trim_streams(run, DAY) == {}
    publish(run)
    assert trim_streams(run, DAY) == dict.fromkeys(COMPONENTS, 1)
    assert audit_report(run.topology, run.store).passed


@pytest.mark.extended
def test_a_trimming_that_was_interrupted_is_carried_out_by_the_next(place, run):
    a_day_later(place, run)
    append_trim(run.store, Trim(1, dict.fromkeys(COMPONENTS, 1), {"summed": 3}), run.clock())
    assert batches(run, "numbers") == [1, 2]
    assert audit_report(run.topology, run.store).passed
    trim_streams(run, DAY)
    assert batches(run, "numbers") == [2]
    assert newest_trim(run.store).number == 1


@pytest.mark.thorough
def test_a_trimmed_message_that_was_added_up_is_not_replayed(place, run):
    a_day_later(place, run)
    trim_streams(run, DAY)
    acked = Selection(states=(State.ACKED,))
    with pytest.raises(TopologyError, match="3 of the acked messages cannot be replayed"):
        plan_by_hand(run, acked, "why", "me")
    later = Selection(states=(State.ACKED,), positions=(("0", 4),))
    assert plan_by_hand(run, later, "why", "me")[0].count == 1


@pytest.mark.thorough
def test_what_a_replay_replaces_stays_until_it_was_replaced(place, run):
    a_day_later(place, run)
    plan_by_hand(run, Selection(states=(State.ACKED,), positions=(("0", 1),)), "why", "me")
    assert trim_streams(run, DAY) == {}
    run_cycle(run)
    assert trim_streams(run, DAY) == dict.fromkeys(COMPONENTS, 1)
    assert place.rows("sums") == [(False, 2, 6), (True, 2, 4)]
    assert audit_report(run.topology, run.store).passed


@pytest.fixture
def replayed_while_trimmed(place, run):
    """Replay number 1 by hand, while a trimming that looked before has said that its tuples go."""

    def begin(written):
        a_day_later(place, run)
        first = Selection(states=(State.ACKED,), positions=(("0", 1),))
        _, (batch,) = plan_by_hand(run, first, "why", "me")
        if written:
            finish(run, batch)
        append_trim(run.store, Trim(1, dict.fromkeys(COMPONENTS, 1), tuples=None), run.clock())
        assert trim_streams(run, DAY) == {}
        assert batches(run, "summed") == [1, 2]
        place.clock.advance(3600)
        run_cycle(run)
        assert audit_report(run.topology, run.store).passed
        trim_streams(run, DAY)
        assert 1 not in batches(run, "summed")
        assert place.rows("sums") == [(False, 2, 6), (True, 2, 4)]
        assert audit_report(run.topology, run.store).passed

    return begin


@pytest.mark.extended
def test_a_trimming_waits_for_a_replay_that_was_written_meanwhile(states, run, replayed_while_trimmed):
    replayed_while_trimmed(written=True)
    assert (1, 2, "acked") in states(run)


@pytest.mark.extended
def test_a_replay_that_is_written_after_its_messages_were_trimmed_fails(states, run, replayed_while_trimmed):
    replayed_while_trimmed(written=False)
    assert (1, 2, "dead_letter") in states(run)


@pytest.mark.extended
def test_events_go_once_they_are_folded_and_old(place, run):
    run_cycle(run)
    place.clock.advance(2 * 86_400)
    place.add("numbers", id=[4])
    run_spout(run, run.topology.components["numbers"])
    assert trim_events(run, DAY) == {"events": 12}
    run_cycle(run)
    assert place.rows("doubled") == [(2,), (4,), (6,), (8,)]
    assert [entry.what for entry in trace_report(run.topology, run.store, "numbers:0:1")] == [
        "acked",
        "published",
        "published",
    ]


@pytest.mark.thorough
def test_files_go_of_which_the_log_has_forgotten_that_they_were_removed(place, run):
    run_cycle(run)
    place.add("numbers", id=[4])
    run_cycle(run)
    compact(run)
    for name in ("batches", "events", "ledger"):
        table = run.store.require(name)
        Path(run.store.path(name), "left-by-a-killed-write.parquet").touch()
        table.alter.set_table_properties({"delta.deletedFileRetentionDuration": "interval 0 seconds"})
        run.store.require(name).create_checkpoint()
    with any_retention(run.spark):
        vacuum(run, 0)
    for name in ("batches", "events", "ledger"):
        on_disk = {file.name for file in Path(run.store.path(name)).rglob("*.parquet")}
        in_use = {uri.rpartition("/")[2] for uri in run.store.require(name).file_uris()}
        assert {file for file in on_disk if "checkpoint" not in file} == in_use
    run_cycle(run)
    assert place.rows("doubled") == [(2,), (4,), (6,), (8,)]
    assert audit_report(run.topology, run.store).passed


@pytest.mark.extended
def test_live_rows_that_idle_folds_took_over_are_read_by_spark_and_survive_maintenance(place, run, states):
    run_spout(run, run.topology.components["numbers"])
    for _ in range(3):
        newest = fold(run)
    ledger = place.spark.read.format("delta").load(run.store.path("ledger"))
    live = ledger.where(f"live_in = {newest.number}").select("source_offset", "state", "fold")
    assert sorted(map(tuple, live.collect())) == [(number, "pending", 1) for number in (1, 2, 3)]
    assert ledger.where("root_id IS NOT NULL").count() == 3
    compact(run)
    vacuum(run, retention_hours=0)
    assert [state for _, _, state in states(run)] == 3 * ["pending"]
    run_cycle(run)
    assert [state for _, _, state in states(run)] == 3 * ["acked"]
    assert audit_report(run.topology, run.store).passed
