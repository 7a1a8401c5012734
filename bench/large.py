"""Many messages: what a choice among them and a fold over them cost a client.

Each is done in a process of its own, of which the seconds and the most memory are told.
"""

import multiprocessing
import resource
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from multiprocessing.connection import Connection
from pathlib import Path

import polars as pl
from pyspark.sql import SparkSession

from acker.core.checksums import events_with_checksum
from acker.core.delta import Store, append_rows
from acker.core.events import State
from acker.core.fold_job import FoldRequest, run_fold
from acker.core.parquet import columns_of
from acker.core.schemas import EVENTS, LEDGER, SCHEMAS
from acker.core.snapshot import Snapshot
from acker.core.timeouts import Timeouts
from acker.operations.matching import select
from acker.operations.selection import Selection
from acker.spouts import DeltaSpout
from acker.topology.topology import Topology
from bench.fold import NOW, SPOUT, with_history

SETTLED = 10_000_000
CHOSEN = 10_000
SELECTION_SECONDS = 3.0
LIVE = 20_000_000
LIVE_BATCH = 2_000_000
IDLE_MB = 2_000.0


@dataclass(frozen=True)
class Figure:
    """One figure of a process: its median, and what else was measured."""

    name: str
    unit: str
    value: float
    at_most: float
    seconds: list[float]
    megabytes: list[float]

    def __str__(self) -> str:
        costs = f"{self.seconds} s, {self.megabytes} MB at most"
        return f"{self.value} {self.unit} (at most {self.at_most})\n  {costs}"

    @property
    def within(self) -> bool:
        """Whether the figure is within its bound."""
        return self.value <= self.at_most


def measure_selection(spark: SparkSession, folder: Path, rounds: int, settled: int = SETTLED) -> Figure:
    """Seconds for the choice of 10,000 among 10 M acked messages."""
    store = with_history(spark, folder, settled, new=False)
    costs = [_cost(_select, store) for _ in range(rounds)]
    return _figure("selection", "s", SELECTION_SECONDS, costs)


def measure_idle(spark: SparkSession, folder: Path, rounds: int, live: int = LIVE) -> Figure:
    """The most memory for a fold without events over 20 M messages in flight."""
    store = Store(str(folder), "idle")
    store.create()
    for batch in range(1, live // LIVE_BATCH + 1):
        _emit(store, batch)
        _fold(store, batch)
    before = _bytes(store)
    costs = [_cost(_fold, store, live // LIVE_BATCH) for _ in range(rounds)]
    print(f"  {(_bytes(store) - before) / rounds:,.0f} bytes a fold", flush=True)
    return _figure("idle", "MB", IDLE_MB, costs)


def _figure(name: str, unit: str, at_most: float, costs: list[tuple[float, float]]) -> Figure:
    seconds, megabytes = (list(each) for each in zip(*costs, strict=True))
    value = statistics.median(seconds if unit == "s" else megabytes)
    return Figure(name, unit, value, at_most, seconds, megabytes)


def _cost(work: Callable[..., None], *given: object) -> tuple[float, float]:
    """Seconds and the most MB of a process that does some work."""
    spawned = multiprocessing.get_context("spawn")
    ours, theirs = spawned.Pipe()
    process = spawned.Process(target=_tell, args=(theirs, work, given))
    process.start()
    theirs.close()
    told: tuple[float, float] = ours.recv()
    process.join()
    return told


def _tell(pipe: Connection, work: Callable[..., None], given: tuple[object, ...]) -> None:
    start = time.perf_counter()
    work(*given)
    seconds = round(time.perf_counter() - start, 2)
    pipe.send((seconds, round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 0)))


def _topology(store: Store) -> Topology:
    topology = Topology(store.topology)
    topology.spout(SPOUT, DeltaSpout(store.path("none"), key="id"))
    return topology


def _select(store: Store) -> None:
    chosen = Selection(states=(State.ACKED,), limit=CHOSEN)
    assert select(_topology(store), Snapshot(store), chosen).count == CHOSEN


def _emit(store: Store, batch: int) -> None:
    """Log the init of a batch of messages that stay in flight."""
    offset = pl.int_range(LIVE_BATCH, eager=True) + batch * LIVE_BATCH
    events = pl.DataFrame(
        {
            "root_id": offset.hash(batch).reinterpret(signed=True),
            "kind": "init",
            "ack_val": 1,
            "emitted": 1,
            "consumed": 0,
            "spout": SPOUT,
            "source_partition": "0",
            "source_offset": offset,
            "attempt": 1,
            "component": SPOUT,
            "batch": batch,
            "logged_at": NOW,
        }
    )
    columns = columns_of(EVENTS)
    rows = pl.concat([pl.DataFrame(schema=columns), events], how="diagonal_relaxed").cast(columns)
    sealed = events_with_checksum(rows, SPOUT, batch, LIVE_BATCH, NOW)
    append_rows(store.require(EVENTS), sealed.to_arrow().cast(SCHEMAS[EVENTS].arrow()), SPOUT, batch)


def _fold(store: Store, batch: int) -> None:
    """A fold of all that is logged, by a clock that nothing is too old for."""
    request = FoldRequest(
        snapshot=Snapshot(store),
        logged={SPOUT: batch},
        waiting={},
        spouts=[SPOUT],
        delays=[1.0],
        timeouts=Timeouts(timedelta(hours=1)),
        now=NOW,
    )
    run_fold(request)


def _bytes(store: Store) -> int:
    """Of all files of the ledger, its log included."""
    return sum(path.stat().st_size for path in Path(store.path(LEDGER)).rglob("*") if path.is_file())
