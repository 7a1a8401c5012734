"""Two drivers that do the same batches at the same moment, on an S3 server that judges races.

Whatever they commit, `deltalake` commits: a plan, the rows of a stream, which Spark or the driver has written
into files before, and a log.
"""

import multiprocessing
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from datetime import UTC, datetime
from functools import partial
from multiprocessing.synchronize import Barrier
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import Schema

from acker.core.snapshot.inputs import SourceRange
from acker.core.snapshot.journal import Journal
from acker.core.snapshot.planned import Batch
from acker.core.store.commits import commit_batch, write_file
from acker.core.store.schemas import BATCHES, EVENTS, SCHEMAS, stream
from acker.core.store.store import Store
from acker.core.store.tables import append_rows, query
from tests.kit.object_store import BUCKET, running_object_store

DRIVERS = ("one", "other")
ROUNDS = 200
SPOUT = "lines"
NOW = datetime(2026, 1, 1, tzinfo=UTC)
PATIENCE_SECONDS = 600  # for a driver that has failed


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    with running_object_store(tmp_path / "s3", is_atomic=True) as variables:
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        store = Store(f"s3a://{BUCKET}/store", "racing")
        store.create()
        yield store


class Meeting:
    """Where drivers wait for each other before each commit, one in each process."""

    barrier: Barrier

    @classmethod
    def at(cls, barrier: Barrier) -> None:
        cls.barrier = barrier


def do_all(store: Store, driver: str) -> list[tuple[str, bool]]:
    """Plan, write and log all batches; of each who has planned it, and whether the log is this driver's."""
    path, told = store.path(stream(SPOUT)), []
    for number in range(1, ROUNDS + 1):
        batch = Batch(SPOUT, number, "next", SourceRange({"upto": number}), (), NOW, driver)
        rows = pa.table({"_batch": [number], "driver": [driver]})
        event = {"component": SPOUT, "batch": number, "reason": driver}
        journal = Journal(store)
        Meeting.barrier.wait()
        planned_by = journal.append(batch).run_id
        file = write_file(path, rows)
        Meeting.barrier.wait()
        commit_batch(path, [file], Schema.from_arrow(rows.schema), SPOUT, number)
        events = store.require(EVENTS)
        Meeting.barrier.wait()
        log = pa.Table.from_pylist([event], SCHEMAS[EVENTS].arrow())
        told.append((planned_by, append_rows(events, log, SPOUT, number)))
    return told


def winners(store: Store, table: str, batch: str, driver: str) -> list[str]:
    """Whose each batch of a table is, by its number."""
    found = query(f"SELECT {batch} AS n, {driver} AS name FROM t ORDER BY n", t=store.require(table))
    assert [row["n"] for row in found] == [*range(1, ROUNDS + 1)]
    return [row["name"] for row in found]


@pytest.mark.thorough
def test_of_two_drivers_that_do_a_batch_at_once_one_does_it_and_both_know(store: Store) -> None:
    spawned = multiprocessing.get_context("spawn")  # deltalake's threads do not outlive a fork
    barrier = spawned.Barrier(len(DRIVERS), timeout=PATIENCE_SECONDS)
    with ProcessPoolExecutor(len(DRIVERS), spawned, Meeting.at, (barrier,)) as drivers:
        told = dict(zip(DRIVERS, drivers.map(partial(do_all, store), DRIVERS), strict=True))
    planned = winners(store, BATCHES, "batch", "run_id")
    logged = winners(store, EVENTS, "batch", "reason")
    written = winners(store, stream(SPOUT), "_batch", "driver")
    for driver in DRIVERS:
        assert told[driver] == [*zip(planned, [name == driver for name in logged], strict=True)]
    for found in (planned, written, logged):
        assert {*found} == {*DRIVERS}  # they were at it at once
    # The stream is made with its first batch, the others before.
    versions = [store.require(table).version() for table in (BATCHES, stream(SPOUT), EVENTS)]
    assert versions == [ROUNDS, ROUNDS - 1, ROUNDS]
