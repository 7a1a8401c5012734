"""`python -m bench.tasks`: one fold by the process that asks, and by the acker's tasks on a Spark cluster.

The same events are folded by the process itself, and by TASKS (8) tasks of a cluster with one and with two
workers of one core each, ROUNDS (3) times in turn, each time on a copy of the store. All must leave the same
rows. EVENTS (20,000,000) says how many, half of them of messages and half of their acks. Linux alone tells
the memory. Writes `data/bench-tasks.json`.
"""

import contextlib
import json
import os
import shutil
import statistics
from dataclasses import replace
from pathlib import Path

from acker.core.fold.job import run_fold
from acker.core.store.parquet import collect, columns_of, scan
from acker.core.store.schemas import LEDGER
from acker.core.store.store import Store
from acker.core.store.tables import files_of
from acker.core.tasks import ROWS_AT_ONCE
from acker.runtime.server import process as server
from acker.runtime.server.sessions import session
from acker.runtime.settings import Settings, positive_number
from acker.spark.tasks import acker_tasks
from bench.command import exit_with
from bench.large import cost_of, emit, log_acks, request_of
from bench.processes import most_megabytes
from embedded.cluster import Cluster, running_cluster

BATCH = 2_000_000
WORKER_MEMORY = "2g"

Cost = tuple[float, float]  # seconds, and MB of the process that asks


def main() -> int:
    """Measure, print and write. Returns 1 where the rows differ."""
    rounds, tasks = positive_number("ROUNDS", 3), positive_number("TASKS", 8)
    batches = max(positive_number("EVENTS", 20_000_000) // 2 // BATCH, 1)
    settings = Settings.from_env()
    folder = settings.home / "bench" / "tasks"
    shutil.rmtree(folder, ignore_errors=True)
    store = _logged(folder / "logged", batches)
    costs: dict[str, list[Cost]] = {"process": [], "1 worker": [], "2 workers": []}
    of_tasks: dict[str, list[float]] = {name: [] for name in costs}
    for number in range(rounds):
        for name, each in costs.items():
            place = folder / f"{number} {name}"
            copy = _copy(store, place)
            if name == "process":
                cost: Cost = cost_of(_fold_here, copy, batches)
            else:
                with running_cluster(place / "cluster", int(name[0]), WORKER_MEMORY) as cluster:
                    cost, megabytes = _measured_there(settings, cluster, copy, batches, tasks)
                of_tasks[name].append(megabytes)
            each.append(cost)
            print(f"{name}: {cost[0]} s, {cost[1]} MB, tasks {of_tasks[name][-1:]} MB", flush=True)
            if name != "process":
                first = Store(str(folder / f"{number} process" / "store"), store.topology)
                cost_of(_check_same, first, copy)
                shutil.rmtree(place)
        shutil.rmtree(folder / f"{number} process")
    seconds = {name: statistics.median(second for second, _ in each) for name, each in costs.items()}
    result = {
        "events": 2 * batches * BATCH,
        "tasks": tasks,
        "1 worker ÷ 2 workers": round(seconds["1 worker"] / seconds["2 workers"], 2),
        "2 workers ÷ process": round(seconds["2 workers"] / seconds["process"], 2),
        "seconds and MB of the process that asks": costs,
        "MB of the largest task": of_tasks,
    }
    print(text := json.dumps(result, indent=2, ensure_ascii=False))
    (settings.home / "bench-tasks.json").write_text(text + "\n")
    shutil.rmtree(folder)
    return 0


def _logged(folder: Path, batches: int, messages: int = BATCH) -> Store:
    """A store whose messages are all acked, which no fold has seen."""
    store = Store(str(folder), "tasks")
    store.create()
    for batch in range(1, batches + 1):
        roots = emit(store, batch, messages, tuples=1)
        log_acks(store, batch, roots)
    return store


def _copy(store: Store, place: Path) -> Store:
    """The same store elsewhere; of its files, which nobody changes, there is one."""
    copy = Store(str(place / "store"), store.topology)
    shutil.copytree(store.path(""), copy.path(""), copy_function=os.link)
    return copy


def _fold_here(store: Store, batches: int) -> None:
    run_fold(request_of(store, batches, batches))


def _measured_there(
    settings: Settings, cluster: Cluster, store: Store, batches: int, tasks: int
) -> tuple[Cost, float]:
    """What a fold on a cluster costs, and the most MB of a Python process of its workers."""
    there = replace(settings, home=cluster.folder, spark_master=cluster.url)
    server.start(there, owned=True)
    try:
        cost = cost_of(_fold_there, there, store, batches, tasks, first=_warm_up)
        return cost, max(map(most_megabytes, _pythons(cluster)))
    finally:
        server.stop(there)


def _warm_up(settings: Settings, store: Store, batches: int, tasks: int) -> None:
    """A small fold, for which each executor imports what a task needs."""
    _fold_there(settings, _logged(settings.home / "warm-up", 1, messages=tasks), 1, tasks)


def _fold_there(settings: Settings, store: Store, batches: int, tasks: int) -> None:
    with session(settings) as spark:
        by_tasks = acker_tasks(tasks, ROWS_AT_ONCE, lambda: spark)
        run_fold(replace(request_of(store, batches, batches), tasks=by_tasks))


def _pythons(cluster: Cluster) -> list[int]:
    """Processes of a cluster that run Python."""
    groups = {part.pid for part in cluster.parts.values()}
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it has ended meanwhile
            group = int((folder / "stat").read_text().rpartition(")")[2].split()[2])
            if group in groups and b"pyspark" in (folder / "cmdline").read_bytes().partition(b"\0")[2]:
                found.append(int(folder.name))
    return found


def _check_same(one: Store, other: Store) -> None:
    """Both ledgers have the same rows, in whatever order."""
    columns = columns_of(LEDGER)
    first, second = (
        collect(scan(files_of(store.require(LEDGER)), columns)).sort("root_id", "state")
        for store in (one, other)
    )
    assert first.height > 1
    assert first.equals(second)


if __name__ == "__main__":
    exit_with(main)
