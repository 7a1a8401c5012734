"""Migrations that are killed before and after each of their commits: the next one completes them."""

import shutil
import tarfile
from pathlib import Path

import pytest

from acker.batches.run import Run
from acker.core.errors import StoreError
from acker.core.store.formats import migrate, pending_migrations
from acker.core.store.store import Store
from acker.operations.cycle import run_cycle
from acker.reports.audit import audit_report
from tests.faults.kills import killed_at
from tests.kit import ROOT
from tests.kit.old_store import NAME, topology
from tests.kit.places import Clock
from tests.kit.polars_topology import NoSpark

KIND = "migrations"

ARCHIVE = ROOT / "tests" / "store" / "formats" / "0.tar.gz"
COMMITS = 7  # one for each table of that store, which only gets its property


def migrated(folder: Path) -> None:
    migrate(Store(str(folder / "store"), NAME).path("").rstrip("/"), NAME)


@pytest.mark.extended
def test_a_migration_that_is_killed_is_gone_on_with(tmp_path):
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(tmp_path / "old", filter="data")
    left = []
    for moment in range(1, 2 * COMMITS + 1):
        folder = tmp_path / "new"
        shutil.copytree(tmp_path / "old", folder)
        store = Store(str(folder / "store"), NAME)
        path = store.path("").rstrip("/")
        assert killed_at(migrated, folder, moment) is None
        left.append(len([*pending_migrations(path, NAME)]))
        if left[-1]:
            with pytest.raises(StoreError, match="run `acker migrate kept`"):
                store.create()  # as each command begins
        migrated(folder)
        run = Run(topology(str(folder / "numbers")), store, NoSpark, clock=Clock())
        run_cycle(run)
        assert audit_report(run.topology, run.store).passed
        shutil.rmtree(folder)
    assert left == sorted([*range(COMMITS + 1), *range(1, COMMITS)], reverse=True)
    assert killed_at(migrated, tmp_path / "old", 2 * COMMITS + 1) == 2 * COMMITS
