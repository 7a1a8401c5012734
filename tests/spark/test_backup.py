"""Backups, restored and moved stores: whole at whatever moment they are made, and stores of their own."""

from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from threading import Thread

import pytest
from deltalake import DeltaTable
from pyspark.sql import functions as F

from acker.batches.run import Run
from acker.core.errors import StoreError
from acker.core.store.lease import KEEPS_FILES, LASTS, Lease
from acker.core.store.schemas import LEDGER
from acker.core.store.store import Store
from acker.operations.cycle import run_cycle
from acker.operations.maintenance.backup import Manifest, back_up, store_in, topology_in
from acker.operations.maintenance.compact import vacuum
from acker.operations.maintenance.restore import move, restore
from acker.operations.maintenance.trim import trim_streams
from acker.operations.publish import publish
from acker.operations.standing import adopt
from acker.reports.audit import audit_report
from acker.reports.trace import trace_report
from acker.spouts import DeltaSpout
from acker.targets.functions import Count, Sum
from acker.topology.topology import Topology
from tests.kit.busy import Busy, once
from tests.kit.stops import Stop, stopping_at

NAME = "kept"


def topology_at(place, folder):
    """Numbers that are published doubled, and added up by whether they are odd, to tables of a folder."""
    topology = Topology(NAME, message_timeout=None)
    numbers = topology.spout("numbers", DeltaSpout(place.path("numbers"), key="id"))

    @topology.bolt(numbers)
    def doubled(tuples):
        return tuples.select("anchor", "id", (F.col("id") * 2).alias("twice"))

    @topology.bolt(doubled)
    def summed(tuples):
        return tuples.select("anchor", "twice", (F.col("id") % 2 == 1).alias("odd"))

    topology.publish(doubled, to=f"{folder}/doubled")
    topology.publish(summed, to=f"{folder}/sums", by="odd", aggregates={"n": Count(), "sum": Sum("twice")})
    topology.validate()
    return topology


@pytest.fixture
def run(place):
    place.add("numbers", id=[1, 2, 3])
    return place.run(topology_at(place, place.folder))


def saved(run, to):
    """Make a backup, judge it as the command does, and return the verdict."""
    manifest = back_up(run.topology, run.store, to, run.clock)
    verdict = audit_report(topology_in(to, run.topology), store_in(to, run.topology)).verdict
    manifest.write(to)
    return verdict


def restored(place, run, backup, name):
    """A run over what a backup becomes in a folder of its own."""
    topology = topology_at(place, place.path(name))
    copy = Run(topology, Store(place.path(f"{name}/store"), NAME), run.connect, clock=run.clock)
    _, lease = restore(topology, copy.store, backup, run.clock)
    lease.release()
    assert audit_report(topology, copy.store).passed
    return copy


def published(run):
    """The ids whose doubles are published, and what they add up to."""
    doubled, sums = (DeltaTable(run.topology.publications[name].to) for name in ("doubled", "summed"))
    ids = sorted(doubled.to_pyarrow_table()["id"].to_pylist())
    return ids, sum(sums.to_pyarrow_table()["sum"].to_pylist())


def is_exact(run, numbers):
    return published(run) == (numbers, 2 * sum(numbers)) and audit_report(run.topology, run.store).passed


def test_a_backup_becomes_a_store_that_goes_on_beside_the_original(place, run):
    run_cycle(run)
    assert saved(run, place.path("backup")) == "pass"
    copy = restored(place, run, place.path("backup"), "elsewhere")
    place.add("numbers", id=[4])
    for each in (copy, run):
        run_cycle(each)
        assert is_exact(each, [1, 2, 3, 4])
    first = [entry.what for entry in trace_report(copy.topology, copy.store, "numbers:0:1")]
    assert first.count("published") == 2  # in the original's time


@pytest.mark.extended
@pytest.mark.parametrize("every", [4, pytest.param(1, marks=pytest.mark.thorough)])
def test_a_backup_of_any_moment_can_be_restored_and_loses_nothing(place, run, every):
    moments = []

    def backed_up(step):
        moments.append(f"{step.component}-{step.number}-{step.name}")
        assert saved(run, place.path(f"backups/{len(moments)}")) == "pass"

    run_cycle(run)
    place.add("numbers", id=[4, 5])
    run_cycle(Run(run.topology, run.store, run.connect, clock=run.clock, on_step=backed_up))
    assert len(moments) > 8
    for number in range(1, len(moments) + 1, every):
        copy = restored(place, run, place.path(f"backups/{number}"), f"copies/{number}")
        run_cycle(copy)
        assert is_exact(copy, [1, 2, 3, 4, 5]), moments[number - 1]


def test_a_backup_begins_anew_when_a_trimming_came_between(place, run):
    with suppress(Stop):
        run_cycle(replace(run, on_step=stopping_at("folded", "acker")))

    def publish_and_trim():
        publish(run)
        place.clock.advance(60)
        assert set(trim_streams(run, timedelta(0)).values()) == {1}

    busy = replace(run, store=Busy.of(run.store, once(LEDGER, publish_and_trim)))
    assert saved(busy, place.path("backup")) == "pass"
    copy = restored(place, run, place.path("backup"), "elsewhere")
    run_cycle(copy)
    assert is_exact(copy, [1, 2, 3])


@pytest.mark.extended
def test_backups_under_load_are_whole_and_the_original_goes_on_undisturbed(place, run):
    run_cycle(run)
    numbers = [1, 2, 3]
    made = 0

    def work():
        for number in range(4, 10):
            place.add("numbers", id=[number])
            numbers.append(number)
            run_cycle(run)

    worker = Thread(target=work)
    worker.start()
    while worker.is_alive():
        made += 1
        assert saved(run, place.path(f"backups/{made}")) == "pass"
    worker.join()
    assert is_exact(run, numbers)
    for number in {1, made // 2 + 1}:
        copy = restored(place, run, place.path(f"backups/{number}"), f"copies/{number}")
        run_cycle(copy)
        assert is_exact(copy, numbers)


def test_a_copy_that_publishes_to_the_originals_table_does_not_take_its_folds_for_its_own(place, run):
    run_cycle(run)
    there, finish = move(run.topology, run.store, place.path("moved"), run.clock, is_stopped=False)
    finish()
    place.add("numbers", id=[4])
    run_cycle(run)  # by somebody who never looked at the lease: its second fold is published
    assert published(run)[0] == [1, 2, 3, 4]
    copy = Run(run.topology, there, run.connect, clock=run.clock)
    with pytest.raises(
        StoreError, match=r"doubled has rows of another store.*is a copy of it, made at fold 1"
    ):
        run_cycle(copy)
    assert published(run)[0] == [1, 2, 3, 4]
    for name in run.topology.publications:
        adopt(copy, name)
    publish(copy)
    assert published(run)[0] == [1, 2, 3, 4, 4]
    assert audit_report(run.topology, there).duplicated == 2  # and not lost: the row, and its sum


def test_an_original_stops_where_its_copy_has_published(place, run):
    run_cycle(run)
    there, finish = move(run.topology, run.store, place.path("moved"), run.clock, is_stopped=False)
    finish()
    place.add("numbers", id=[4])
    run_cycle(Run(run.topology, there, run.connect, clock=run.clock))
    told = (
        r"doubled has rows of another store\. The store .*moved/kept has published doubled there up to fold 2"
    )
    with pytest.raises(StoreError, match=told):
        run_cycle(run)  # by somebody who never looked at the lease
    assert published(run)[0] == [1, 2, 3, 4]


def test_a_moved_store_goes_on_and_the_old_one_is_closed(place, run):
    run_cycle(run)
    lease = Lease(run.store, "airflow-1", run.clock)
    lease.hold()
    to = place.path("moved")
    with pytest.raises(StoreError, match=r"The deployment airflow-1 works on .* --stopped, or .* 60 minutes"):
        move(run.topology, run.store, to, run.clock, is_stopped=False)
    there, finish = move(run.topology, run.store, to, run.clock, is_stopped=True)
    with pytest.raises(StoreError, match=r"unfinished move\. Run `acker move kept .*moved` again"):
        Lease(there, "airflow-1", run.clock).hold()
    finish()
    place.clock.advance(2 * LASTS.total_seconds())
    for refused in (
        lease.hold,
        lambda: move(run.topology, run.store, to, run.clock, is_stopped=True),
    ):
        with pytest.raises(StoreError, match=r"kept was moved\. Set PIPELINE_STORE=.*moved\.$"):
            refused()
    Lease(there, "airflow-1", run.clock).hold()
    place.add("numbers", id=[4])
    moved = Run(run.topology, there, run.connect, clock=run.clock)
    run_cycle(moved)
    assert is_exact(moved, [1, 2, 3, 4])


def test_a_restore_overwrites_nothing_and_is_closed_until_it_is_done(place, run):
    run_cycle(run)
    backup = place.path("backup")
    saved(run, backup)
    with pytest.raises(StoreError, match="doubled is there already, and nothing is overwritten"):
        restore(run.topology, run.store, backup, run.clock)
    topology, store = topology_at(place, place.path("new")), Store(place.path("new/store"), NAME)
    restore(topology, store, backup, run.clock)  # and whoever did it is killed before it is judged
    with pytest.raises(StoreError, match=r"unfinished restore\. Run `acker restore kept"):
        Lease(store, "airflow-1", run.clock).hold()
    _, lease = restore(topology, store, backup, run.clock)
    lease.release()
    Lease(store, "airflow-1", run.clock).hold()
    with pytest.raises(StoreError, match="is there already"):
        restore(topology, store, backup, run.clock)


def test_vacuum_deletes_nothing_while_a_backup_runs(place, run):
    run_cycle(run)
    keeps = Lease(run.store, "/srv/a", run.clock, KEEPS_FILES)
    keeps.hold()
    assert vacuum(run, 24) == []
    keeps.release()
    assert "ledger" in vacuum(run, 24)


def test_only_a_finished_backup_of_the_topology_is_restored(place, run):
    run_cycle(run)
    backup = place.path("backup")
    with pytest.raises(StoreError, match=r"There is no finished backup in .*: there is no folder"):
        Manifest.read(backup)
    assert not Path(backup).exists()
    back_up(run.topology, run.store, backup, run.clock)
    with pytest.raises(StoreError, match=r"There is no finished backup in .*manifest\.json"):
        restore(run.topology, run.store, backup, run.clock)
    saved(run, backup)
    with pytest.raises(StoreError, match=r"has a backup of kept of 2026-01-01.* Name another folder"):
        back_up(run.topology, run.store, backup, run.clock)
    with pytest.raises(StoreError, match="is a backup of kept, not of others"):
        restore(Topology("others"), run.store, backup, run.clock)
