"""Tests of whole topologies: a folder, a clock that a test sets itself, and cheap sources and stores."""

import shutil
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import write_deltalake
from pyspark.sql import SparkSession

from acker.batches.run import Run, Step
from acker.core.snapshot.ledger import NOW, newest_fold
from acker.core.store.sightings import Sightings
from acker.core.store.store import Store
from acker.core.store.tables import open_table, query
from acker.core.tasks import CALLER, Tasks
from acker.reports.status import status_report
from acker.topology.topology import Topology

ODD = "a place, 50% wörds"  # a folder's name that has to be encoded in a URI


def make_empty_store(folder: Path) -> Path:
    """The tables of a store without rows. Copying them takes milliseconds, creating them seconds."""
    store = Store(str(folder), "store")
    store.create()
    return Path(store.path(""))


class Clock:
    """A clock that stands still until it is set forward, which serves where a run would sleep."""

    def __init__(self) -> None:
        self.now = datetime(2026, 1, 1, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now

    def advance(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)


class Place:
    """One test's folder and clock, and short ways to fill and read the tables in it."""

    def __init__(self, folder: Path, spark: SparkSession, empty_store: Path, tasks: Tasks = CALLER) -> None:
        folder.mkdir(exist_ok=True)
        self.folder = folder
        self.spark = spark
        self.clock = Clock()
        self._empty_store = empty_store
        self._tasks = tasks

    def path(self, name: str) -> str:
        return str(self.folder / name)

    def add(self, name: str, /, **columns: list[Any]) -> str:
        """Append to the Delta table `name`, which is made where it is missing, and return its path."""
        write_deltalake(self.path(name), pa.table(columns), mode="append")
        return self.path(name)

    def run(self, topology: Topology, on_step: Callable[[Step], None] = lambda step: None) -> Run:
        """A run of a topology, whose store is empty at first."""
        topology.validate()
        store = Store(self.path("store"), topology.name)
        if not Path(store.path("")).exists():
            shutil.copytree(self._empty_store, store.path(""))
        sightings = Sightings(steady=lambda: self.clock().timestamp())
        return Run(
            topology,
            store,
            lambda: self.spark,
            clock=self.clock,
            tasks=self._tasks,
            sightings=sightings,
            on_step=on_step,
        )

    def rows(self, name: str) -> list[tuple[Any, ...]]:
        """The user's columns of a published table, sorted."""
        table = open_table(self.path(name))
        assert table is not None
        found = query("SELECT * FROM t", t=table)
        rows = (tuple(value for key, value in row.items() if key[0] != "_") for row in found)
        return sorted(rows, key=lambda row: [(value is None, value) for value in row])  # nulls last


def states(run: Run) -> list[tuple[int, int, str]]:
    """(source_offset, attempt, state) of the ledger now."""
    fold = newest_fold(run.store)
    now = NOW.format(fold=fold.number if fold else 0)
    found = query(f"SELECT * FROM ledger WHERE {now}", ledger=run.store.require("ledger"))
    return sorted((row["source_offset"], row["attempt"], row["state"]) for row in found)


def upto(run: Run) -> list[tuple[Any, ...]]:
    """(spout, partition, emitted_upto, committed_upto, behind) of each partition, as `status` says."""
    found = status_report(run.topology, run.store, run.clock())["positions"]
    names = ("spout", "source_partition", "emitted_upto", "committed_upto", "behind")
    return [tuple(position[name] for name in names) for position in found]
