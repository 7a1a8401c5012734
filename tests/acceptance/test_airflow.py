"""The whole loop under a real scheduler and API server: killed, cleared, replayed through the REST API."""

import contextlib
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from acker.airflow import KINDS, tasks
from acker.core.store.store import Store
from acker.core.store.tables import open_table, query
from acker.reports.audit import audit_report
from acker.runtime.registry import load_topology
from acker.runtime.server.sessions import connect
from acker.runtime.settings import Settings
from acker.testing.session import SHORT_LIVED
from embedded.stack import ApiError, Stack, running_stack
from tests.kit import ROOT
from tests.kit.listeners import listeners
from tests.kit.waiting import wait_for

TOPOLOGY = '''
"""Square numbers; those below 0 fail until the file `mended` is there."""
import os, time
from pathlib import Path
from pyspark.sql import functions as F
from acker import ExponentialBackoff
from acker import fail_when
from acker import DeltaSpout
from acker import Topology

HERE = Path(__file__).parent
topology = Topology(
    "squares", message_timeout="10 seconds", retry=ExponentialBackoff(initial_seconds=0, limit=0)
)
numbers = topology.spout("numbers", DeltaSpout(str(HERE / "numbers"), key="id"))

@topology.bolt(numbers)
def squared(tuples):
    (HERE / "pid").write_text(str(os.getpid()))
    while (HERE / "hold").exists():
        time.sleep(0.1)
    if (HERE / "broken").exists():
        raise RuntimeError("the lookup is down")
    bad = F.lit(not (HERE / "mended").exists()) & (F.col("id") < 0)
    return tuples.select(
        "anchor", "id", (F.col("id") * F.col("id")).alias("square"), fail_when(bad, "below 0")
    )

topology.publish(squared, to=str(HERE / "squares"))

watched = Topology("watched", schedule="@watch", one_task=True)
letters = watched.spout("letters", DeltaSpout(str(HERE / "letters"), key="id"))
watched.publish(letters, to=str(HERE / "published"))

daily = Topology("daily", reprocess_by="day")
visits = daily.spout("visits", DeltaSpout(str(HERE / "visits"), key="id"))

@daily.bolt(visits)
def rated(tuples):
    return tuples.withColumn("rate", F.lit(int((HERE / "rate").read_text())))

daily.publish(rated, to=str(HERE / "rated"))
'''
REPORT = """
from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import DAG, Asset

with DAG("report", schedule=[Asset("file://{table}")], catchup=False):
    EmptyOperator(task_id="print")
"""
TOKEN = """
from airflow.api_fastapi.app import create_auth_manager
from airflow.api_fastapi.auth.managers.simple.user import SimpleAuthManagerUser

print(create_auth_manager().generate_jwt(SimpleAuthManagerUser(username="{name}", role="{role}")))
"""
NEVER = "0 0 29 2 *"  # before the next one the tests start what they want to see
DONE = ("success", "failed")
WATCH_SECONDS = 2
OUTAGE_SECONDS = 30  # three timeouts
BUSY_SECONDS = 6  # longer than SQLite waits by default
BUSY_TIMES = 4  # who comes first once the database is free is chance


class Airflow:
    """The running stack with short ways to ask for things and wait for them."""

    def __init__(self, stack: Stack, folder: Path, topology: str = "squares") -> None:
        self.stack = stack
        self.folder = folder
        self.topology = topology

    def trigger(self, kind: str, **conf: Any) -> str:
        body = {"logical_date": None, "conf": conf}
        found = self.stack.api("POST", f"dags/{self.topology}.{kind}/dagRuns", body)
        return str(found["dag_run_id"])

    def state(self, kind: str, run: str) -> str:
        return str(self.stack.api("GET", f"dags/{self.topology}.{kind}/dagRuns/{run}")["state"])

    def finish(self, kind: str, run: str) -> str:
        wait_for(lambda: self.state(kind, run) in DONE)
        return self.state(kind, run)

    def run(self, kind: str, **conf: Any) -> str:
        return self.finish(kind, self.trigger(kind, **conf))

    def tasks(self, kind: str, run: str) -> dict[str, tuple[str, int]]:
        found = self.stack.api("GET", f"dags/{self.topology}.{kind}/dagRuns/{run}/taskInstances")
        return {each["task_id"]: (each["state"], each["try_number"]) for each in found["task_instances"]}

    def looked(self) -> tuple[str, str]:
        """What a look of the monitor tells: that there is news, and that something stands."""
        run = self.trigger("monitor")
        self.finish("monitor", run)
        tasks = self.tasks("monitor", run)
        return tasks["check"][0], tasks["stands"][0]

    def returned(self, kind: str, run: str, task: str, key: str) -> Any:
        path = f"dags/{self.topology}.{kind}/dagRuns/{run}/taskInstances/{task}/xcomEntries/{key}"
        return self.stack.api("GET", f"{path}?deserialize=true")["value"]

    def asked(self, kind: str, run: str, task: str, part: str = "body") -> str:
        """What a task asks a person."""
        wait_for(lambda: self.tasks(kind, run)[task][0] == "awaiting_input")
        path = f"dags/{self.topology}.{kind}/dagRuns/{run}/taskInstances/{task}/-1/hitlDetails"
        return str(self.stack.api("GET", path)[part])

    def answer(self, kind: str, run: str, task: str, option: str, user: Stack | None = None) -> None:
        """Answer as a person does whom a task waits for, and no sooner; by default as who asks for all.

        An answer before the scheduler has noted that the process which asked has ended makes it ask again.
        """
        wait_for(lambda: self.tasks(kind, run)[task][0] == "awaiting_input")  # no try yet before it starts
        noted, tried = f"task_id={task}, run_id={run}, ", f"try_number={self.tasks(kind, run)[task][1]}, "
        log = self.stack.settings.home / "airflow" / "scheduler.log"
        wait_for(
            lambda: any(
                all(each in line for each in ("TaskInstance Finished", noted, "state=awaiting_input", tried))
                for line in log.read_text().splitlines()
            )
        )
        path = f"dags/{self.topology}.{kind}/dagRuns/{run}/taskInstances/{task}/-1/hitlDetails"
        (user or self.stack).api("PATCH", path, {"chosen_options": [option]})

    def log(self, kind: str, run: str, task: str) -> str:
        """What a task has logged in its first try."""
        path = f"dags/{self.topology}.{kind}/dagRuns/{run}/taskInstances/{task}/logs/1?full_content=true"
        return json.dumps(self.stack.api("GET", path)["content"])

    @property
    def database(self) -> Path:
        """Airflow's own."""
        return self.stack.settings.home / "airflow" / "airflow.db"

    def squares(self) -> list[int]:
        table = open_table(str(self.folder / "squares"))
        rows = query("SELECT square FROM t ORDER BY square", t=table) if table else []
        return [row["square"] for row in rows]


@pytest.fixture(scope="module")
def airflow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Airflow]:
    folder = tmp_path_factory.mktemp("airflow")
    (folder / "squares.py").write_text(TOPOLOGY)
    shutil.copytree(ROOT / "dags", folder / "dags")
    (folder / "dags" / "report.py").write_text(REPORT.format(table=folder / "squares"))
    write_deltalake(str(folder / "numbers"), pa.table({"id": [1, 2, 3, -4]}))
    # None before all DAGs are known: an event of one that comes before the DAG that it is to start is lost.
    write_deltalake(str(folder / "letters"), pa.table({"id": pa.array([], pa.int64())}))
    days = ["2026-01-28", "2026-01-29", "2026-01-30", "2026-01-31", "2026-02-01"]
    write_deltalake(str(folder / "visits"), pa.table({"id": [1, 2, 3, 4, 5], "day": days}))
    (folder / "rate").write_text("1")
    ours = SHORT_LIVED | {
        "PIPELINE_HOME": str(folder / "home"),
        "PIPELINE_DRIVER_MEMORY": "2g",
        "PIPELINE_TOPOLOGIES": "squares:topology,squares:watched,squares:daily",
        "PIPELINE_RUN_SCHEDULE": NEVER,
        "PIPELINE_ACKER_SCHEDULE": NEVER,
        "PIPELINE_WATCH_SECONDS": str(WATCH_SECONDS),
        "PIPELINE_MAINTAIN_SCHEDULE": NEVER,
        "PIPELINE_MONITOR_SCHEDULE": NEVER,
        "PIPELINE_DISK_FREE_PERCENT": "0",
        "PIPELINE_APPROVAL_LIMIT": "2",
        "PIPELINE_SELF_APPROVAL": "off",
        "PYTHONPATH": str(folder),
    }
    with pytest.MonkeyPatch.context() as patch:
        for name, value in ours.items():
            patch.setenv(name, value)
        patch.syspath_prepend(str(folder))
        with running_stack(Settings.from_env(), folder / "dags") as stack:
            found = Airflow(stack, folder)
            for name in (*(f"squares.{kind}" for kind in KINDS), "report"):
                wait_for(lambda name=name: known(stack, name))
            yield found


@pytest.fixture(scope="module")
def bob(airflow: Airflow) -> Stack:
    """The stack as a second user sees it."""
    return seen_by(airflow.stack, "bob", "ADMIN")


@pytest.fixture(scope="module")
def mallory(airflow: Airflow) -> Stack:
    """The stack as a user sees it who may trigger and no more."""
    return seen_by(airflow.stack, "mallory", "USER")


def seen_by(stack: Stack, name: str, role: str) -> Stack:
    program = TOKEN.format(name=name, role=role)
    done = subprocess.run(
        [sys.executable, "-c", program], env=stack.environ, check=True, capture_output=True, text=True
    )
    return replace(stack, _token=(float("inf"), done.stdout.split()[-1]))


@pytest.fixture
def all_acked(airflow: Airflow) -> Airflow:
    """The stack when every number is acked, also where no test ran before."""
    (airflow.folder / "mended").touch()
    assert airflow.run("run") == "success"
    wait_for(lambda: set(states(airflow)) == {"acked"})
    return airflow


def published(airflow: Airflow) -> int:
    table = open_table(str(airflow.folder / "published"))
    return table.count() if table else 0


def rests(airflow: Airflow) -> bool:
    """Whether no run of the watched topology is added while its watch looks several times."""
    before = watched_runs(airflow)
    time.sleep(3 * WATCH_SECONDS)
    return before == watched_runs(airflow)


def watched_runs(airflow: Airflow) -> int:
    return int(airflow.stack.api("GET", "dags/watched.run/dagRuns")["total_entries"])


def known(stack: Stack, dag_id: str) -> bool:
    try:
        return bool(stack.api("GET", f"dags/{dag_id}"))
    except ApiError as error:
        assert error.status == 404
        return False


def test_messages_survive_a_killed_task_a_cleared_one_and_come_back_by_hand(airflow):
    # A bolt's task is killed in the middle of its batch; Airflow tries again, and the batch is resumed.
    hold, pid = airflow.folder / "hold", airflow.folder / "pid"
    hold.touch()
    run = airflow.trigger("run")
    wait_for(pid.exists)
    os.kill(int(pid.read_text()), signal.SIGKILL)
    hold.unlink()
    assert airflow.finish("run", run) == "success"
    assert airflow.tasks("run", run)["squared"] == ("success", 2)
    told = airflow.stack.api("GET", f"dags/squares.run/dagRuns/{run}/taskInstances/squared/logs/2")["content"]
    (logged,) = [line for line in told if line.get("step") == "logged"]
    assert (logged["topology"], logged["component"], logged["batch"]) == ("squares", "squared", 1)

    # The acker runs by itself, since events were logged. The monitor tells of the dead letter once, and is
    # red for as long as it stands.
    wait_for(lambda: states(airflow) == {"acked": 3, "dead_letter": 1})
    assert [airflow.looked() for _ in range(2)] == [("failed", "failed"), ("skipped", "failed")]

    # A task that is cleared finds its work done.
    body = {"dry_run": False, "dag_run_id": run, "task_ids": ["squared"], "only_failed": False}
    airflow.stack.api("POST", "dags/squares.run/clearTaskInstances", body)
    assert airflow.finish("run", run) == "success"
    assert airflow.tasks("run", run)["squared"] == ("skipped", 3)

    # The form refuses what it does not know.
    with pytest.raises(ApiError) as refused:
        airflow.trigger("replay", states=["dead_leter"])
    assert refused.value.status in (400, 422)

    # The bolt is mended, and the dead letter replayed by hand; that starts the run, and the run the acker.
    (airflow.folder / "mended").touch()
    assert airflow.run("replay", states=["dead_letter"], why="mended", limit=5) == "success"
    wait_for(lambda: states(airflow) == {"acked": 4})
    assert airflow.run("run") == "success"
    assert airflow.squares() == [1, 4, 9, 16]
    assert requests(airflow) == [("admin", "mended", 1)]
    wait_for(lambda: airflow.stack.api("GET", "dags/report/dagRuns")["total_entries"])

    # The monitor tells that it is over, and of a DAG that is paused.
    assert airflow.looked() == ("success", "success")
    airflow.stack.api("PATCH", "dags/squares.maintain", {"is_paused": True})
    assert airflow.looked() == ("failed", "failed")
    airflow.stack.api("PATCH", "dags/squares.maintain", {"is_paused": False})
    assert airflow.looked() == ("success", "success")

    # Maintenance leaves everything as it is.
    assert airflow.run("maintain") == "success"
    result = audit_report(topology(), store(airflow))
    assert (result.verdict, result.acked, result.recovered) == ("pass", 4, 1)


@pytest.mark.thorough
def test_a_watched_topology_runs_when_its_source_has_something_and_else_it_rests(airflow):
    write_deltalake(str(airflow.folder / "letters"), pa.table({"id": [1, 2]}), mode="append")
    wait_for(lambda: published(airflow) == 2)
    wait_for(lambda: rests(airflow))
    write_deltalake(str(airflow.folder / "letters"), pa.table({"id": [3]}), mode="append")
    wait_for(lambda: published(airflow) == 3)
    wait_for(lambda: rests(airflow))


@pytest.mark.extended
def test_a_dry_run_only_counts(airflow):
    before = requests(airflow)
    run = airflow.trigger("replay", states=["acked"], why="to see", dry_run=True)
    assert airflow.finish("replay", run) == "success"
    assert airflow.tasks("replay", run)["emit"][0] == "skipped"
    assert airflow.returned("replay", run, "select", "matched") == 4
    assert (requests(airflow), newest_attempts(airflow)) == (before, [1, 1, 1, 2])


@pytest.mark.extended
def test_a_field_that_the_form_does_not_have_is_refused_before_anybody_is_asked(airflow):
    before = requests(airflow)
    unknown = {"<img src=x>": "y", "[a](http://elsewhere)": "b", "stats": ["acked"]}
    run = airflow.trigger("replay", states=["acked"], **unknown)
    wait_for(lambda: airflow.tasks("replay", run)["select"][0] in DONE)
    assert airflow.tasks("replay", run)["select"][0] == "failed"
    assert airflow.finish("replay", run) == "failed"
    assert airflow.tasks("replay", run)["approve"][0] == "upstream_failed"
    said = (
        "The form has no field called '<img src=x>', '[a](http://elsewhere)', 'stats'; it has states, reason"
    )
    assert said in airflow.log("replay", run, "select")
    assert requests(airflow) == before


@pytest.mark.extended
def test_a_large_replay_waits_for_a_person_and_is_not_done_if_rejected(airflow, bob):
    run = airflow.trigger("replay", states=["acked"], why="no reason")
    assert airflow.run("retry") == "success"  # which what waits for a person does not hold up
    airflow.answer("replay", run, "approve", "Reject", bob)
    assert airflow.finish("replay", run) == "success"
    assert airflow.tasks("replay", run)["emit"][0] == "skipped"
    assert ("admin", "no reason", 4) in requests(airflow)
    assert newest_attempts(airflow) == [1, 1, 1, 2]


@pytest.mark.extended
def test_an_approval_that_nobody_gives_is_a_rejection(airflow):
    run = airflow.trigger("replay", states=["acked"], why="forgotten")
    airflow.asked("replay", run, "approve")
    with contextlib.closing(sqlite3.connect(airflow.database, timeout=60)) as database, database:
        database.execute(  # as if the hours had passed
            "UPDATE task_instance SET trigger_timeout = '2026-01-01 00:00:00.000000' "
            "WHERE run_id = ? AND task_id = 'approve' AND trigger_timeout IS NOT NULL",
            [run],
        )
    assert airflow.finish("replay", run) == "success"
    assert airflow.tasks("replay", run)["emit"][0] == "skipped"
    assert newest_attempts(airflow) == [1, 1, 1, 2]


@pytest.mark.extended
def test_a_task_that_is_marked_as_a_success_approves_nothing(airflow):
    run = airflow.trigger("replay", states=["acked"], why="in a hurry")
    airflow.asked("replay", run, "approve")
    path = f"dags/squares.replay/dagRuns/{run}/taskInstances/approve"
    airflow.stack.api("PATCH", path, {"new_state": "success"})
    assert airflow.finish("replay", run) == "failed"
    said = "The request is of 4 messages, and nobody has approved it."
    assert said in airflow.log("replay", run, "emit")
    assert newest_attempts(airflow) == [1, 1, 1, 2]


@pytest.mark.extended
def test_who_may_trigger_cannot_forge_an_approval_and_the_monitor_tells_it(all_acked, mallory):
    airflow, before = all_acked, newest_attempts(all_acked)
    body = {"logical_date": None, "conf": {"states": ["acked"], "why": "forged"}}
    run = mallory.api("POST", "dags/squares.replay/dagRuns", body)["dag_run_id"]
    asked = airflow.asked("replay", run, "approve")
    assert f"{len(before)} of them are acked: what they have published is replaced in" in asked
    approve = f"dags/squares.replay/dagRuns/{run}/taskInstances/approve"
    bob = {"id": "bob", "name": "bob"}
    forged = {"chosen_options": ["Approve"], "responded_at": "2026-01-01T00:00:00Z", "responded_by_user": bob}
    mallory.api("POST", f"{approve}/xcomEntries", {"key": "return_value", "value": forged})
    mallory.api("PATCH", approve, {"new_state": "success"})
    assert airflow.finish("replay", run) == "failed"
    assert "nobody has approved it" in airflow.log("replay", run, "emit")
    assert newest_attempts(airflow) == before
    look = airflow.trigger("monitor")
    assert airflow.finish("monitor", look) == "failed"
    assert f"The replay {run} of {len(before)} messages, which mallory" in airflow.log(
        "monitor", look, "check"
    )


@pytest.mark.extended
def test_who_asked_for_a_large_replay_cannot_approve_it_and_somebody_else_can(airflow, bob):
    run = airflow.trigger("replay", states=["acked"], why="a mended bug ![](http://elsewhere)")
    asked = airflow.asked("replay", run, "approve")
    assert "- `states`: `acked`\n- `why`: `a mended bug ![](http://elsewhere)`" in asked
    airflow.answer("replay", run, "approve", "Approve")
    assert airflow.finish("replay", run) == "failed"
    assert airflow.tasks("replay", run)["emit"][0] == "upstream_failed"
    said = "admin asked for this replay, so another user must approve it"
    assert said in airflow.log("replay", run, "approve")

    again = ["approve", "emit", "settled"]
    body = {"dry_run": False, "dag_run_id": run, "task_ids": again, "only_failed": False}
    airflow.stack.api("POST", "dags/squares.replay/clearTaskInstances", body)
    wait_for(lambda: airflow.state("replay", run) not in DONE)
    airflow.asked("replay", run, "approve")
    airflow.answer("replay", run, "approve", "Approve", bob)
    assert airflow.finish("replay", run) == "success"
    wait_for(lambda: newest_attempts(airflow) == [2, 2, 2, 3])
    assert airflow.run("run") == "success"
    assert airflow.squares() == [1, 4, 9, 16]
    assert requests(airflow).count(("admin", "a mended bug ![](http://elsewhere)", 4)) == 1


@pytest.mark.extended
def test_what_is_emitted_once_it_is_approved_is_what_was_counted(all_acked, bob):
    airflow, before = all_acked, newest_attempts(all_acked)
    run = airflow.trigger("replay", states=["acked"], why="as counted")
    assert f"Replay {len(before)} messages" in airflow.asked("replay", run, "approve", "subject")
    write_deltalake(str(airflow.folder / "numbers"), pa.table({"id": [5]}), mode="append")
    assert airflow.run("run") == "success"
    wait_for(lambda: newest_attempts(airflow) == [1, *before])
    airflow.answer("replay", run, "approve", "Approve", bob)
    assert airflow.finish("replay", run) == "success"
    wait_for(lambda: set(states(airflow)) == {"acked"} and newest_attempts(airflow)[-1] > before[-1])
    assert newest_attempts(airflow) == [1, *(attempt + 1 for attempt in before)]


@pytest.mark.extended
def test_a_replay_waits_without_a_worker_and_is_red_where_messages_are_given_up_again(all_acked):
    airflow, hold = all_acked, all_acked.folder / "hold"
    carol = Airflow(seen_by(airflow.stack, "carol", "ADMIN"), airflow.folder)  # has asked for nothing yet
    (airflow.folder / "mended").unlink()
    hold.touch()
    run = carol.trigger("replay", states=["acked"], where="id < 0", why="too early")
    wait_for(lambda: airflow.tasks("replay", run)["settled"][0] == "deferred")
    hold.unlink()
    assert airflow.finish("replay", run) == "failed"
    said = "Of 1 messages that were emitted again: acked 0, given up again 1. `acker failures squares` says"
    assert said in airflow.log("replay", run, "settled")

    (airflow.folder / "mended").touch()
    run = carol.trigger("replay", why="mended")  # as the form opens, with what was given up
    assert airflow.finish("replay", run) == "success"
    counts = {"matched": 1, "emitted": 1, "acked": 1, "dead_letter": 0, "lost": 0, "open": 0}
    assert airflow.returned("replay", run, "settled", "return_value") == counts


@pytest.mark.extended
def test_a_run_fails_where_a_task_has_failed_though_those_after_it_go_on(all_acked):
    airflow, broken = all_acked, all_acked.folder / "broken"
    broken.touch()
    write_deltalake(str(airflow.folder / "numbers"), pa.table({"id": [9]}), mode="append")
    run = airflow.trigger("run")
    assert airflow.finish("run", run) == "failed"
    found = {task: state for task, (state, _) in airflow.tasks("run", run).items()}
    assert found.pop("publish_squared") in ("success", "skipped")
    assert found == {"numbers": "success", "squared": "failed", "watcher": "failed"}
    assert "squared failed: the log of each says why." in airflow.log("run", run, "watcher")
    broken.unlink()
    assert airflow.run("run") == "success"


@pytest.mark.thorough
def test_an_outage_of_three_timeouts_brings_no_replays(all_acked):
    airflow = all_acked
    attempts = newest_attempts(airflow)
    acked = len(attempts)
    write_deltalake(str(airflow.folder / "numbers"), pa.table({"id": [6, 7]}), mode="append")
    session = connect(airflow.stack.settings)
    run = tasks.open_run("squares", lambda: session)
    tasks.read_source(run, "numbers")
    tasks.fold(run)
    session.stop()
    assert states(airflow) == {"acked": acked, "pending": 2}

    for part in airflow.stack.parts.values():
        part.terminate()
    for part in airflow.stack.parts.values():
        part.wait()
    time.sleep(OUTAGE_SECONDS)
    assert set(airflow.stack.supervise()) == set(airflow.stack.parts)
    wait_for(lambda: healthy(airflow.stack))

    assert airflow.run("acker") == "success"
    assert states(airflow) == {"acked": acked, "pending": 2}
    assert airflow.run("run") == "success"
    wait_for(lambda: states(airflow) == {"acked": acked + 2})
    assert newest_attempts(airflow) == [1, 1, *attempts]
    assert query("SELECT * FROM t WHERE state = 'timed_out'", t=store(airflow).require("ledger")) == []


@pytest.mark.thorough
def test_a_busy_database_is_waited_for(all_acked):
    airflow = all_acked
    hold, pid = airflow.folder / "hold", airflow.folder / "pid"
    pid.unlink(missing_ok=True)
    hold.touch()
    write_deltalake(str(airflow.folder / "numbers"), pa.table({"id": [8]}), mode="append")
    run = airflow.trigger("run")
    wait_for(pid.exists)  # from now on there are heartbeats, which wait for the database as well
    triggered = [trigger_while_busy(airflow) for _ in range(BUSY_TIMES)]
    hold.unlink()
    assert airflow.finish("run", run) == "success"
    assert [airflow.finish("replay", each) for each in triggered] == ["success"] * BUSY_TIMES


def trigger_while_busy(airflow: Airflow) -> str:
    with contextlib.closing(sqlite3.connect(airflow.database, isolation_level=None)) as database:
        database.execute("BEGIN IMMEDIATE")
        time.sleep(2)  # a heartbeat is the first that waits
        with ThreadPoolExecutor(1) as pool:
            ask = {"states": ["acked"], "why": "to see", "dry_run": True}
            triggered = pool.submit(airflow.trigger, "replay", **ask)
            time.sleep(BUSY_SECONDS)
            assert not triggered.done()
            database.execute("ROLLBACK")
    return triggered.result()


def healthy(stack: Stack) -> bool:
    try:
        health = stack.api("GET", "monitor/health")
    except (OSError, ApiError):
        return False
    return all(health[part]["status"] == "healthy" for part in ("scheduler", "dag_processor"))


def newest_attempts(airflow: Airflow) -> list[int]:
    """The highest acked attempt of each message, sorted."""
    rows = query(
        "SELECT max(attempt) AS newest FROM t WHERE state = 'acked' GROUP BY source_offset ORDER BY newest",
        t=store(airflow).require("ledger"),
    )
    return [row["newest"] for row in rows]


def topology():
    return load_topology("squares:topology", Settings.from_env())


def store(airflow: Airflow) -> Store:
    return Store(airflow.stack.settings.store, "squares")


def states(airflow: Airflow) -> dict[str, int]:
    """Messages by what became of them, once the ledger is there."""
    if store(airflow).open("ledger") is None:
        return {}
    result = audit_report(topology(), store(airflow))
    counts = {name: getattr(result, name) for name in ("acked", "pending", "retrying", "dead_letter")}
    return {name: count for name, count in counts.items() if count}


def requests(airflow: Airflow) -> list[tuple[str, str, int]]:
    rows = query("SELECT * FROM t", t=store(airflow).require("replay_requests"))
    return [(row["requested_by"], row["why"], row["matched"]) for row in rows]


@pytest.fixture
def daily(airflow: Airflow) -> Airflow:
    """The stack when every visit was rated once or more, and at last with 1."""
    found = Airflow(airflow.stack, airflow.folder, "daily")
    for kind in KINDS:
        wait_for(lambda kind=kind: known(found.stack, f"daily.{kind}"))
    (found.folder / "rate").write_text("1")
    assert found.run("run") == "success"
    wait_for(lambda: visits(found) == [1, 1, 1, 1, 1])
    assert found.run("run") == "success"
    assert rates(found) == [(1, 1), (2, 1), (3, 1), (4, 1), (5, 1)]
    (found.folder / "rate").write_text("2")
    return found


def visits(daily: Airflow) -> list[int]:
    """The highest acked attempt of each visit."""
    ledger = Store(daily.stack.settings.store, "daily").open("ledger")
    rows = query(
        "SELECT max(attempt) AS newest FROM t WHERE state = 'acked' GROUP BY source_offset "
        "ORDER BY source_offset",
        t=ledger,
    )
    return [row["newest"] for row in rows]


def rates(daily: Airflow) -> list[tuple[int, int]]:
    table = open_table(str(daily.folder / "rated"))
    rows = query("SELECT id, rate FROM t ORDER BY id", t=table) if table else []
    return [(row["id"], row["rate"]) for row in rows]


def days_of(stack: Stack, **asked: Any) -> list[str]:
    """The days of which a backfill would make runs."""
    return [each["partition_key"] for each in stack.api("POST", "backfills/dry_run", asked)["backfills"]]


def unfinished_backfills(stack: Stack, dag_id: str) -> list[int]:
    found = stack.api("GET", f"backfills?dag_id={dag_id}")["backfills"]
    return [each["id"] for each in found if each["completed_at"] is None]


def runs_of(daily: Airflow, day: str) -> list[str]:
    found = daily.stack.api("GET", "dags/daily.reprocess/dagRuns?order_by=id")["dag_runs"]
    return [each["dag_run_id"] for each in found if each["partition_key"] == day]


@pytest.mark.extended
def test_a_backfill_of_airflows_replaces_what_its_days_have_published_and_nothing_else(daily, bob):
    asked = {
        "dag_id": "daily.reprocess",
        "from_date": "2026-01-29T00:00:00Z",
        "to_date": "2026-01-31T00:00:00Z",
        "run_backwards": True,
        "max_active_runs": 1,
        "dag_run_conf": {"why": "the rate was wrong"},
    }
    three = ["2026-01-31", "2026-01-30", "2026-01-29"]
    assert days_of(daily.stack, **asked) == three
    daily.stack.api("POST", "backfills", asked)
    # Two messages go out without an approval. The third day needs one, which who asked cannot give.
    wait_for(lambda: all(runs_of(daily, day) for day in three))
    (first,) = runs_of(daily, "2026-01-31")
    (last,) = runs_of(daily, "2026-01-29")
    assert "Together with 2 other requests of admin" in daily.asked("reprocess", last, "approve")
    daily.answer("reprocess", last, "approve", "Approve", bob)
    assert [daily.finish("reprocess", run) for run in (first, last)] == ["success", "success"]
    wait_for(lambda: visits(daily) == [1, 2, 2, 2, 1])  # `run` has started `daily.run`, and that the acker
    assert daily.run("run") == "success"
    assert rates(daily) == [(1, 1), (2, 2), (3, 2), (4, 2), (5, 1)]

    # A run that is cleared emits nothing twice; a day that is backfilled again has a run of its own.
    body = {"dry_run": False, "dag_run_id": first, "only_failed": False}
    daily.stack.api("POST", "dags/daily.reprocess/clearTaskInstances", body)
    assert daily.finish("reprocess", first) == "success"
    assert daily.tasks("reprocess", first)["emit"][0] == "skipped"
    again = asked | {"from_date": asked["to_date"]}
    assert days_of(bob, **again) == []
    again |= {"reprocess_behavior": "completed"}
    # The scheduler ends a backfill some time after the last of its runs, and until then refuses another one.
    wait_for(lambda: not unfinished_backfills(daily.stack, "daily.reprocess"))
    assert days_of(bob, **again) == ["2026-01-31"]
    bob.api("POST", "backfills", again)
    wait_for(lambda: len(runs_of(daily, "2026-01-31")) == 2)
    assert daily.finish("reprocess", runs_of(daily, "2026-01-31")[1]) == "success"
    wait_for(lambda: visits(daily) == [1, 2, 2, 3, 1])
    rows = query("SELECT * FROM t", t=Store(daily.stack.settings.store, "daily").require("replay_requests"))
    assert sorted((row["requested_by"], row["matched"]) for row in rows) == [*[("admin", 1)] * 3, ("bob", 1)]

    # The other DAGs are not offered, and a run without a day is refused.
    for kind in ("run", "acker", "replay"):
        with pytest.raises(ApiError):
            daily.stack.api("POST", "backfills", asked | {"dag_id": f"daily.{kind}"})
    run = daily.trigger("reprocess")
    assert daily.finish("reprocess", run) == "failed"
    assert "A run of daily.reprocess is for a day." in daily.log("reprocess", run, "select")


def test_nothing_listens_but_on_this_machine(airflow):
    # By session, since Airflow's processes write their titles over what /proc tells of their environment.
    sessions = {part.pid for part in airflow.stack.parts.values()}
    found = listeners([pid for pid in processes() if session_of(pid) in sessions])
    assert found and {address for address, _ in found} <= {"127.0.0.1", "::1"}


def test_nobody_else_can_read_what_is_written(airflow):
    home = airflow.stack.settings.home
    files = [file for file in home.rglob("*") if file.is_file() and not file.is_symlink()]
    assert {"airflow.db", "scheduler.log", "server.log"} <= {file.name for file in files}
    assert [file for file in files if file.stat().st_mode & 0o077] == []


def processes() -> list[int]:
    return [int(each.name) for each in Path("/proc").glob("[0-9]*")]


def session_of(pid: int) -> int | None:
    try:
        return os.getsid(pid)
    except OSError:
        return None  # it has ended
