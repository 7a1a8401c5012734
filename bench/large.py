"""Many messages: what a choice among them, a fold over them and their audit cost a client.

Each is done in a process of its own, of which the seconds and the most memory are told.
"""

import multiprocessing
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from multiprocessing.connection import Connection
from pathlib import Path

import polars as pl
from deltalake import CommitProperties, Transaction, write_deltalake
from pyspark.sql import SparkSession

from acker.core.events import State
from acker.core.fold.job import FoldRequest, run_fold
from acker.core.retry import ExponentialBackoff
from acker.core.snapshot.inputs import SourceRange
from acker.core.snapshot.journal import Journal
from acker.core.snapshot.ledger import fold_counts, newest_fold
from acker.core.snapshot.planned import Batch
from acker.core.snapshot.publishers import Meeting, meet
from acker.core.snapshot.snapshot import Snapshot
from acker.core.store.checksums import batch_row, checksum_of_batch
from acker.core.store.parquet import columns_of
from acker.core.store.schemas import EVENTS, LEDGER, SCHEMAS, stream
from acker.core.store.store import Store
from acker.core.store.tables import append_rows
from acker.core.timeouts import Timeouts
from acker.operations.selection.matching import select
from acker.operations.selection.selection import Selection
from acker.reports.audit import audit_report
from acker.spouts import DeltaSpout
from acker.targets.append import DeltaAppend
from acker.targets.base import Publisher
from acker.topology.topology import Topology
from bench.fold import NOW, SPOUT, with_history
from bench.processes import most_megabytes

SETTLED = 10_000_000
CHOSEN = 10_000
SELECTION_SECONDS = 3.0
LIVE = 20_000_000
LIVE_BATCH = 2_000_000
IDLE_MB = 2_000.0
ACKED_MB = 3_000.0
FRESH = 4_000_000
FRESH_KB = 0.8
BOLT = "words"
AUDITED = (1_000_000, 10_000_000)
AUDIT_BATCH = 500_000
AUDIT_AT_MOST = 1.5


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
    costs = [cost_of(_select, store) for _ in range(rounds)]
    return _figure("selection", "s", SELECTION_SECONDS, costs)


def measure_idle(spark: SparkSession, folder: Path, rounds: int, live: int = LIVE) -> Figure:
    """The most memory for a fold without events over 20 M messages in flight."""
    store = _in_flight(folder, live)
    before = _bytes(store)
    costs = [cost_of(_fold, store, live // LIVE_BATCH) for _ in range(rounds)]
    print(f"  {(_bytes(store) - before) / rounds:,.0f} bytes a fold", flush=True)
    return _figure("idle", "MB", IDLE_MB, costs)


def measure_acked(spark: SparkSession, folder: Path, rounds: int, live: int = LIVE) -> Figure:
    """The most memory for a fold that acks 20 M messages in flight. It can be done once."""
    store = _in_flight(folder, live)
    batches = live // LIVE_BATCH
    for batch in range(1, batches + 1):
        roots = roots_of(batch, LIVE_BATCH)
        log_acks(store, batch, roots)
    cost = cost_of(_fold, store, batches, batches)
    fold = newest_fold(store)
    assert fold is not None
    assert fold_counts(fold) == {State.ACKED: live, "late": 0}
    return _figure("acked", "MB", ACKED_MB, [cost])


def measure_fresh(
    spark: SparkSession, folder: Path, rounds: int, messages: int = FRESH, *, fails: bool = False
) -> Figure:
    """KB of memory for each event of a fold of 4 M new messages, in one pass: an init and an ack of each.

    Args:
        fails: whether each fails in place of its ack, with a reason of its own.
    """
    costs = []
    batches = messages // LIVE_BATCH
    for number in range(rounds):
        store = Store(str(folder / str(number)), "fresh")
        store.create()
        for batch in range(1, batches + 1):
            roots = emit(store, batch, LIVE_BATCH, tuples=1)
            log_acks(store, batch, roots, fails)
        costs.append(cost_of(_fold, store, batches, batches))
    seconds, megabytes = (list(each) for each in zip(*costs, strict=True))
    value = round(statistics.median(megabytes) * 1024 / (2 * messages), 2)
    return Figure("failing" if fails else "fresh", "KB an event", value, FRESH_KB, seconds, megabytes)


def measure_audit(
    spark: SparkSession, folder: Path, rounds: int, audited: tuple[int, int] = AUDITED
) -> Figure:
    """The most memory for the audit of 10 M published messages ÷ of 1 M."""
    few, many = (_published(Store(str(folder / str(count)), "audited"), count) for count in audited)
    costs = [cost_of(_audit, store) for _ in range(rounds) for store in (few, many)]
    seconds, megabytes = (list(each) for each in zip(*costs, strict=True))
    ratio = round(statistics.median(megabytes[1::2]) / statistics.median(megabytes[::2]), 2)
    return Figure("audit", "times the memory", ratio, AUDIT_AT_MOST, seconds, megabytes)


def _figure(name: str, unit: str, at_most: float, costs: list[tuple[float, float]]) -> Figure:
    seconds, megabytes = (list(each) for each in zip(*costs, strict=True))
    value = statistics.median(seconds if unit == "s" else megabytes)
    return Figure(name, unit, value, at_most, seconds, megabytes)


def cost_of(
    work: Callable[..., None], *given: object, first: Callable[..., None] | None = None
) -> tuple[float, float]:
    """Seconds and the most MB of a process that does some work.

    Args:
        work: a function of a module, and what it is given is pickled.
        first: done with the same before the time runs.
    """
    spawned = multiprocessing.get_context("spawn")
    ours, theirs = spawned.Pipe()
    process = spawned.Process(target=_tell, args=(theirs, work, given, first))
    process.start()
    theirs.close()
    told: tuple[float, float] = ours.recv()
    process.join()
    return told


def _tell(
    pipe: Connection,
    work: Callable[..., None],
    given: tuple[object, ...],
    first: Callable[..., None] | None,
) -> None:
    if first:
        first(*given)
    start = time.perf_counter()
    work(*given)
    seconds = round(time.perf_counter() - start, 2)
    pipe.send((seconds, most_megabytes()))


def _topology(store: Store) -> Topology:
    topology = Topology(store.topology)
    topology.spout(SPOUT, DeltaSpout(store.path("none"), key="id"))
    return topology


def _in_flight(folder: Path, live: int) -> Store:
    """A store with so many messages in flight."""
    store = Store(str(folder), "live")
    store.create()
    for batch in range(1, live // LIVE_BATCH + 1):
        emit(store, batch, LIVE_BATCH, tuples=1)
        _fold(store, batch)
    return store


def _select(store: Store) -> None:
    chosen = Selection(states=(State.ACKED,), limit=CHOSEN)
    assert select(_topology(store), Snapshot(store), chosen).count == CHOSEN


def _published(store: Store, messages: int) -> Store:
    """A store whose spout's messages are all acked and published."""
    store.create()
    publisher = Publisher.of(store.require(LEDGER), SPOUT)
    for batch in range(1, messages // AUDIT_BATCH + 1):
        plan = Batch(SPOUT, batch, "next", SourceRange(batch), (), NOW, "bench")
        assert Journal(store).append_all([plan])
        roots = emit(store, batch, AUDIT_BATCH, tuples=0)
        _fold(store, batch)
        rows = pl.DataFrame({"_root_id": roots, "value": roots.cast(pl.String)})
        nothing = pl.lit(None, pl.String)
        emitted = rows.with_columns(_batch=pl.lit(batch, pl.Int64), _kind=nothing, _error=nothing)
        write_deltalake(store.path(stream(SPOUT)), emitted.to_arrow(), mode="append")
        once = CommitProperties(app_transactions=[Transaction(publisher.app, batch)])
        write_deltalake(_target(store), rows.to_arrow(), mode="append", commit_properties=once)
    target, newest = DeltaAppend(_target(store)), messages // AUDIT_BATCH
    met = Meeting(SPOUT, target.uri, target.target_id() or "", publisher.app, newest, "first")
    meet(store, met, is_shared=False, now=NOW)
    return store


def _target(store: Store) -> str:
    return store.path("published")


def _audit(store: Store) -> None:
    topology = _topology(store)
    topology.publish(SPOUT, _target(store))
    found = audit_report(topology, store)
    assert found.passed, found.findings


def emit(store: Store, batch: int, messages: int, tuples: int) -> pl.Series:
    """Log the inits of a batch of messages, in flight where they have tuples. Returns their roots."""
    roots = roots_of(batch, messages)
    events = {
        "root_id": roots,
        "kind": "init",
        "ack_val": tuples,
        "emitted": tuples,
        "consumed": 0,
        "spout": SPOUT,
        "source_partition": "0",
        "source_offset": pl.int_range(messages, eager=True) + batch * messages,
        "attempt": 1,
    }
    log(store, SPOUT, batch, events)
    return roots


def log_acks(store: Store, batch: int, roots: pl.Series, fails: bool = False) -> None:
    """Log that the bolt acked the one tuple of each of these messages, or that it failed it."""
    events: dict[str, object] = {"root_id": roots, "ack_val": 1, "emitted": 0, "consumed": 1}
    if fails:
        numbers = pl.DataFrame({"n": pl.int_range(len(roots), eager=True)})
        why = numbers.select(pl.format("KeyError: 'item {} of an order'", "n")).to_series()
        log(store, BOLT, batch, {**events, "kind": "fail", "reason": why})
    else:
        log(store, BOLT, batch, {**events, "kind": "ack"})


def roots_of(batch: int, messages: int) -> pl.Series:
    """The roots of a batch of messages."""
    return (pl.int_range(messages, eager=True) + batch * messages).hash(batch).reinterpret(signed=True)


def log(store: Store, component: str, batch: int, events: dict[str, object]) -> None:
    """Log the events of a batch."""
    columns = columns_of(EVENTS)
    given = pl.DataFrame({**events, "component": component, "batch": batch, "logged_at": NOW})
    rows = pl.concat([pl.DataFrame(schema=columns), given], how="diagonal_relaxed").cast(columns)
    sealed = pl.concat([batch_row(checksum_of_batch(rows), component, batch, rows.height, NOW), rows])
    append_rows(store.require(EVENTS), sealed.to_arrow().cast(SCHEMAS[EVENTS].arrow()), component, batch)


def request_of(store: Store, batch: int, of_bolt: int = 0) -> FoldRequest:
    """That of a fold of all that is logged, by a clock that nothing is too old for.

    Args:
        batch: the newest of the spout.
        of_bolt: the newest of the bolt.
    """
    return FoldRequest(
        snapshot=Snapshot(store),
        logged={SPOUT: batch} | ({BOLT: of_bolt} if of_bolt else {}),
        waiting={},
        spouts=[SPOUT],
        retry=ExponentialBackoff(),
        timeouts=Timeouts(timedelta(hours=1)),
        now=NOW,
    )


def _fold(store: Store, batch: int, of_bolt: int = 0) -> None:
    run_fold(request_of(store, batch, of_bolt))


def _bytes(store: Store) -> int:
    """Of all files of the ledger, its log included."""
    return sum(path.stat().st_size for path in Path(store.path(LEDGER)).rglob("*") if path.is_file())
