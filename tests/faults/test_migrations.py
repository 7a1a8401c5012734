"""Migrations that are killed before and after each of their commits: the next one completes them."""

import shutil
import signal
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from acker.batches.run import Run
from acker.core.errors import StoreError
from acker.core.formats import migrate, pending_migrations
from acker.core.store import Store
from acker.operations.cycle import run_cycle
from acker.reports.audit import audit_report
from tests.kit import ROOT
from tests.kit.old_store import NAME, topology
from tests.kit.places import Clock
from tests.kit.polars_topology import NoSpark

KIND = "migrations"

ARCHIVE = ROOT / "tests" / "store" / "formats" / "0.tar.gz"
COMMITS = 7  # one for each table of that store, which only gets its property
MIGRATION = """
import os, signal, sys
from pathlib import Path
from acker.core import formats
from tests.faults.effects import watch

left = int(sys.argv[2])

def pause(moment, effect):
    global left
    left -= 1
    if left == 0:
        os.kill(os.getpid(), signal.SIGKILL)

watch(Path(sys.argv[1]), pause)
formats.migrate(sys.argv[1] + "/store/kept", "kept")
"""


def killed_at(folder: Path, moment: int) -> int:
    """The exit code of a migration that kills itself at a moment: before and after each commit by turns."""
    return subprocess.run([sys.executable, "-c", MIGRATION, folder, str(moment)], cwd=ROOT).returncode


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
        assert killed_at(folder, moment) == -signal.SIGKILL
        left.append(len([*pending_migrations(path, NAME)]))
        if left[-1]:
            with pytest.raises(StoreError, match="run `acker migrate kept`"):
                store.create()  # as each command begins
        migrate(path, NAME)
        run = Run(topology(str(folder / "numbers")), store, NoSpark, clock=Clock())
        run_cycle(run)
        assert audit_report(run.topology, run.store).passed
        shutil.rmtree(folder)
    assert left == sorted([*range(COMMITS + 1), *range(1, COMMITS)], reverse=True)
    assert killed_at(tmp_path / "old", 2 * COMMITS + 1) == 0
