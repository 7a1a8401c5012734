"""Each alarm of the monitor under the whole stack, with limits that settings alone have made short.

It takes over an hour, since a backlog that grows is known by its last hour. `pytest -s` prints the minutes of
the trial in which each cause began, was told and was told to be over.
"""

import json
import os
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from acker.airflow import tasks
from acker.operations.acknowledge import acknowledge
from acker.runtime.settings import Settings
from acker.testing.session import SHORT_LIVED
from embedded.stack import ApiError, Stack, running_stack
from tests.kit import ROOT
from tests.kit.waiting import wait_for

HEAD = """
import time
from pathlib import Path
from pyspark.sql import functions as F
from acker import ExponentialBackoff, FileSpout, RichBolt, Topology, fail_when

HERE = Path(__file__).parent
IDS = "id bigint"
"""
TOPOLOGIES = {
    "calm": """
topology = Topology("calm")
lines = topology.spout("lines", FileSpout(str(HERE / "calm_lines"), format="json", schema=IDS))
topology.publish(lines, to=str(HERE / "calm_table"))
""",
    "shop": """
topology = Topology("shop", retry=ExponentialBackoff(initial_seconds=1, limit=1), max_pending=60)
orders = topology.spout("orders", FileSpout(str(HERE / "orders"), format="json", schema=IDS))

@topology.bolt(orders)
def priced(tuples):
    if (HERE / "raises").exists():
        raise ConnectionError("the price list is away")
    while (HERE / "holds").exists():
        time.sleep(0.2)
    bad = F.lit(not (HERE / "mended").exists()) & (F.col("id") < 0)
    return tuples.select("anchor", "id", fail_when(bad, "below 0"))

topology.publish(priced, to=str(HERE / "sold"))
""",
    "feed": """
topology = Topology("feed", expects="5 minutes")
lines = topology.spout("lines", FileSpout(str(HERE / "feed_lines"), format="json", schema=IDS))
topology.publish(lines, to=str(HERE / "disk" / "fed"))
""",
    "pairs": """
topology = Topology("pairs", message_timeout="2 days")
halves = topology.spout("halves", FileSpout(str(HERE / "halves"), format="json", schema=IDS))

class Paired(RichBolt):
    def prepare(self, context):
        self.first = {}

    def execute(self, tup, collector):
        if tup.id in self.first:
            collector.ack(self.first.pop(tup.id))
            collector.ack(tup)
        else:
            self.first[tup.id] = tup

topology.rich_bolt(halves.fields_grouping("id"), schema=IDS)(Paired)
""",
}
LIMITS = {
    "PIPELINE_MONITOR_SCHEDULE": "* * * * *",
    "PIPELINE_MAINTAIN_SCHEDULE": "*/15 * * * *",
    "PIPELINE_WATCH_SECONDS": "10",
    "PIPELINE_ACKER_LATE_MINUTES": "2",
    "PIPELINE_BATCH_LATE_MINUTES": "3",
    "PIPELINE_RETRY_LATE_MINUTES": "2",
    "PIPELINE_MESSAGE_LATE_MINUTES": "4",
    "PIPELINE_SOURCE_LATE_MINUTES": "3",
    "PIPELINE_UPKEEP_LATE_MINUTES": "2",
    "PIPELINE_BACKLOG_ALLOWED": "50",
    "PIPELINE_APPROVAL_LIMIT": "2",
    "PIPELINE_SELF_APPROVAL": "off",
    "PIPELINE_DISK_FREE_PERCENT": "2",
}
DISK_MB = 256  # of the small one
MINUTES = 60
PATIENCE_SECONDS = 90 * MINUTES  # the backlog needs its hour


class NotTried(Exception):
    """What this machine cannot bring about."""


@dataclass
class Trial:
    """The stack, and what its monitors tell."""

    stack: Stack
    folder: Path
    begun: datetime = field(default_factory=lambda: datetime.now(UTC))

    def minute(self, moment: datetime | None = None) -> str:
        return f"{((moment or datetime.now(UTC)) - self.begun).total_seconds() / MINUTES:5.1f}"

    def stands(self, topology: str) -> dict[str, datetime]:
        """The kinds of what stands, each with when it was first told."""
        try:
            value = self.stack.api("GET", f"variables/acker_{topology}_monitor")["value"]
        except ApiError as error:
            assert error.status == 404
            return {}
        told = json.loads(json.loads(value)["stands"])
        return {each["kind"]: datetime.fromisoformat(each["since"]) for each in reversed(told)}

    def pause(self, dag: str, is_paused: bool = True) -> None:
        self.stack.api("PATCH", f"dags/{dag}", {"is_paused": is_paused})

    def run(self, dag: str) -> str:
        run = self.stack.api("POST", f"dags/{dag}/dagRuns", {"logical_date": None, "conf": {}})["dag_run_id"]
        wait_for(lambda: self.state(dag, run) in ("success", "failed"), 2)
        return self.state(dag, run)

    def state(self, dag: str, run: str) -> str:
        return str(self.stack.api("GET", f"dags/{dag}/dagRuns/{run}")["state"])

    def feed(self, name: str, *ids: int) -> Path:
        """Write a file of a source at once."""
        path = self.folder / name / f"{time.time_ns()}.json"
        draft = self.folder / f"{name} {path.name}"
        draft.write_text("".join(f'{{"id": {each}}}\n' for each in ids))
        draft.replace(path)
        return path

    def tell(self, cause: "Cause") -> None:
        """Let something be wrong until its alarms have come, and mend it."""
        began = datetime.now(UTC)
        with cause.wrong(self):
            self.wait(cause.topology, lambda stands: {*cause.kinds} <= {*stands})
            told = self.stands(cause.topology)
        if cause.is_over:
            self.wait(cause.topology, lambda stands: not {*cause.kinds} & {*stands})
        over = self.minute() if cause.is_over else "   - "
        for kind in cause.kinds:
            print(f"{kind:20} {self.minute(began)} {self.minute(told[kind])} {over}", flush=True)

    def wait(self, topology: str, condition: Callable[[dict[str, datetime]], bool]) -> None:
        wait_for(lambda: condition(self.stands(topology)), 5, patience_seconds=PATIENCE_SECONDS)


@dataclass(frozen=True)
class Cause:
    """What is wrong within a context, and which alarms of which topology tell of it."""

    topology: str
    kinds: tuple[str, ...]
    wrong: Callable[[Trial], AbstractContextManager[None]]
    is_over: bool = True  # once the context has ended


LANES: dict[str, list[Cause]] = {}  # topology -> its causes, one after the other; the topologies side by side


def cause(topology: str, *kinds: str, is_over: bool = True) -> Callable[..., None]:
    def note(wrong: Callable[[Trial], Iterator[None]]) -> None:
        LANES.setdefault(topology, []).append(Cause(topology, kinds, contextmanager(wrong), is_over))

    return note


# What needs a bolt.


@cause("shop", "given-up")
def a_message_is_given_up(trial):
    trial.feed("orders", -1)
    yield
    run = tasks.open_run("shop")
    acknowledge(run, run.snapshot().fold.number, "the trial", "known")


@cause("shop", "held")
def a_bolt_raises(trial):
    with touched(trial.folder / "raises"):
        trial.feed("orders", 1)
        yield


@cause("shop", "late-batches", "late-messages", "backlog", "full-spouts")
def a_bolt_hangs(trial):
    with touched(trial.folder / "holds"):
        trial.feed("orders", *range(60))
        yield


@cause("shop", "late-folds", "paused")
def nobody_folds(trial):
    with paused(trial, "shop.acker"):
        trial.feed("orders", 2)
        yield


@cause("shop", "late-retries")
def nobody_retries(trial):
    with paused(trial, "shop.retry"):
        trial.feed("orders", -2)
        yield
        (trial.folder / "mended").touch()


@cause("shop", "late-sources", "stalled-spouts")
def nobody_reads(trial):
    with paused(trial, "shop.run"):
        trial.feed("orders", 3)
        yield


@cause("shop", "late-publishes")
def a_table_cannot_be_written(trial):
    with as_written_by_nobody(trial.folder / "sold" / "_delta_log"):
        trial.feed("orders", 4)
        yield


@cause("shop", "unapproved", is_over=False)
def an_approval_is_forged(trial):
    """Somebody lets a replay that waits for an approval go."""
    body = {"logical_date": None, "conf": {"states": ["acked"], "why": "forged"}}
    run = trial.stack.api("POST", "dags/shop.replay/dagRuns", body)["dag_run_id"]
    approve = f"dags/shop.replay/dagRuns/{run}/taskInstances/approve"
    wait_for(lambda: trial.stack.api("GET", approve)["state"] == "awaiting_input")
    trial.stack.api("PATCH", approve, {"new_state": "success"})
    wait_for(lambda: trial.state("shop.replay", run) == "failed")
    yield


# What needs a source and a table.


@cause("feed", "quiet-sources")
def nothing_new_comes(trial):
    yield
    trial.feed("feed_lines", 1)


@cause("feed", "unreachable-sources")
def a_folder_is_gone(trial):
    with moved(trial.folder / "feed_lines"):
        yield


@cause("feed", "empty-sources")
def a_folder_is_empty(trial):
    with moved(trial.folder / "feed_lines"):
        (trial.folder / "feed_lines").mkdir()
        yield


@cause("feed", "changed-sources")
def a_file_is_overwritten(trial):
    first = min((trial.folder / "feed_lines").glob("*.json"))
    with instead_of(first, '{"id": 77}\n'):
        yield


@cause("feed", "publishers")
def a_published_table_is_gone(trial):
    with moved(trial.folder / "disk" / "fed"):
        yield


@cause("feed", "full-disks")
def a_disk_is_full(trial):
    if not os.path.ismount(trial.folder / "disk"):
        raise NotTried("this user may mount no disk")
    with touched(trial.folder / "disk" / "much") as much:
        much.write_bytes(bytes(DISK_MB * 99 // 100 << 20))
        yield


@cause("feed", "store")
def a_store_is_gone(trial):
    with moved(store_of("feed")):
        yield


@cause("feed", "failed-upkeep")
def an_audit_finds_a_row_of_nobody(trial):
    fed = str(trial.folder / "disk" / "fed")
    version = DeltaTable(fed).version()
    write_deltalake(fed, pa.table({"_root_id": [7], "id": [7]}), mode="append")
    assert trial.run("feed.maintain") == "failed"
    yield
    DeltaTable(fed).restore(version)
    assert trial.run("feed.maintain") == "success"


@cause("feed", "broken")
def a_topology_does_not_import(trial):
    with instead_of(trial.folder / "feed.py", "import nowhere_to_be_found\n"):
        yield


@cause("feed", "not-looked")
def a_commit_of_the_store_cannot_be_read(trial):
    log = store_of("feed") / "upkeep" / "_delta_log"
    newest = max(int(each.stem) for each in log.glob("*.json"))
    with touched(log / f"{newest + 1:020}.json") as commit:
        commit.write_text("no commit\n")
        yield


# What takes long.


@cause("pairs", "late-upkeep")
def nobody_maintains(trial):
    with paused(trial, "pairs.maintain"):
        yield


@cause("pairs", "growing-backlog", is_over=False)
def a_backlog_grows(trial):
    yield


@pytest.fixture(scope="module")
def trial(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trial]:
    folder = tmp_path_factory.mktemp("alarms")
    for name, body in TOPOLOGIES.items():
        (folder / f"{name}.py").write_text(HEAD + body)
    for name in ("calm_lines", "orders", "feed_lines", "halves", "disk"):
        (folder / name).mkdir()
    ours = SHORT_LIVED | LIMITS
    ours |= {
        "PIPELINE_HOME": str(folder / "home"),
        "PIPELINE_DRIVER_MEMORY": "2g",
        "PIPELINE_TOPOLOGIES": ",".join(f"{name}:topology" for name in TOPOLOGIES),
        "PYTHONPATH": str(folder),
    }
    with pytest.MonkeyPatch.context() as patch, a_small_disk(folder / "disk"):
        for name, value in ours.items():
            patch.setenv(name, value)
        patch.syspath_prepend(str(folder))
        with running_stack(Settings.from_env(), ROOT / "dags") as stack:
            for name in TOPOLOGIES:
                wait_for(lambda name=name: is_known(stack, f"{name}.monitor"))
            yield Trial(stack, folder)


@contextmanager
def a_small_disk(folder: Path) -> Iterator[None]:
    """A disk of its own at a folder, where this user may mount one."""
    mount = ["mount", "-t", "tmpfs", "-o", f"size={DISK_MB}m", "tmpfs", str(folder)]
    done = subprocess.run(mount, check=False)
    try:
        yield
    finally:
        if done.returncode == 0:
            subprocess.run(["umount", str(folder)], check=True)


def store_of(topology: str) -> Path:
    return Path(Settings.from_env().store) / topology


def is_known(stack: Stack, dag: str) -> bool:
    try:
        return bool(stack.api("GET", f"dags/{dag}"))
    except ApiError as error:
        assert error.status == 404
        return False


@contextmanager
def as_written_by_nobody(folder: Path) -> Iterator[None]:
    """A folder in which nobody may make a file, the administrator neither."""
    is_root = os.geteuid() == 0
    locks, opens = (("chattr", "+i"), ("chattr", "-i")) if is_root else (("chmod", "555"), ("chmod", "755"))
    subprocess.run([*locks, str(folder)], check=True)
    try:
        yield
    finally:
        subprocess.run([*opens, str(folder)], check=True)


@contextmanager
def touched(path: Path) -> Iterator[Path]:
    path.touch()
    try:
        yield path
    finally:
        path.unlink()


@contextmanager
def moved(path: Path) -> Iterator[None]:
    away = path.with_name(f"{path.name} away")
    path.rename(away)
    try:
        yield
    finally:
        shutil.rmtree(path, ignore_errors=True)
        away.rename(path)


@contextmanager
def paused(trial: Trial, dag: str) -> Iterator[None]:
    trial.pause(dag)
    try:
        yield
    finally:
        trial.pause(dag, is_paused=False)


@contextmanager
def instead_of(path: Path, text: str) -> Iterator[None]:
    """A file that holds something else, and then what it held, with its old time."""
    kept = path.with_name(f".{path.name}.kept")
    shutil.copy2(path, kept)
    path.write_text(text)
    try:
        yield
    finally:
        kept.replace(path)


@contextmanager
def every(seconds: float, work: Callable[[], object]) -> Iterator[None]:
    """Some work that is done again and again meanwhile."""
    ended = threading.Event()

    def repeat() -> None:
        while not ended.wait(seconds):
            work()

    thread = threading.Thread(target=repeat)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


@pytest.mark.thorough
def test_every_alarm_is_told_and_is_over_and_a_topology_that_is_well_is_not_told_of(trial: Trial) -> None:
    numbers = iter(range(1, 1_000_000))
    failed: list[str] = []
    print("", "alarm                began  told  over, in minutes", sep="\n", flush=True)
    for name in ("calm_lines", "orders", "feed_lines", "halves"):
        trial.feed(name, 0)
    for table in ("sold", "disk/fed", "calm_table"):
        wait_for(lambda table=table: DeltaTable.is_deltatable(str(trial.folder / table)), 5)

    def tell_all(causes: list[Cause]) -> None:
        for each in causes:
            try:
                trial.tell(each)
            except NotTried as error:
                print(f"{each.kinds[0]:20} not tried: {error}", flush=True)
            except Exception as error:
                failed.append(f"{each.kinds}: {type(error).__name__}: {error}")
                print(failed[-1], flush=True)

    with every(3 * MINUTES, lambda: trial.feed("halves", next(numbers))), ThreadPoolExecutor() as pool:
        list(pool.map(tell_all, LANES.values()))
    assert failed == []
    assert trial.stands("calm") == {}
    assert trial.stack.api("GET", "dags/calm.monitor/dagRuns?state=failed")["total_entries"] == 0
