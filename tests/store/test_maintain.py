"""Maintenance that needs no Spark: the store's own tables become smaller, and no result changes."""

from dataclasses import replace
from datetime import timedelta

import polars as pl
import pytest

from acker.core.errors import InTheWay
from acker.core.store.lease import COMPACTS, LASTS, Lease
from acker.core.store.schemas import BATCHES, EVENTS, LEDGER
from acker.core.store.tables import files_of, query
from acker.operations.cycle import run_cycle, run_spout
from acker.operations.fold import fold
from acker.operations.maintenance.compact import compact
from acker.operations.maintenance.trim import trim_events, trim_streams
from acker.reports.audit import audit_report
from tests.kit.busy import Busy, once
from tests.kit.polars_topology import PolarsTopology, TableSource, acked

DAY = timedelta(days=1)
MOST_FILES = 100


def doubling(place, **settings):
    """Numbers that are doubled."""
    topology = PolarsTopology("kept", message_timeout=None, **settings)
    numbers = topology.spout("numbers", TableSource(place.add("numbers", id=[1, 2, 3])))
    topology.bolt(numbers, name="doubled")(lambda tuples: tuples.with_columns(pl.col("id") * 2))
    return place.run(topology)


@pytest.fixture
def run(place):
    return doubling(place)


def test_what_is_younger_than_the_retention_stays(place, run):
    run_cycle(run)
    place.clock.advance(2 * 86_400)
    place.add("numbers", id=[4])
    run_cycle(run)
    assert trim_streams(run, 3 * DAY) == {}


def test_what_waits_for_a_bolt_is_not_trimmed_although_nobody_tracks_it(place):
    run = doubling(place, reliable=False)
    run_spout(run, run.topology.components["numbers"])
    fold(run)
    place.clock.advance(60)
    assert trim_streams(run, timedelta(0)) == {}
    run_cycle(run)
    doubled = query("SELECT id FROM s ORDER BY id", s=run.store.require("streams/doubled"))
    assert [row["id"] for row in doubled] == [2, 4, 6]


def test_before_anything_was_logged_there_is_nothing_to_trim(run):
    assert (trim_streams(run, DAY), trim_events(run, DAY)) == ({}, {})
    fold(run)
    assert (trim_streams(run, DAY), trim_events(run, DAY)) == ({}, {})
    compact(run)


def test_compaction_in_the_middle_of_a_batch_changes_no_result(place, run, states):
    for number in range(4, 7):
        run_cycle(run)
        place.add("numbers", id=[number])
    run_spout(run, run.topology.components["numbers"])
    saved = compact(run)
    assert saved["events"] > 0 and saved["batches"] > 0 and saved["ledger"] > 0
    run_cycle(run)
    assert states(run) == [(number, 1, "acked") for number in range(1, 7)]
    assert acked(run, "doubled") == [(2,), (4,), (6,), (8,), (10,), (12,)]
    assert audit_report(run.topology, run.store).passed


def test_of_two_compactions_at_once_one_is_done_and_no_row_is_there_twice(run):
    for _ in range(3):
        run_cycle(run)
    other = []
    busy = replace(run, store=Busy.of(run.store, once(BATCHES, lambda: other.append(compact(run)))))
    assert compact(busy)[EVENTS] > 0
    assert other == [{}]
    assert audit_report(run.topology, run.store).passed


def test_a_compaction_that_was_killed_keeps_others_off_for_as_long_as_it_may_take(place, run):
    run_cycle(run)
    Lease(run.store, "killed", run.clock, COMPACTS, run.sightings).hold()
    assert compact(run) == {}
    place.clock.advance(LASTS.total_seconds())
    assert compact(run) != {}
    assert compact(run) != {}


def test_a_rewriting_that_meets_a_compaction_begins_anew(run):
    for _ in range(3):
        run_cycle(run)
    tries = []

    def deleted(table):
        tries.append(table.version())
        if len(tries) == 1:
            compact(run)  # takes away the files that are about to be rewritten
        return table.delete("kind = 'batch' AND batch = 1")

    assert run.store.change(EVENTS, deleted)["num_deleted_rows"] > 0
    assert len(tries) == 2


def test_a_rewriting_that_meets_another_one_each_time_says_so(place, run):
    for number in range(3):
        place.add("numbers", id=[10 + number])
        run_cycle(run)
    batches = iter([3, 2, 1])

    def deleted(table):
        run.store.require(EVENTS).delete(f"batch = {next(batches)}")
        return table.delete("kind = 'batch' AND batch > 0")

    with pytest.raises(InTheWay, match="could not be rewritten"):
        run.store.change(EVENTS, deleted)


def test_small_files_are_compacted_once_there_are_many(run, states):
    found = []  # files after each fold, which adds one
    while found == sorted(found) and len(found) < 2 * MOST_FILES:
        fold(run)
        found.append(len(files_of(run.store.require(LEDGER))))
    assert (found[-2], len(found)) == (MOST_FILES, MOST_FILES + 1)
    assert found[-1] < 5
    run_cycle(run)
    assert states(run) == [(1, 1, "acked"), (2, 1, "acked"), (3, 1, "acked")]
    assert audit_report(run.topology, run.store).passed
