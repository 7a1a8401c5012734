"""Processes killed before, within and after every durable effect: the end is as if nothing had happened.

The points are those of `crash_points.txt`, which undisturbed runs have written: each call of a library that
changes a table. A run that makes others fails here, and so does code with a call that no run makes.
"""

import functools
import multiprocessing
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pytest
from pyspark.sql import SparkSession

from acker.tables import Store
from tests.faults.calls import calls
from tests.faults.crash_scenarios import SCENARIOS
from tests.faults.crashes import (
    Child,
    Kit,
    Moment,
    OwnServer,
    Point,
    Recording,
    await_orphans,
    do_all_else,
    finish,
    go_until,
    is_busy,
    let_go,
    reach,
    recorded_points,
    wait_for,
    write_down,
)
from tests.faults.judge import faults, published, settled_rows, states
from tests.faults.side_by_side import SideBySide
from tests.faults.worker import session

KIND = "crash points"
OFTEN = {"client": 2, "server": 1}  # cases of one kind that are not thorough
TOGETHER = 6
AT_ONCE = 2  # kills of clients
HOW = "to record the points: make test-faults ARGS='-k points_that_are_recorded --record-points'"

# Calls that only look like effects, and effects that are no part of a run.
EXEMPT = {
    "acker/fold.py:connected:rename": "columns of a frame",
    "pipeline/demo.py": "the demonstration, which kills processes itself",
    "pipeline/examples/orders.py:priced:csv": "reads",
    "pipeline/examples/orders_feed.py": "writes the input of an example",
    "pipeline/poison.py:error_of:save": "writes to nowhere",
    "pipeline/progress.py": "draws a line on a terminal",
    "pipeline/publish.py:_add_to_aggregates:merge": "makes SQL",
    "pipeline/rich.py:_located:parquet": "reads",
    "pipeline/server.py": "the server's own files; see tests/acceptance/test_server.py",
    "pipeline/session.py": "makes a session",
    "pipeline/shape.py:_kept_shape": "a cache, put in its place by a rename",
    "pipeline/stack.py": "starts Airflow, before any run",
    "pipeline/cli.py:Context.running:create": "calls Store.create, as the scenario does",
    "pipeline/tasks.py:open_run:create": "calls Store.create, as the scenario does",
    "pipeline/tasks.py:vacuum:vacuum": "calls maintain.vacuum with the setting, the scenario with 0 hours",
}


@dataclass(frozen=True)
class Kill:
    """A case."""

    point: Point
    moment: Moment
    victim: Literal["client", "server"] = "client"
    others_first: bool = False  # whether other tasks come before the one that was killed is done again

    def __str__(self) -> str:
        return f"{self.point}-{self.moment}-{self.victim}{'-others_first' if self.others_first else ''}"


def kills(victim: Literal["client", "server"]) -> list[Any]:
    """Each moment of each point. Of every kind of effect some are not thorough, their moments by turns."""
    turns = Counter[str]()
    found = []
    last = {(point.scenario, point.task): point for point in recorded_points()}
    for point in recorded_points():
        moments: list[Moment] = ["before", "within"]
        if victim == "server" and not point.is_sparks:
            continue
        if victim == "client" and point.is_sparks:
            moments.insert(1, "sent")
        # What a client that is killed leaves after an effect is what it leaves before its next one.
        if victim == "server" or last[point.scenario, point.task] == point:
            moments.append("after")
        kind = point.label.partition(":")[0]
        often = moments[turns[kind] % len(moments)] if victim == "client" else "within"
        for moment in moments:
            is_rare = moment != often or turns[kind] >= OFTEN[victim]
            found.append(case(Kill(point, moment, victim), is_rare))
        turns[kind] += 1
    return found


def kills_with_others_first() -> list[Any]:
    """Each point, at which other tasks come before the one that was killed is done again."""
    points = recorded_points()
    often = [each for each in points if each.task in ("squared", "by_hand") and each.scenario == "retried"]
    return [case(Kill(each, "within", others_first=True), each not in often) for each in points]


def case(kill: Kill, is_rare: bool) -> Any:
    return pytest.param(kill, marks=[pytest.mark.thorough] if is_rare else [], id=str(kill))


@pytest.fixture(scope="module")
def rerun(remote: str) -> Iterator[SparkSession]:
    """The session that takes up what was killed."""
    found = session(remote)
    yield found
    found.stop()


@pytest.fixture(scope="module")
def kit(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kit]:
    yield Kit(tmp_path_factory.mktemp("crashes"))
    for child in multiprocessing.active_children():  # of cases that failed
        child.kill()


def end(scenario: str, folder: Path) -> tuple[dict[str, Any], dict[str, int], list[str]]:
    """What a scenario has come to: what it published, its messages by state, and what is wrong with it."""
    topology = SCENARIOS[scenario].tasks[-1].topology(folder)
    store = Store(str(folder / "store"), topology.name)
    return published(topology), states(store), faults(topology, store)


undisturbed_end = functools.cache(end)


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_run_has_the_points_that_are_recorded(name, kit, remote, rerun, request):
    found = kit.recording(name, remote, rerun)
    if request.config.getoption("--record-points"):
        write_down(found)
    assert found.strays == []
    assert found.points == [point for point in recorded_points() if point.scenario == name], HOW
    rows, counts, wrong = end(name, found.end)
    others = {state: count for state, count in counts.items() if state != "acked"}
    assert (rows, others, wrong) == (found.scenario.published, found.scenario.states, [])


def test_every_call_that_may_change_a_table_is_a_point_of_some_run(kit, remote, rerun):
    lines = {line for name in SCENARIOS for line in kit.recording(name, remote, rerun).lines}
    found = [
        call
        for call in calls()
        if not any(call.file == file and call.first <= n <= call.last for file, n in lines)
    ]
    left = [str(call) for call in found if not any(str(call).startswith(exempt) for exempt in EXEMPT)]
    assert left == []
    assert [exempt for exempt in EXEMPT if not any(str(call).startswith(exempt) for call in found)] == []


def judge(found: Recording, number: int, folder: Path) -> None:
    """Whether a killed run has come to what the undisturbed one did, and settled nothing anew."""
    scenario = found.name
    assert end(scenario, folder) == undisturbed_end(scenario, found.end)
    before, after = (
        settled_rows(store_of(scenario, number, each)) for each in (found.starts[number], folder)
    )
    assert before <= after


def store_of(scenario: str, number: int, folder: Path) -> Store:
    return Store(str(folder / "store"), SCENARIOS[scenario].tasks[number].topology(folder).name)


@pytest.fixture(scope="module")
def killed(asked, kit: Kit, remote: str, rerun: SparkSession) -> Iterator[SideBySide[Kill, None]]:
    """All kills of clients that are asked for, under way."""

    def kill_and_do_again(kill: Kill) -> None:
        point = kill.point
        found = kit.recording(point.scenario, remote, rerun)
        number = found.number(point.task)
        folder = kit.copy(found.starts[number])
        child = Child(point.scenario, number, folder, remote)
        go_until(child, folder, reach(child, point), kill.moment)
        child.kill()
        again = session(remote)
        if kill.others_first:
            do_all_else(found.scenario, number, folder, again)
        finish(found.scenario, number, folder, again)
        again.stop()
        await_orphans(remote, child.session)
        judge(found, number, folder)

    wanted = [each["kill"] for each in asked if "kill" in each and each["kill"].victim == "client"]
    ends = SideBySide(AT_ONCE, kill_and_do_again, wanted)
    yield ends
    ends.stop()


@pytest.mark.parametrize("kill", kills("client"))
def test_a_process_that_is_killed_leaves_nothing_undone(kill: Kill, killed: SideBySide[Kill, None]):
    killed.end(kill)


@pytest.mark.parametrize("kill", kills_with_others_first())
def test_what_others_do_before_a_killed_task_is_done_again_does_no_harm(
    kill: Kill, killed: SideBySide[Kill, None]
):
    killed.end(kill)


def test_a_write_that_outlives_its_client_and_the_rerun_changes_nothing(
    kit: Kit, remote: str, rerun: SparkSession
):
    (point,) = [each for each in recorded_points() if each.scenario == "overtaken" and each.is_sparks]
    found = kit.recording(point.scenario, remote, rerun)
    number = found.number(point.task)
    folder = kit.copy(found.starts[number])
    (folder / "hold").touch()
    child = Child(point.scenario, number, folder, remote)
    reach(child, point)
    child.go()
    child.hear()  # that the request is sent
    wait_for((folder / "held").exists)
    child.kill()
    finish(found.scenario, number, folder, rerun)
    assert child.session is not None and is_busy(remote, child.session)
    (folder / "release").touch()
    await_orphans(remote, child.session)
    judge(found, number, folder)


class ServerKills:
    """Kills of a Spark server, which takes seconds to start; so several points share one."""

    def __init__(self, kit: Kit, own: OwnServer, wanted: list[Kill]) -> None:
        self.kit = kit
        self.own = own
        self.wanted = wanted
        self.left: dict[Kill, Path] = {}

    def folder(self, kill: Kill) -> Path:
        """What is left of a case after the server was killed at its point."""
        if kill not in self.left:
            rest = self.wanted[self.wanted.index(kill) :]
            self._kill([each for each in rest if each.moment == kill.moment][:TOGETHER], kill.moment)
        return self.left[kill]

    def _kill(self, kills: list[Kill], moment: Moment) -> None:
        reached = []
        for kill in kills:
            scenario = kill.point.scenario
            found = self.kit.recordings[scenario]
            number = found.number(kill.point.task)
            folder = self.kit.copy(found.starts[number])
            child = Child(scenario, number, folder, self.own.url)
            reached.append((child, folder, reach(child, kill.point)))
            self.left[kill] = folder
        # Of those that share a kill within, the first is at the moment, the others anywhere in theirs.
        for child, _, _ in reached[1:] if moment == "within" else []:
            child.go()
        for child, folder, effect in reached[:1] if moment == "within" else reached:
            go_until(child, folder, effect, moment)
        self.own.kill()
        self.own.start()
        for child, _, _ in reached:
            let_go(child)


@pytest.fixture(scope="module")
def server_kills(asked, kit: Kit, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerKills]:
    own = OwnServer(tmp_path_factory.mktemp("own"))
    wanted = [each["kill"] for each in asked if "kill" in each and each["kill"].victim == "server"]
    try:
        yield ServerKills(kit, own, wanted)
    finally:
        own.stop()


@pytest.mark.parametrize("kill", kills("server"))
def test_a_server_that_is_killed_leaves_nothing_undone(
    kill: Kill, kit: Kit, remote: str, rerun: SparkSession, server_kills: ServerKills
):
    for other in server_kills.wanted:
        kit.recording(other.point.scenario, remote, rerun)
    folder = server_kills.folder(kill)
    found = kit.recordings[kill.point.scenario]
    number = found.number(kill.point.task)
    again = session(server_kills.own.url)
    finish(found.scenario, number, folder, again)
    again.stop()
    judge(found, number, folder)
