"""A scenario's tasks in processes of their own, killed at a point, or the Spark server with them."""

import contextlib
import itertools
import os
import shutil
import signal
import threading
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Literal

from pyspark.sql import SparkSession
from pyspark.sql.connect.client.core import SparkConnectClient
from pyspark.sql.connect.proto import GetStatusResponse

from acker.batches.run import Run
from acker.core.errors import ServerError
from acker.core.store.lease import Lease
from acker.core.store.sightings import Sightings
from acker.core.store.store import Store
from acker.core.tasks import CALLER, Tasks
from acker.runtime.server import process as server
from acker.runtime.server.channels import channel
from acker.runtime.server.ports import check_free, free_port
from acker.runtime.settings import LOOPBACK, Settings
from tests.faults.crash_scenarios import SCENARIOS, Scenario, Task
from tests.faults.effects import Effect, watch
from tests.faults.worker import begin, end_of, processes, session
from tests.kit import ROOT
from tests.kit.servers import remote_of
from tests.kit.waiting import PATIENCE_SECONDS, wait_for

Moment = Literal["before", "sent", "within", "after"]
START = datetime(2026, 1, 1, tzinfo=UTC)
POLL_SECONDS = 0.0002
HOW = "to record the points: make test-faults ARGS='-k points_that_are_recorded --record-points'"
POINTS = ROOT / "tests" / "faults" / "crash_points.txt"

processes.set_forkserver_preload([__name__])  # and with it the one that `worker` names


class _Copied(Sightings):
    """What was seen of leases in a case's folder, which a copy of the folder has seen as well."""

    def __init__(self, folder: Path, steady: Callable[[], float]) -> None:
        super().__init__(folder / "leases", steady)

    def _file(self, what: str) -> Path:
        assert self._folder is not None
        return super()._file(what.removeprefix(str(self._folder.parent)))


def open_run(
    task: Task, folder: Path, connect: Callable[[], SparkSession], acker_tasks: Tasks = CALLER
) -> Run:
    """A run of a task's topology at the task's time."""
    topology = task.topology(folder)
    topology.validate()
    now = START + timedelta(seconds=task.at)
    store = Store(str(folder / "store"), topology.name)
    sightings = _Copied(folder, steady=now.timestamp)
    hold = Lease(store, "crashing", lambda: now, sightings=sightings).hold
    return Run(topology, store, connect, clock=lambda: now, tasks=acker_tasks, hold=hold, sightings=sightings)


def _do(pipe: Connection, scenario: str, number: int, folder: Path, remote: str, acker_tasks: Tasks) -> None:
    """Do a task in this process, and wait at each effect until the other end of the pipe says so."""
    opened: list[str] = []

    def pause(moment: str, effect: Effect) -> None:
        pipe.send((moment, effect, opened[0] if opened else None))
        pipe.recv()

    def connected() -> SparkSession:
        found = session(remote)
        opened.append(found.session_id)
        return found

    watch(folder, pause)
    task = SCENARIOS[scenario].tasks[number]
    try:
        task.do(open_run(task, folder, connected, acker_tasks))
    except Exception:
        pipe.send(("raised", traceback.format_exc(), None))
    else:
        pipe.send(("ended", None, None))
    os._exit(0)  # as it is; a session is left to the server, as by a client that is killed


class Child:
    """A process that does one task and waits at each of its effects."""

    def __init__(
        self, scenario: str, number: int, folder: Path, remote: str, acker_tasks: Tasks = CALLER
    ) -> None:
        self.pipe, theirs = processes.Pipe()
        self.process = begin(_do, theirs, scenario, number, folder, remote, acker_tasks)
        theirs.close()
        self.session: str | None = None

    def hear(self) -> tuple[str, Any]:
        """What it says next: a moment and an effect, `ended`, or `raised` and the traceback."""
        assert self.pipe.poll(PATIENCE_SECONDS), "the task says nothing"
        moment, what, session = self.pipe.recv()
        self.session = session or self.session
        return moment, what

    def go(self) -> None:
        with contextlib.suppress(OSError):  # it has ended
            self.pipe.send("go")

    def kill(self) -> None:
        self.process.kill()
        code = end_of(self.process)
        assert code == -signal.SIGKILL, code
        self.pipe.close()


@dataclass(frozen=True)
class Point:
    """An effect of a task, found again by its number among the task's effects."""

    scenario: str
    task: str
    number: int
    label: str
    is_sparks: bool

    def __str__(self) -> str:
        return f"{self.scenario}.{self.task}.{self.number}.{self.label}"


@dataclass
class Recording:
    """An undisturbed run: its points, and the folder as it was before each task."""

    name: str
    scenario: Scenario
    end: Path
    starts: list[Path] = field(default_factory=list)
    points: list[Point] = field(default_factory=list)
    lines: set[tuple[str, int]] = field(default_factory=set)  # that led to an effect
    strays: list[str] = field(default_factory=list)  # commits outside of any point

    def number(self, task: str) -> int:
        """A task's place among the scenario's."""
        return [each.name for each in self.scenario.tasks].index(task)


class Kit:
    """What the cases share: folders and recordings."""

    def __init__(self, folder: Path, remote: str, servers: str) -> None:
        self.folder = folder
        (folder / "servers").write_text(servers)
        self.remote = remote
        self.recordings: dict[str, Recording] = {}
        self._recording = threading.Lock()
        self._copies = itertools.count()

    def recording(self, name: str) -> Recording:
        """A scenario's recording, which is made when it is first asked for."""
        with self._recording:
            if name not in self.recordings:
                self.recordings[name] = self._record(name, self.remote)
            return self.recordings[name]

    def _record(self, name: str, remote: str) -> Recording:
        spark = session(remote)
        scenario = SCENARIOS[name]
        now = self.folder / name
        now.mkdir()
        found = Recording(name, scenario, now)
        for number, task in enumerate(scenario.tasks):
            task.world(now)
            found.starts.append(self.copy(now))
            if not task.is_tried:
                task.do(open_run(task, now, lambda: spark))
                continue
            known = commits(now)
            child = Child(name, number, now, remote)
            count = 0
            while True:
                moment, what = child.hear()
                if moment == "raised":
                    raise AssertionError(what)
                if moment in ("before", "ended"):  # what is new was there outside of a point
                    found.strays += sorted(commits(now) - known)
                if moment == "ended":
                    break
                if moment == "before":
                    count += 1
                    found.points.append(Point(name, task.name, count, what.label, what.is_sparks))
                    found.lines.update(what.lines)
                known = commits(now)
                child.go()
            end_of(child.process)
        spark.stop()
        return found

    def folder_for(self, name: str) -> Path:
        """A new folder for a scenario from its beginning on."""
        folder = self.folder / f"{name}-{next(self._copies)}"
        folder.mkdir()
        return folder

    def copy(self, folder: Path) -> Path:
        """A copy of a case's folder, whose tables know no path."""
        return Path(shutil.copytree(folder, self.folder / f"{next(self._copies)}"))


def commits(folder: Path) -> set[str]:
    """Every commit of every table."""
    return {str(each.relative_to(folder)) for each in folder.rglob("_delta_log/*.json")}


def files(folder: Path) -> set[str]:
    """Every file of every table and of all else."""
    return {os.path.join(where, name) for where, _, names in os.walk(folder) for name in names}


def reach(child: Child, point: Point) -> Effect | None:
    """Let a task go on up to a point, at which it waits; None where it has ended without it."""
    count = 0
    while True:
        moment, what = child.hear()
        assert moment != "raised", what
        if moment == "ended":
            end_of(child.process)
            return None
        count += moment == "before"
        if moment == "before" and (count, what.label) == (point.number, point.label):
            return what
        child.go()


def go_until(child: Child, folder: Path, effect: Effect, moment: Moment) -> None:
    """Let a task go on from a point until a moment of it; `within` is when the first new file is there."""
    known = files(folder)
    said = "before"
    while said not in (moment, "after"):
        child.go()
        while not child.pipe.poll(POLL_SECONDS):
            if moment == "within":
                # What this client does itself takes few milliseconds, so it is looked at while it stands.
                os.kill(child.process.pid, signal.SIGSTOP)
                if files(folder) != known:
                    return
                os.kill(child.process.pid, signal.SIGCONT)
        said, what = child.hear()
        assert said in ("sent", "after"), what


def await_orphans(remote: str, session_id: str | None) -> None:
    """Wait until the server has done all that a killed client had asked it for, and free what it keeps.

    The server would keep a session for an hour more, with the state of all tables that it has read.
    """
    if session_id is None:
        return
    wait_for(lambda: not is_busy(remote, session_id), every_seconds=0.05)
    with client_of(remote, session_id) as client:
        client.release_session()


def is_busy(remote: str, session_id: str) -> bool:
    """Whether the server still works for a client."""
    running = GetStatusResponse.OperationStatus.OPERATION_STATE_RUNNING
    with client_of(remote, session_id) as client:
        found = client._get_operation_statuses().operation_statuses
    return any(each.state == running for each in found)


def client_of(remote: str, session_id: str) -> contextlib.closing[SparkConnectClient]:
    """A further client of a session."""
    connection = channel(f"{remote};session_id={session_id}", None)
    return contextlib.closing(SparkConnectClient(connection, retry_policy={"max_retries": 5}))


def recorded_points() -> list[Point]:
    """The points of all scenarios, as the last recording has written them down."""
    points = []
    for line in POINTS.read_text().splitlines():
        scenario, task, number, label, *sparks = line.split()
        points.append(Point(scenario, task, int(number), label, bool(sparks)))
    return points


def write_down(found: Recording) -> None:
    """Put a run's points in the place of those that the file has of its scenario."""
    points = {name: [each for each in recorded_points() if each.scenario == name] for name in SCENARIOS}
    points[found.name] = found.points
    lines = [
        f"{each.scenario} {each.task} {each.number} {each.label}{' spark' if each.is_sparks else ''}\n"
        for name in SCENARIOS
        for each in points[name]
    ]
    POINTS.write_text("".join(lines))


class OwnServer:
    """A Spark server that may be killed, and comes back on the same port."""

    def __init__(self, home: Path) -> None:
        ours = {"PIPELINE_HOME": str(home), "PIPELINE_DRIVER_MEMORY": "1g"}
        self.settings = Settings.from_env(ours)
        self.port = free_port()
        self.start()

    def start(self) -> None:
        self.running = server.start(self.settings, owned=True, port=self.port)

    def kill(self) -> None:
        os.killpg(self.running.pid, signal.SIGKILL)
        # The system takes its memory away first, and then its port.
        wait_for(lambda: server.find(self.settings) is None and self._has_let_go(), every_seconds=0.05)

    def _has_let_go(self) -> bool:
        try:
            check_free(LOOPBACK, self.port)
        except ServerError:
            return False
        return True

    def stop(self) -> None:
        server.stop(self.settings)

    @property
    def url(self) -> str:
        return remote_of(self.settings)


def let_go(child: Child) -> None:
    """Let a task whose server was killed come to its end, whichever that is."""
    os.kill(child.process.pid, signal.SIGCONT)  # for it may have been stopped within a point
    moment = "killed"
    while moment not in ("ended", "raised"):
        child.go()  # where it does not wait now, it does not wait at its next moment
        moment, _ = child.hear()
    end_of(child.process)
