"""Backups, restores and moves that are killed before and after a file or a commit: the next one ends them."""

import shutil
import tarfile
from pathlib import Path

import pytest

from acker.batches.run import Run
from acker.core.store.formats import migrate
from acker.core.store.store import Store
from acker.operations.cycle import run_cycle
from acker.operations.maintenance.backup import back_up, store_in
from acker.operations.maintenance.restore import move, restore
from acker.reports.audit import audit_report
from tests.faults.kills import killed_at
from tests.kit import ROOT
from tests.kit.old_store import NAME, topology
from tests.kit.places import Clock
from tests.kit.polars_topology import NoSpark

KIND = "backups"

ARCHIVE = ROOT / "tests" / "store" / "formats" / "0.tar.gz"
FILES = 60  # of so many moments one is tried, which differ in which file is there
COMMITS = 7  # and at the end, where the commits are, each but the very last
NEVER = 1_000_000


def backed_up(folder: Path) -> Store:
    """A finished backup, though without its manifest's verdict."""
    to = str(folder / "backup")
    back_up(kept(folder), Store(str(folder / "store"), NAME), to, Clock()).write(to)
    return store_in(to, kept(folder))


def restored(folder: Path) -> Store:
    """What a backup becomes."""
    store = Store(str(folder / "restored"), NAME)
    _, lease = restore(kept(folder), store, str(folder / "backup"), Clock())
    lease.release()
    return store


def moved(folder: Path) -> Store:
    """Where a store is after its move."""
    old = Store(str(folder / "store"), NAME)
    there, finish = move(kept(folder), old, str(folder / "moved"), Clock(), is_stopped=False)
    finish()
    return there


def kept(folder: Path):
    return topology(str(folder / "numbers"))


@pytest.fixture
def before(tmp_path: Path) -> Path:
    """A folder with a store, its source and nothing else."""
    folder = tmp_path / "before"
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(folder, filter="data")
    migrate(str(folder / "store" / NAME), NAME)
    Store(str(folder / "store"), NAME).create()
    return folder


@pytest.mark.extended
@pytest.mark.parametrize("what", [backed_up, restored, moved])
def test_what_is_killed_is_gone_on_with(tmp_path, before, what):
    if what is restored:
        backed_up(before)
    shutil.copytree(before, tmp_path / "whole")
    moments = killed_at(what, tmp_path / "whole", NEVER)
    for moment in sorted({*range(1, moments, FILES), *range(moments - COMMITS, moments)}):
        folder = tmp_path / str(moment)
        shutil.copytree(before, folder)
        assert killed_at(what, folder, moment) is None
        store = what(folder)
        run = Run(kept(folder), store, NoSpark, clock=Clock())
        assert audit_report(run.topology, store).passed
        if what is not backed_up:
            run_cycle(run)
            assert audit_report(run.topology, store).passed
