"""What a backup opens fits together, whatever commits come between two of its tables."""

from contextlib import suppress
from dataclasses import replace
from itertools import cycle
from pathlib import Path

import polars as pl
import pytest

from acker.batches.run import Run
from acker.core.errors import StoreError
from acker.core.snapshot.journal import Journal
from acker.core.store.lease import KEEPS_FILES, LASTS, Lease
from acker.core.store.schemas import LEDGER
from acker.core.store.store import Store
from acker.operations.cycle import run_bolt, run_cycle, run_spout
from acker.operations.fold import fold
from acker.operations.maintenance.backup import back_up, store_in
from acker.operations.maintenance.restore import move, restore
from acker.operations.maintenance.upkeep import newest
from acker.reports.audit import audit_report
from acker.spouts import DeltaSpout, FileSpout
from acker.topology.topology import Topology
from tests.kit.busy import Busy, once
from tests.kit.object_store import running_object_store
from tests.kit.polars_topology import PolarsTopology, TableSource, acked
from tests.kit.stops import Stop, stopping_at


@pytest.fixture
def run(place):
    """Numbers that are doubled, and then tripled."""
    topology = PolarsTopology("kept", message_timeout=None)
    numbers = topology.spout("numbers", TableSource(place.add("numbers", id=[1, 2, 3])))
    doubled = topology.bolt(numbers, name="doubled")(lambda tuples: tuples.with_columns(pl.col("id") * 2))
    topology.bolt(doubled, name="tripled")(lambda tuples: tuples.with_columns(pl.col("id") * 3))
    return place.run(topology)


def copied(place, run, work):
    """A run over what becomes of a backup of a store on which others work."""
    busy = Busy.of(run.store, work)
    back_up(run.topology, busy, place.path("backup"), run.clock).write(place.path("backup"))
    assert audit_report(run.topology, store_in(place.path("backup"), run.topology)).passed
    store = Store(place.path("restored"), run.store.topology)
    restore(run.topology, store, place.path("backup"), run.clock)
    return Run(run.topology, store, run.connect, clock=run.clock)


def steps(run):
    """The steps of cycles, one after the other, without end."""
    numbers, doubled, tripled = (run.topology.components[name] for name in ("numbers", "doubled", "tripled"))
    return cycle(
        [
            lambda: run_spout(run, numbers),
            lambda: run_bolt(run, doubled),
            lambda: run_bolt(run, tripled),
            lambda: fold(run),
        ]
    )


@pytest.mark.parametrize(("whole", "busy"), [(True, 8), *((False, busy) for busy in (6, 17, 28, 40))])
def test_a_backup_is_whole_although_steps_go_on_between_its_tables(place, run, whole, busy):
    each = steps(run)
    numbers = [1, 2, 3]
    opened = []

    def work(table):
        opened.append(table)
        if len(opened) > busy:
            return
        if len(opened) % 4 == 1:
            numbers.append(len(numbers) + 1)
            place.add("numbers", id=numbers[-1:])
        if whole:
            run_cycle(run)
        else:
            next(each)()

    copy = copied(place, run, work)
    for each_run in (copy, run):
        run_cycle(each_run)
        assert acked(each_run, "tripled") == [(6 * number,) for number in numbers]
        assert audit_report(run.topology, each_run.store).passed


def test_what_is_written_in_a_backup_is_planned_in_it(place, run):
    run_cycle(run)
    place.add("numbers", id=[4])

    def write():
        with suppress(Stop):
            run_cycle(replace(run, on_step=stopping_at("written", "numbers")))

    copy = copied(place, run, once("streams/numbers", write))
    place.add("numbers", id=[5])  # which a plan of the copy's own would take in as well
    for _ in range(2):
        run_cycle(copy)
    assert acked(copy, "tripled") == [(6,), (12,), (18,), (24,), (30,)]


def test_a_backup_begins_anew_when_a_batch_was_logged_meanwhile(place, run):
    run_cycle(run)
    numbers, doubled = (run.topology.components[name] for name in ("numbers", "doubled"))
    place.add("numbers", id=[4])

    def plan_on_what_is_logged():
        run_spout(run, numbers)
        with suppress(Stop):
            run_bolt(replace(run, on_step=stopping_at("planned", "doubled")), doubled)

    copy = copied(place, run, once("holds", plan_on_what_is_logged))
    run_bolt(copy, doubled)  # before the spout, as another task may
    run_cycle(copy)
    assert acked(copy, "tripled") == [(6,), (12,), (18,), (24,)]


def test_a_store_that_never_stands_still_is_not_backed_up(place, run):
    run_cycle(run)
    with pytest.raises(StoreError, match="does not stand still"):
        copied(place, run, lambda table: fold(run) if table == LEDGER else None)
    assert not Lease(run.store, "another", run.clock, KEEPS_FILES).read().lasts
    assert not Path(place.path("backup")).exists()


def test_a_backup_that_breaks_off_is_told_and_a_mistaken_folder_is_not(place, run):
    def faults():
        return {step: each.fault for step, each in newest(Journal(run.store)).items()}

    run_cycle(run)
    with pytest.raises(StoreError, match="Name a folder beside it"):
        back_up(run.topology, run.store, run.store.path("inside"), run.clock)
    assert faults() == {}
    file = Path(run.store.path(LEDGER), Path(run.store.require(LEDGER).file_uris()[0]).name)
    file.rename(place.path("gone"))
    with pytest.raises(StoreError) as raised:
        back_up(run.topology, run.store, place.path("backup"), run.clock)
    assert faults() == {"backup": str(raised.value)}
    Path(place.path("gone")).rename(file)
    back_up(run.topology, run.store, place.path("backup"), run.clock)  # and whoever calls says how it ended


@pytest.mark.parametrize("which", ["log", "data", "manifest"])
def test_a_file_that_cannot_be_written_to_its_end_is_told(place, run, which):
    run_cycle(run)
    backup = Path(place.path("backup"))
    copied = Path(store_in(str(backup), run.topology).path(LEDGER))
    in_the_way = {
        "log": copied / "_delta_log" / f"{0:020}.json",
        "data": copied / Path(run.store.require(LEDGER).file_uris()[0]).name,
        "manifest": backup / "manifest.json",
    }[which]
    in_the_way.mkdir(parents=True)
    with pytest.raises(StoreError, match=rf"could not be (copied|written).*{in_the_way.name}"):
        back_up(run.topology, run.store, str(backup), run.clock).write(str(backup))
    in_the_way.rmdir()
    back_up(run.topology, run.store, str(backup), run.clock).write(str(backup))
    assert audit_report(run.topology, store_in(str(backup), run.topology)).passed


def test_two_backups_at_once_are_one_too_many(place, run):
    run_cycle(run)
    Lease(run.store, "/srv/first", run.clock, KEEPS_FILES).hold()  # and it is killed
    with pytest.raises(StoreError, match=r"A backup to /srv/first is being made\. .* in 60 minutes\.$"):
        back_up(run.topology, run.store, place.path("second"), run.clock, run.sightings)
    place.clock.advance(LASTS.total_seconds())
    back_up(run.topology, run.store, place.path("second"), run.clock, run.sightings)


@pytest.mark.extended
def test_a_store_is_backed_up_to_s3_restored_there_and_moved_from_there(place, run, tmp_path, monkeypatch):
    run_cycle(run)
    with running_object_store(tmp_path / "s3") as found:
        for name, value in found.items():
            monkeypatch.setenv(name, value)
        backup, there = "s3a://lake/backups/a", Store("s3a://lake/a place, 50% wörds", run.store.topology)
        back_up(run.topology, run.store, backup, run.clock).write(backup)
        _, lease = restore(run.topology, there, backup, run.clock)
        lease.release()
        home, finish = move(run.topology, there, place.path("home again"), run.clock, is_stopped=False)
        finish()
        place.add("numbers", id=[4])
        far = Run(run.topology, there, run.connect, clock=run.clock)
        for each in (far, Run(run.topology, home, run.connect, clock=run.clock)):
            run_cycle(each)
            assert acked(each, "tripled") == [(6,), (12,), (18,), (24,)]
            assert audit_report(run.topology, each.store).passed
        with pytest.raises(StoreError, match="was moved"):
            Lease(there, "airflow-1", run.clock).hold()


@pytest.fixture
def published(place):
    """Files that are published to a Delta table, which nobody has run yet."""
    (place.folder / "in").mkdir()
    topology = Topology("kept")
    topology.publish(topology.spout("lines", FileSpout(place.path("in"))), to=place.path("rows"))
    topology.spout("others", DeltaSpout(place.path("others"), key="id"))
    return place.run(topology)


@pytest.mark.parametrize("below", ["", "/below"], ids=["at", "below"])
@pytest.mark.parametrize("where", ["in", "others", "rows", "store", "stores"])
def test_no_copy_goes_where_a_spout_reads_or_others_delete(place, published, where, below):
    stores = {"store": published.store.path("").rstrip("/"), "stores": published.store.uri}
    taken = stores.get(where) or place.path(where)
    Path(place.path("link")).symlink_to(taken)
    for to in (f"{taken}{below}", f"{place.path('link')}{below}"):
        with pytest.raises(StoreError, match=r"cannot hold a copy, since .* Name a folder beside it\.$"):
            back_up(published.topology, published.store, to, published.clock)
        with pytest.raises(StoreError, match=r"cannot hold a copy, since .* Name a folder beside it\.$"):
            move(published.topology, published.store, to, published.clock, is_stopped=True)


def test_no_copy_is_made_around_what_it_copies(place, published):
    around = published.store.uri.removesuffix("/store")
    with pytest.raises(StoreError, match="cannot hold a copy"):
        back_up(published.topology, Store(f"{around}/store", "kept"), around, published.clock)


def test_nobody_works_on_a_backup_itself(place, run):
    run_cycle(run)
    back_up(run.topology, run.store, place.path("backup"), run.clock).write(place.path("backup"))
    inside = store_in(place.path("backup"), run.topology)
    for deployment in ("another", "a backup to elsewhere"):
        with pytest.raises(
            StoreError, match=r"backup is a backup, and nobody works on it\. `acker restore kept"
        ):
            Lease(inside, deployment, run.clock).hold()
    assert audit_report(run.topology, inside).passed
    store = Store(place.path("restored"), "kept")
    _, lease = restore(run.topology, store, place.path("backup"), run.clock)
    lease.release()
    Lease(store, "another", run.clock).hold()


@pytest.mark.parametrize("to", ["/proc/nope", "/dev/null/nope", "http://x/y"])
def test_a_move_to_an_impossible_place_leaves_the_store_open(place, run, to):
    run_cycle(run)
    with pytest.raises(StoreError):
        move(run.topology, run.store, to, run.clock, is_stopped=True)
    run_cycle(run)
    there, finish = move(run.topology, run.store, place.path("moved"), run.clock, is_stopped=True)
    finish()
    assert audit_report(run.topology, there).passed


def test_a_move_whose_place_is_gone_can_be_made_to_another(place, run):
    run_cycle(run)
    move(run.topology, run.store, place.path("first"), run.clock, is_stopped=True)  # is cut short here
    with pytest.raises(StoreError, match=r"being moved to .*first.*Or move it to another place\."):
        Lease(run.store, "another", run.clock).hold()
    Path(place.path("first")).rename(place.path("gone"))
    there, finish = move(run.topology, run.store, place.path("second"), run.clock, is_stopped=True)
    finish()
    assert audit_report(run.topology, there).passed
    with pytest.raises(StoreError, match=r"was moved\. Set PIPELINE_STORE=.*second"):
        move(run.topology, run.store, place.path("third"), run.clock, is_stopped=True)


def test_a_move_that_somebody_works_on_is_not_begun_elsewhere(place, run):
    run_cycle(run)
    there, _ = move(run.topology, run.store, place.path("first"), run.clock, is_stopped=True)
    Lease(there, "whoever", run.clock).release()  # as the move does before its last step
    with pytest.raises(StoreError, match=r"being moved to .*first"):
        move(run.topology, run.store, place.path("second"), run.clock, is_stopped=True)
