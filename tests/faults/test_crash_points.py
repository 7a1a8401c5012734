"""Processes killed before, within and after every durable effect: the end is as if nothing had happened.

The points are those of `crash_points.txt`, which undisturbed runs have written: each call of a library that
changes a table or a Kafka cluster. A run that makes others fails here, and so does code with a call that no
run makes.
"""

import contextlib
import itertools
import multiprocessing
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Literal

import pytest

from acker.testing.session import SHORT_LIVED
from tests.faults.calls import calls
from tests.faults.crash_runs import CrashRun, Kill, ReachedKill, crash_runs_of, end, go_through, judge
from tests.faults.crash_scenarios import SCENARIOS
from tests.faults.crashes import (
    HOW,
    Child,
    Kit,
    Moment,
    OwnServer,
    await_orphans,
    is_busy,
    let_go,
    open_run,
    reach,
    recorded_points,
    write_down,
)
from tests.faults.side_by_side import SideBySide
from tests.faults.worker import session
from tests.kit.broker import running_broker
from tests.kit.tiers import runs_extended
from tests.kit.waiting import wait_for

KIND = "crash points"
TOGETHER = 12  # runs on a server that is killed
AT_ONCE = 2

# Calls that only look like effects, and effects that are no part of a run.
EXEMPT = {
    "pipeline/demo/": "the demonstration, which kills processes itself",
    "pipeline/orders.py:priced:csv": "reads",
    "pipeline/orders_feed.py": "writes the input of an example",
    "acker/components/raising.py:error_of:save": "writes to nowhere",
    "acker/cli/init.py": "makes a project, before any run",
    "acker/cli/unexpected.py": "keeps the trace of an error; see tests/acceptance/test_mistakes.py",
    "acker/cli/stderr_capture.py": "opens a copy of the terminal, and a pipe",
    "acker/cli/progress.py": "draws a line on a terminal",
    "acker/components/function_bolt.py:FunctionBolt.__post_init__:update": "names a bolt as its function",
    "acker/components/kafka_bolt.py:KafkaBolt.key_of:text": "reads a column",
    "acker/components/kafka_bolt.py:KafkaBolt.value_of:text": "reads a column",
    "acker/core/store/commits.py:_widen": "widens a type, before any row; see test_changed_types.py",
    "acker/core/store/commits.py:commit_batch.commit:_widen": "the same",
    "acker/core/digests.py": "copies numbers",
    "acker/core/snapshot/kept.py:keep_rows:write_deltalake": "after a trimming cut short; see tests/store",
    "acker/core/snapshot/kept.py:_append.commit:write_deltalake": "after the first trimming; see tests/store",
    "acker/targets/by_key.py:keep.commit:write_deltalake": "the same; see tests/spark/test_audit_by_key.py",
    "acker/targets/contents.py:Contents._keep:open": "a file of a temporary folder",
    "acker/spouts/files/reading.py:_rows_read:save": "writes to nowhere",
    "acker/targets/delta.py:DeltaTarget.check_writable:sql": "asks for what a table has",
    "acker/targets/refusing.py:Search._hidden:save": "writes to nowhere",
    "acker/targets/aggregate.py:DeltaAggregate._check_taken:save": "writes to nowhere",
    "acker/targets/aggregate.py:DeltaAggregate._take_in:merge": "makes SQL",
    "acker/targets/aggregate.py:DeltaAggregate._after:merge": "makes SQL",
    "acker/runtime/server/process.py": "the server's own files; see tests/acceptance/test_server.py",
    "acker/runtime/server/tokens.py": "the server's token; see tests/acceptance/test_security.py",
    "acker/runtime/server/sessions.py": "makes a session",
    "acker/runtime/manifest.py:_kept_manifest": "a cache, put in its place by a rename",
    "acker/runtime/known_stores.py": "says where the store is, put in its place by a rename",
    "acker/operations/maintenance/upkeep.py:note:create": "calls Store.create, as the scenario does",
    "acker/runtime/server/classes.py": "keeps Java's classes, before any run",
    "acker/runtime/server/jars.py": "fetches jars into the virtual environment, before any run",
    "acker/runtime/server/logs.py": "the log of a process that is started",
    "acker/runtime/deployment.py": "names a home, once; whole by a rename",
    "acker/core/store/sightings.py": "what a machine has seen of leases; whole by a rename",
    "acker/runtime/server/executors.py": "packs Python packages for executors, before any run",
    "acker/testing/": "the tests of authors, in temporary folders",
    "acker/operations/maintenance/compact.py:compact_if_many:compact": "calls compact, as maintenance does",
    "acker/airflow/clean.py": "deletes what is old of Airflow's; see tests/dags/test_clean.py",
    "acker/core/store/copies.py": "copies, as the two below; see tests/faults/test_backups.py",
    "acker/core/store/identity.py": "makes a copy a store of its own",
    "acker/operations/maintenance/backup.py": "says that a copy is whole",
    "acker/core/store/formats.py": "brings an older store up; see tests/faults/test_migrations.py",
    "acker/runtime/opening.py:open_run:create": "calls Store.create, as the scenario does",
    "acker/airflow/tasks.py:vacuum:vacuum": "calls compact.vacuum with the setting, the scenario with 0",
}


def kills(victim: Literal["client", "server"]) -> list[Any]:
    """Each moment of each point.

    Of a client's one of every kind of effect is not thorough, the moments by turns.
    """
    kinds: set[str] = set()
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
        often = moments[len(kinds) % len(moments)]
        for moment in moments:
            is_rare = moment != often or kind in kinds or victim == "server"
            found.append(case(Kill(point, moment, victim), is_rare))
        kinds.add(kind)
    return found


def kills_with_others_first() -> list[Any]:
    """Each point, at which other tasks come before the one that was killed is done again."""
    points = recorded_points()
    often = [each for each in points if each.task in ("squared", "emit") and each.scenario == "retried"]
    return [case(Kill(each, "within", others_first=True), each not in often) for each in points]


def kills_of_the_ackers_tasks() -> list[Any]:
    """Each commit of a log or a fold, whose files are those of tasks elsewhere."""
    points = [each for each in recorded_points() if each.label.startswith(("run_log:", "FoldFiles.commit"))]
    often = [each for each in points if each.task in ("squared", "fold") and each.scenario == "retried"]
    moments: tuple[Moment, ...] = ("before", "within")
    return [
        case(Kill(each, moment, by_tasks=True), each not in often) for each in points for moment in moments
    ]


def case(kill: Kill, is_rare: bool) -> Any:
    marks = [pytest.mark.thorough] if is_rare else []
    if (
        kill.point.scenario != "retried"
        or kill.by_tasks
        or (kill.others_first and kill.point.task == "squared")
    ):
        marks.append(pytest.mark.extended)
    return pytest.param(kill, marks=marks, id=str(kill))


@pytest.fixture(scope="module")
def kit(
    remote: str, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Kit]:
    with contextlib.ExitStack() as stack:
        servers = ""
        if runs_extended(request.config, request.path):  # as all scenarios on Kafka are
            broker = stack.enter_context(running_broker(tmp_path_factory.mktemp("broker")))
            broker.settle()
            servers = broker.servers
        yield Kit(tmp_path_factory.mktemp("crashes"), remote, servers)
    for child in multiprocessing.active_children():  # of cases that failed
        child.kill()


@pytest.fixture(scope="module")
def runs(asked) -> dict[Kill, CrashRun]:
    """The run of each kill that is asked for."""
    asked_for = [each["kill"] for each in asked if "kill" in each]
    by_victim = [[kill for kill in asked_for if kill.victim == victim] for victim in ("client", "server")]
    return {kill: run for kills in by_victim for run in crash_runs_of(kills) for kill in run}


@contextlib.contextmanager
def naming(run: CrashRun) -> Iterator[None]:
    """Whatever goes wrong names the kills that go together."""
    try:
        yield
    except Exception as error:
        raise AssertionError(f"The run of {', '.join(map(str, run))}: {error}") from error


class OneServer:
    """Runs on a server of their own that is killed. It takes seconds to start, so several share it."""

    def __init__(self, kit: Kit, own: OwnServer, runs: Iterable[CrashRun]) -> None:
        self.kit = kit
        self.own = own
        self.left = sorted(runs, key=len)  # so that those which share it have about as many kills
        self.ends: dict[CrashRun, BaseException | None] = {}
        self.turns = itertools.count()

    def end(self, run: CrashRun) -> None:
        """Raise what a run has raised."""
        while run not in self.ends:
            together = [self.left.pop() for _ in range(min(TOGETHER, len(self.left)))]
            self.ends |= dict.fromkeys(together, AssertionError("a run that shares its server broke off"))
            self._go(together)
        if error := self.ends[run]:
            raise error

    def _go(self, together: list[CrashRun]) -> None:
        under_way = {run: go_through(self.kit, run, lambda: self.own.url) for run in together}
        with ThreadPoolExecutor(AT_ONCE) as pool:
            while under_way:
                steps = {run: pool.submit(next, each, None) for run, each in under_way.items()}
                for run, step in steps.items():
                    if step.exception() or step.result() is None:  # that is where it ends
                        self.ends[run] = step.exception()
                        del under_way[run]
                if under_way:
                    self._kill([steps[run].result() for run in under_way])

    def _kill(self, standing: list[ReachedKill]) -> None:
        # Of those that are killed within, one is at the moment, by turns, the others anywhere in theirs.
        within = [each for each in standing if each.kill.moment == "within"]
        exact = within[next(self.turns) % len(within)] if within else None
        for each in standing:
            if each not in within:
                each.go_on()
        for each in within:
            if each is not exact:
                each.child.go()
        if exact:
            exact.go_on()
        self.own.kill()
        self.own.start()  # in the main thread, which is why that comes back to here for it
        for each in standing:
            let_go(each.child)


@pytest.fixture(scope="module")
def one_server(runs, kit: Kit, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OneServer]:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in SHORT_LIVED.items():
            patch.setenv(name, value)
        own = OwnServer(tmp_path_factory.mktemp("own"))
        try:
            yield OneServer(kit, own, {run for run in runs.values() if run[0].victim == "server"})
        finally:
            own.stop()


@pytest.mark.parametrize("kill", kills("server"))
def test_a_server_that_is_killed_leaves_nothing_undone(kill: Kill, runs, one_server: OneServer):
    with naming(runs[kill]):
        one_server.end(runs[kill])


def scenarios() -> Iterator[Any]:
    """All of them; two more than `make test` runs are extended: a table that is replaced in, and topics."""
    tiers = {"retried": [], "replaced": [pytest.mark.extended], "on_kafka": [pytest.mark.extended]}
    for name in SCENARIOS:
        yield pytest.param(name, marks=tiers.get(name, [pytest.mark.thorough]))


@pytest.mark.parametrize("name", [*scenarios()])
def test_a_run_has_the_points_that_are_recorded(name, kit: Kit, request):
    found = kit.recording(name)
    if request.config.getoption("--record-points"):
        write_down(found)
    assert found.strays == []
    assert found.points == [point for point in recorded_points() if point.scenario == name], HOW
    rows, counts, wrong = end(name, found.end)
    others = {state: count for state, count in counts.items() if state != "acked"}
    assert (rows, others, wrong) == (found.scenario.published, found.scenario.states, [])


@pytest.mark.extended
def test_every_call_that_may_change_a_table_is_a_point_of_some_run(kit: Kit):
    lines = {line for name in SCENARIOS for line in kit.recording(name).lines}
    found = [
        call
        for call in calls()
        if not any(call.file == file and call.first <= n <= call.last for file, n in lines)
    ]
    left = [str(call) for call in found if not any(str(call).startswith(exempt) for exempt in EXEMPT)]
    assert left == []
    assert [exempt for exempt in EXEMPT if not any(str(call).startswith(exempt) for call in found)] == []


@pytest.fixture(scope="module")
def under_way(runs, kit: Kit) -> Iterator[SideBySide[CrashRun, None]]:
    """All runs in which clients are killed."""

    def kill_clients(run: CrashRun) -> None:
        for standing in go_through(kit, run, lambda: kit.remote, lambda kill: ends.add((kill,))):
            standing.go_on()
            standing.child.kill()

    wanted = {run: None for run in runs.values() if run[0].victim == "client"}
    ends = SideBySide(AT_ONCE, kill_clients, wanted)
    yield ends
    ends.stop()


@pytest.mark.parametrize("kill", [*kills("client"), *kills_with_others_first(), *kills_of_the_ackers_tasks()])
def test_a_process_that_is_killed_leaves_nothing_undone(
    kill: Kill, runs, under_way: SideBySide[CrashRun, None]
):
    with naming(runs[kill]):
        under_way.end(runs[kill])
    if (kill,) in under_way:  # what the run had missed
        with naming((kill,)):
            under_way.end((kill,))


@pytest.mark.extended
def test_a_write_that_outlives_its_client_and_the_rerun_changes_nothing(kit: Kit):
    (point,) = [each for each in recorded_points() if each.scenario == "overtaken" and each.is_sparks]
    found = kit.recording(point.scenario)
    number = found.number(point.task)
    folder = kit.copy(found.starts[number])
    (folder / "hold").touch()
    child = Child(found.name, number, folder, kit.remote)
    assert reach(child, point)
    child.go()
    child.hear()  # that the request is sent
    wait_for((folder / "held").exists, every_seconds=0.05)
    child.kill()
    spark = session(kit.remote)
    for task in found.scenario.tasks[number:]:
        task.do(open_run(task, folder, lambda: spark))
    spark.stop()
    assert child.session is not None and is_busy(kit.remote, child.session)
    (folder / "release").touch()
    await_orphans(kit.remote, child.session)
    judge(found, folder, settled=set())
