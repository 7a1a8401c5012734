"""A store in the middle of its life, which a test may damage, and what everybody says of it afterwards.

A real run leaves it with something at every stage: messages that are published, one that waits for its retry,
some that are acked and not published, logged and not folded, emitted and not taken, planned and not written.
"""

import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from acker.batches.run import Run, Step
from acker.cli.commands import spark_message
from acker.components.anchors import fail_when
from acker.core.errors import AckerError
from acker.core.retry import ExponentialBackoff
from acker.core.snapshot.ledger import fold_counts, newest_fold
from acker.core.store.store import Store
from acker.core.store.tables import open_table, query
from acker.operations.cycle import run_bolt, run_cycle, run_spout
from acker.operations.fold import fold
from acker.operations.maintenance.compact import compact
from acker.operations.publish import publish
from acker.reports.audit import audit_report
from acker.reports.status import status_report
from acker.reports.trace import trace_report
from acker.spouts import DeltaSpout
from acker.testing.session import for_few_rows
from acker.topology.topology import Topology
from tests.kit.places import Clock
from tests.kit.stops import Stop

WINDOW_SECONDS = 150
DAY_SECONDS = 86_400
CYCLES = 40  # at most, until all has settled
OUTAGE = "outage"  # while a file of this name is there, message 2 fails


def squares(folder: Path) -> Topology:
    topology = Topology("squares", retry=ExponentialBackoff(initial_seconds=0, limit=20))
    numbers = topology.spout("numbers", DeltaSpout(str(folder / "numbers"), key="id"))

    @topology.bolt(numbers)
    def squared(tuples):
        square = (F.col("id") * F.col("id")).alias("square")
        down = F.lit((folder / OUTAGE).exists()) & (F.col("id") == 2)
        return tuples.select("anchor", "id", square, fail_when(down, "down"))

    topology.publish(squared, to=str(folder / "squares"))
    return topology


class Damaged:
    """A folder with a source, a store and a published table, which is the working folder of its test."""

    def __init__(self, folder: Path, spark: SparkSession) -> None:
        self.folder = folder
        self.clock = Clock()
        self.topology = squares(folder)
        self.store = Store(str(folder / "store"), "squares")
        self.on_step: Callable[[Step], None] = lambda step: None
        self.spark = spark

    @property
    def run(self) -> Run:
        return Run(
            self.topology,
            self.store,
            lambda: self.spark,
            clock=self.clock,
            on_step=lambda s: self.on_step(s),
        )

    def on(self, day: str) -> "Damaged":
        """A copy of the place, which lies beside it."""
        return Damaged(self.folder.parent / day, self.spark)

    def move(self) -> None:
        """Give the folder another name.

        Spark's server keeps what it knows of a path, so an operator stops it before a copy is put back. Here
        it serves other tests, and is given a path that it does not know.
        """
        now, moved = self.clock.now, self.folder.rename(self.folder.with_name(f"{self.folder.name}_moved"))
        Damaged.__init__(self, moved, self.spark)
        self.clock.now = now

    def path(self, table: str) -> Path:
        """A table's folder: of the store, or `squares`, the published one."""
        return self.folder / (table if table == "squares" else f"store/squares/{table}")

    def table(self, name: str) -> DeltaTable:
        return DeltaTable(str(self.path(name)))

    def emit(self, *ids: int) -> None:
        write_deltalake(str(self.folder / "numbers"), pa.table({"id": list(ids)}), mode="append")

    def rows(self) -> list[tuple[int, int]]:
        """What is published."""
        table = open_table(str(self.folder / "squares"))
        return (
            []
            if table is None
            else sorted((row["id"], row["square"]) for row in query("SELECT id, square FROM t", t=table))
        )

    def _cycles(self) -> None:
        """Run cycles until nothing is live or left to do."""
        self.store.create()  # as commands do
        for _ in range(CYCLES):
            done = run_cycle(self.run)
            counts = fold_counts(newest_fold(self.store))
            if not done.batches and not counts.get("pending") and not counts.get("retrying"):
                return
            self.clock.advance(WINDOW_SECONDS)

    def answer(self, step: Callable[[], Any]) -> str:
        """What a command that does this would say: an error's message, or nothing."""
        try:
            step()
        except AckerError as error:
            assert "\n" not in str(error)
            return str(error)
        except PySparkException as error:
            return f"Spark refused: {spark_message(error)}"
        return ""

    def ask(self, command: str) -> str:
        """What `audit`, `status` or `trace` would say: an error, what an audit finds, or nothing."""
        commands = {
            "audit": self._judge,
            "status": lambda: status_report(self.topology, self.store, self.clock.now),
            "trace": lambda: trace_report(self.topology, self.store, "0:2"),
        }
        return self.answer(commands[command])

    def _judge(self) -> None:
        found = audit_report(self.topology, self.store)
        if not found.passed:
            raise AckerError(str(found.findings))

    def step(self, name: str) -> str:
        """What one of the commands would say."""
        steps = {"fold": fold, "publish": publish, "compact": compact, "run": lambda _: self._cycles()}
        return self.answer(lambda: steps[name](self.run))


def first_day(place: Damaged) -> None:
    """One cycle, after which messages 1 and 3 are published and message 2 waits for its retry."""
    place.store.create()
    place.emit(1, 2, 3)
    (place.folder / OUTAGE).touch()
    run_cycle(place.run)


def second_day(place: Damaged) -> None:
    """What brings a store to the middle of its life."""
    numbers, squared = (place.topology.components[name] for name in ("numbers", "squared"))

    def stop(step: Step) -> None:
        raise Stop

    place.clock.advance(DAY_SECONDS)
    place.emit(4, 5)
    run_cycle(place.run)
    (place.folder / OUTAGE).unlink()
    place.emit(6)
    run_spout(place.run, numbers)  # replays message 2 as well
    run_bolt(place.run, squared)
    place.emit(7)
    run_spout(place.run, numbers)
    fold(place.run)  # which acks all but the last, and nothing is published of it
    run_bolt(place.run, squared)
    place.emit(8)
    run_spout(place.run, numbers)
    place.emit(9)
    place.on_step = stop
    with suppress(Stop):
        run_spout(place.run, numbers)  # it only plans
    place.on_step = lambda step: None


PUBLISHED = [(n, n * n) for n in range(1, 10)]  # in the end


@pytest.fixture(scope="module")
def living(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Damaged:
    """A store in the middle of its life; beside it a copy, `kept`, and one of the day before, `yesterday`."""
    place = Damaged(tmp_path_factory.mktemp("living") / "today", for_few_rows(spark))
    place.folder.mkdir()
    first_day(place)
    shutil.copytree(place.folder, place.folder.parent / "yesterday")
    second_day(place)
    shutil.copytree(place.folder, place.folder.parent / "kept")
    return place


@pytest.fixture
def place(living: Damaged, spark: SparkSession, tmp_path: Path) -> Damaged:
    """A copy of it, and of the copies."""
    shutil.copytree(living.folder.parent, tmp_path, dirs_exist_ok=True)
    found = Damaged(tmp_path / "today", spark)
    found.clock.now = living.clock.now
    return found
