"""Crash runs: runs of a scenario in which several tasks are killed, and what they must come to."""

import functools
import itertools
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pyspark.sql import SparkSession

from acker.airflow import tasks
from acker.core.store.store import Store
from acker.core.tasks import CALLER
from tests.faults.crash_scenarios import SCENARIOS, Task
from tests.faults.crashes import (
    HOW,
    Child,
    Kit,
    Moment,
    Point,
    Recording,
    await_orphans,
    go_until,
    open_run,
    reach,
)
from tests.faults.effects import Effect
from tests.faults.judge import faults, published, settled_rows, states
from tests.faults.worker import session
from tests.kit.tasks import PickledTasks


@dataclass(frozen=True)
class Kill:
    """What is killed, and when at which point."""

    point: Point
    moment: Moment
    victim: Literal["client", "server"] = "client"
    others_first: bool = False  # whether other tasks come before the one that was killed is done again
    by_tasks: bool = False  # whether the acker's tasks do the work, up to there

    def __str__(self) -> str:
        further = [name for name in ("others_first", "by_tasks") if getattr(self, name)]
        return "-".join([str(self.point), self.moment, self.victim, *further])


CrashRun = tuple[Kill, ...]  # of one scenario, each in another task, in the order of the tasks


def crash_runs_of(kills: Iterable[Kill]) -> list[CrashRun]:
    """As few runs as hold all kills, of each task one. Those with others first have runs of their own.

    Kills are dealt out like cards. So a run has few kills of tasks that follow each other, of which the
    first may take away the point of the second, as others who publish do.
    """
    found: list[CrashRun] = []
    by_task = defaultdict[tuple[str, bool, bool], defaultdict[str, list[Kill]]](lambda: defaultdict(list))
    for kill in kills:
        kind = (kill.point.scenario, kill.others_first, kill.by_tasks)
        by_task[kind][kill.point.task].append(kill)
    for of_tasks in by_task.values():
        most = max(map(len, of_tasks.values()))
        dealt = [*itertools.chain(*of_tasks.values())]
        found += [tuple(dealt[n::most]) for n in range(most)]
    return found


@dataclass
class ReachedKill:
    """A task that waits at the point at which it is to be killed."""

    kill: Kill
    child: Child
    folder: Path
    effect: Effect

    def go_on(self) -> None:
        """Until the moment of the kill."""
        go_until(self.child, self.folder, self.effect, self.kill.moment)


def go_through(
    kit: Kit, run: CrashRun, remote: Callable[[], str], on_missed: Callable[[Kill], None] | None = None
) -> Iterator[ReachedKill]:
    """Run a scenario from the first task that is killed to its end, and judge that.

    One on Kafka is run from its beginning, since no topic is in a copy of its folder.

    At each kill the task is yielded, and whoever goes on has killed it, or the server at `remote`. Then it
    is done again.

    Args:
        on_missed: called with a kill whose point the task has not, since what other tasks had done after an
            earlier kill has changed it.

    Raises:
        AssertionError: the end is not that of the undisturbed run, or what is killed was not reached.
    """
    found = kit.recording(run[0].point.scenario)
    kills = {kill.point.task: kill for kill in run}
    if found.scenario.is_on_kafka:
        first, folder = 0, kit.folder_for(found.name)
        found.scenario.tasks[0].world(folder)
    else:
        first = found.number(run[0].point.task)
        folder = kit.copy(found.starts[first])
    settled: set[str] = set()
    spark = session(remote())
    for number, task in enumerate(found.scenario.tasks[first:], first):
        if number > first:
            task.world(folder)
        if kill := kills.get(task.name):
            settled |= settled_rows(_store(task, folder))
            tasks = PickledTasks(3) if kill.by_tasks else CALLER
            child = Child(found.name, number, folder, remote(), tasks)
            if kill.victim == "server":
                spark.stop()  # or else PySpark would go on to ask the thread's active session
            effect = reach(child, kill.point)
            if effect is None:
                assert on_missed and kill.others_first and kill != run[0], f"{kill.point} is no more: {HOW}"
                on_missed(kill)
            else:
                yield ReachedKill(kill, child, folder, effect)
                if kill.victim == "server":
                    spark = session(remote())
                if kill.others_first:
                    _do_all_else(task, folder, spark)
        task.do(open_run(task, folder, lambda spark=spark: spark))
        if kill and kill.victim == "client":
            await_orphans(remote(), child.session)
    spark.stop()
    judge(found, folder, settled)


def _do_all_else(task: Task, folder: Path, spark: SparkSession) -> None:
    """What other tasks of a scheduler do while nobody has taken up yet what was killed."""
    run = open_run(task, folder, lambda: spark)
    run.store.create()
    tasks.fold(run)
    for stream in run.topology.publications:
        tasks.publish(run, stream)
    tasks.replay_due(run)
    tasks.compact(run)


def _store(task: Task, folder: Path) -> Store:
    return Store(str(folder / "store"), task.topology(folder).name)


def end(scenario: str, folder: Path) -> tuple[dict[str, Any], dict[str, int], list[str]]:
    """What a scenario has come to: what it published, its messages by state, and what is wrong with it."""
    last = SCENARIOS[scenario].tasks[-1]
    topology, store = last.topology(folder), _store(last, folder)
    return published(topology), states(store), faults(topology, store)


_undisturbed_end = functools.cache(end)


def judge(found: Recording, folder: Path, settled: set[str]) -> None:
    """Whether a run has come to what the undisturbed one did, and still has the rows that were settled."""
    assert end(found.name, folder) == _undisturbed_end(found.name, found.end)
    assert settled <= settled_rows(_store(found.scenario.tasks[-1], folder))
