"""Stores that older and newer versions wrote: told apart, brought up, and run on. See `formats`."""

import tarfile
from pathlib import Path

import pytest
from deltalake import DeltaTable, Field

from acker.batches.run import Run
from acker.core.errors import StoreError
from acker.core.store.formats import migrate, pending_migrations
from acker.core.store.schemas import FORMAT, FORMAT_PROPERTY, SCHEMAS
from acker.core.store.store import Store
from acker.operations.cycle import run_cycle
from acker.reports.audit import audit_report
from tests.kit.old_store import NAME, add, topology
from tests.kit.places import Clock, states
from tests.kit.polars_topology import NoSpark

FORMATS = Path(__file__).parent / "formats"
OLDER = sorted(FORMATS.glob("*.tar.gz"))


@pytest.fixture(params=OLDER, ids=lambda path: path.name.partition(".")[0])
def run(request, tmp_path):
    """A run over a store that an older version wrote."""
    with tarfile.open(request.param) as archive:
        archive.extractall(tmp_path, filter="data")
    store = Store(str(tmp_path / "store"), NAME)
    return Run(topology(str(tmp_path / "numbers")), store, NoSpark, clock=Clock())


def folder(run):
    return run.store.path("").rstrip("/")


def test_every_format_but_todays_has_a_store_that_its_code_wrote():
    assert [path.name for path in OLDER] == [f"{number}.tar.gz" for number in range(FORMAT)]


def test_an_older_store_is_refused_with_a_sentence_migrated_audited_and_run_on(run):
    with pytest.raises(StoreError, match=r"older version of acker.* run `acker migrate kept`"):
        run.snapshot()
    there = [table for table in SCHEMAS if Path(run.store.path(table)).exists()]
    assert [each.table for each in migrate(folder(run), NAME)] == there
    assert migrate(folder(run), NAME) == []
    run.store.create()  # what the format has added
    assert audit_report(run.topology, run.store).passed
    add(run.topology.spouts[0].source.path, 5)
    for _ in range(2):  # the batch that was held, and then what waits behind it
        run_cycle(run)
    assert [number for number, _, state in states(run) if state == "acked"] == [1, 3, 4, 5]
    assert (2, 2, "dead_letter") in states(run)
    assert audit_report(run.topology, run.store).passed


def test_what_a_migration_would_do_changes_nothing(run):
    told = [str(each) for each in pending_migrations(folder(run), NAME)]
    assert told[:2] == [f"batches: format 0 to {FORMAT}", f"events: format 0 to {FORMAT}"]
    assert [str(each) for each in pending_migrations(folder(run), NAME)] == told


def test_a_table_that_was_altered_by_hand_is_not_migrated(run):
    DeltaTable(run.store.path("holds")).alter.add_columns(Field("mine", "string"))
    with pytest.raises(StoreError, match=r"holds are not those .* altered by hand"):
        migrate(folder(run), NAME)
    with pytest.raises(StoreError, match=r"batches was written by an older version"):  # nothing was done
        run.store.open("batches")


@pytest.mark.parametrize("newer", [FORMAT + 1, FORMAT + 10])
def test_a_newer_store_is_refused_with_a_sentence(tmp_path, newer):
    store = Store(str(tmp_path), NAME)
    store.create()
    store.require("events").alter.set_table_properties(
        {FORMAT_PROPERTY: str(newer)}, raise_if_not_exists=False
    )
    for look in (lambda: store.open("events"), lambda: migrate(store.path("").rstrip("/"), NAME)):
        with pytest.raises(StoreError, match=rf"newer version of acker: it has format {newer}"):
            look()
