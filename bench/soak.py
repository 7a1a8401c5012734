"""`make soak`: days of scheduled cycles in minutes, and what of files, memory and time grows with them.

A cycle an hour, each of its steps a task as a scheduler runs it: a session of its own, the step, the end of
the session. New messages come with each; some fail for a while, some for good, and some tasks end between a
batch's write and its log and are tried again. Maintenance runs six times a day. The clock and the ages of
the store's files move on by an hour a cycle. What comes with every 100th commit comes with every 10th here.

MINUTES (30) says how long. Prints a sample every few cycles and writes `data/soak.json`.
"""

import json
import os
import shutil
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
from deltalake import write_deltalake
from pyspark.sql import SparkSession

from acker.airflow import tasks
from acker.batches.run import Run, Step
from acker.core.store.schemas import BATCHES, LEDGER, REPLAY_REQUESTS, REPLAYS, SCHEMAS, TRIMS, stream
from acker.core.store.store import Store
from acker.core.store.tables import query
from acker.reports.audit import audit_report
from acker.runtime.registry import load_topology
from acker.runtime.server import process as server
from acker.runtime.server.sessions import connect, owned_session
from acker.runtime.settings import Settings, positive_number
from acker.topology.topology import Topology
from bench.command import exit_with
from bench.processes import client_megabytes, server_sizes

MINUTES = 30
CYCLE = timedelta(hours=1)
ORDERS_PER_CYCLE = 200
SAMPLE_EVERY = 2
MAINTAIN_EVERY = 4
OUTAGE_EVERY = 5
CUT_SHORT_EVERY = 7
REPLAY_EVERY = 6  # dead letters, by hand
OFTEN = {"delta.checkpointInterval": "10"}
HISTORY = (BATCHES, LEDGER, REPLAYS, REPLAY_REQUESTS, TRIMS)  # of which nothing deletes rows
GROW = [f"{size} of {name}" for name in HISTORY for size in ("rows", "MB")]
SAID = ("files of events", "server MB", "heap MB", "Python processes", "seconds of a cycle")
AT_MOST = 1.15  # last third ÷ middle third
ENVIRONMENT = {
    "PIPELINE_STREAM_RETENTION_HOURS": "6",
    "PIPELINE_EVENT_RETENTION_HOURS": "6",
    "PIPELINE_FILE_RETENTION_HOURS": "0",  # the tables' own clock is not to be set
    "PIPELINE_TOPOLOGIES": "bench.soaked:topology",
}
FORM = dict.fromkeys(("spout", "positions", "since", "until", "reason", "limit"))


class CutShort(Exception):
    """Ends a task between a batch's write and its log."""


@dataclass
class Soak:
    """The schedule: which cycle it is, what time, and how long each step took since the last sample."""

    home: Path
    settings: Settings
    store: Store
    server: server.Server
    cycle: int = 0
    seconds: dict[str, list[float]] = field(default_factory=dict)

    @property
    def now(self) -> datetime:
        """The clock of the cycle."""
        return datetime(2026, 1, 1, tzinfo=UTC) + self.cycle * CYCLE

    def task(self, name: str, step: Callable[[Run], dict[str, int]], spark: bool = True) -> dict[str, int]:
        """Run a step as a scheduler does, again where it is cut short, and keep the time that it took."""
        cut = [self.cycle % CUT_SHORT_EVERY == 3 and name == "items"]

        def on_step(done: Step) -> None:
            if cut[0] and done.name == "written":
                cut[0] = False
                raise CutShort

        start = time.perf_counter()
        while True:
            session = connect(self.settings) if spark else None
            try:
                if session is not None:
                    # Spark's VACUUM refuses a retention below a week otherwise.
                    session.conf.set("spark.databricks.delta.retentionDurationCheck.enabled", "false")
                run = replace(tasks.open_run("soaked"), clock=lambda: self.now, on_step=on_step)
                if session is not None:
                    run = replace(run, connect=lambda session=session: session)  # type: ignore[misc]
                return step(run)
            except CutShort:
                continue
            finally:
                if session is not None:
                    session.stop()
                self.seconds.setdefault(name, []).append(time.perf_counter() - start)

    def run_cycle(self) -> None:
        """Everything that the DAGs do in an hour."""
        from bench import soaked

        self.cycle += 1
        ids = range((self.cycle - 1) * ORDERS_PER_CYCLE, self.cycle * ORDERS_PER_CYCLE)
        write_deltalake(soaked.ORDERS, pa.table({"id": list(ids)}), mode="append")
        if self.cycle % OUTAGE_EVERY == 0:
            soaked.OUTAGE.touch()
        else:
            soaked.OUTAGE.unlink(missing_ok=True)
        self.task("orders", lambda run: tasks.read_source(run, "orders"))
        for bolt in ("items", "priced", "sold"):
            self.task(bolt, lambda run, bolt=bolt: tasks.run_bolt(run, bolt, False))  # type: ignore[misc]
        self.task("fold", tasks.fold, spark=False)
        for component in ("priced", "sold"):
            self.task("publish", lambda run, name=component: tasks.publish(run, name))  # type: ignore[misc]
        self.task("replay", tasks.replay_due)
        if self.cycle % REPLAY_EVERY == 0:
            form = FORM | {"states": ["dead_letter"], "why": "soak"}
            request = f"soak{self.cycle}"
            self.task("replay", lambda run: tasks.request_by_hand(run, form, "soak", request), spark=False)
            self.task("replay", lambda run: tasks.emit_requested(run, request))
        if self.cycle % MAINTAIN_EVERY == 0:
            for step in (tasks.trim, tasks.compact, tasks.vacuum):
                self.task(step.__name__, step)
        age(self.home / "store", CYCLE)

    def sample(self) -> dict[str, float]:
        """Sizes now, and the seconds of each step and cycle since the last sample."""
        took = {f"seconds of {name}": statistics.median(each) for name, each in self.seconds.items()}
        took["seconds of a cycle"] = sum(map(sum, self.seconds.values())) / SAMPLE_EVERY
        self.seconds.clear()
        rows = {
            f"rows of {name}": query("SELECT count(*) AS n FROM t", t=self.store.require(name))[0]["n"]
            for name in HISTORY
        }
        scratch = sum(file.is_file() for file in (self.home / "server" / "local").rglob("*"))
        sizes = table_sizes(Path(self.store.path("")))
        sizes |= {
            "files of Spark's scratch": scratch,
            **server_sizes(self.server.pid),
            "client MB": client_megabytes(),
        }
        return {name: round(value, 2) for name, value in (sizes | rows | took).items()}


def table_sizes(store: Path) -> dict[str, float]:
    """Files, megabytes and files of the log of each table; all streams as one."""
    sizes: dict[str, float] = {}
    for file in store.rglob("*"):
        if file.is_file():
            parts = file.relative_to(store).parts
            files = f"{'log files' if '_delta_log' in parts else 'files'} of {parts[0]}"
            megabytes = f"MB of {parts[0]}"
            sizes[files] = sizes.get(files, 0) + 1
            sizes[megabytes] = sizes.get(megabytes, 0) + file.stat().st_size / 2**20
    return sizes


def age(folder: Path, by: timedelta) -> None:
    """Let time go by for all files of a folder."""
    for file in folder.rglob("*"):
        if file.is_file():
            written = file.stat().st_mtime - by.total_seconds()
            os.utime(file, (written, written))


def checkpoint_often(store: Store, topology: Topology, spark: SparkSession) -> None:
    """Let few commits bring a checkpoint, and with it the removal of old files of the log."""
    for name in SCHEMAS:
        store.require(name).alter.set_table_properties(OFTEN)
    often = ", ".join(f"'{name}' = '{value}'" for name, value in OFTEN.items())
    for component in topology.components:
        spark.sql(f"ALTER TABLE delta.`{store.path(stream(component))}` SET TBLPROPERTIES ({often})")


def thirds(samples: list[dict[str, float]], name: str) -> tuple[float, float, float]:
    """The mean of a size in each third of the samples."""
    third = len(samples) // 3
    parts = (samples[-3 * third : -2 * third], samples[-2 * third : -third], samples[-third:])
    found = ([sample[name] for sample in part if name in sample] or [0.0] for part in parts)
    first, middle, last = map(statistics.mean, found)
    return first, middle, last


def report(samples: list[dict[str, float]]) -> bool:
    """Print what each size was in each third of the run. Returns whether all but history are flat."""
    flat = True
    print(f"{'mean of each third':<28} {'first':>9} {'middle':>9} {'last':>9}")
    for name in dict.fromkeys(name for sample in samples for name in sample):
        first, middle, last = thirds(samples, name)
        is_flat = last <= middle * AT_MOST + 0.5  # half a file or second is none
        verdict = "grows, as history does" if name in GROW else "flat" if is_flat else "GROWS"
        flat = flat and verdict != "GROWS"
        print(f"{name:<28} {first:>9.2f} {middle:>9.2f} {last:>9.2f}  {verdict}")
    return flat


def main() -> int:
    """Soak. Returns 0 where everything but history stays flat and the audit passes."""
    results = Settings.from_env().home / "soak.json"
    end = time.monotonic() + 60 * positive_number("MINUTES", MINUTES)
    home = results.parent / "soak"
    shutil.rmtree(home, ignore_errors=True)
    os.environ |= ENVIRONMENT | {"PIPELINE_HOME": str(home), "PIPELINE_STORE": "", "SPARK_REMOTE": ""}
    settings = Settings.from_env()
    topology = load_topology("soaked", settings)
    samples: list[dict[str, float]] = []
    with owned_session(settings) as spark:
        found = server.find(settings)
        assert found is not None
        soak = Soak(home, settings, Store(settings.store, topology.name), found)
        while time.monotonic() < end or len(samples) < 3:
            soak.run_cycle()
            if soak.cycle == 1:
                checkpoint_often(soak.store, topology, spark)
            if soak.cycle % SAMPLE_EVERY == 0:
                samples.append(soak.sample())
                said = ", ".join(f"{name} {samples[-1][name]:g}" for name in SAID)
                print(f"cycle {soak.cycle}: {said}", flush=True)
                results.write_text(json.dumps(samples, indent=2) + "\n")
    flat = report(samples)
    audit = audit_report(topology, soak.store)
    print(f"The audit {'passes' if audit.passed else 'FAILS'}. Written to {results}.")
    return 0 if flat and audit.passed else 1


if __name__ == "__main__":
    exit_with(main)
