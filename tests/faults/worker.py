"""Processes that do steps of a topology when they are told to, and are killed, stopped or paused in them.

They are forked from a process that has imported everything and done nothing, so one more costs little.
"""

import multiprocessing
import os
import signal
import threading
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any, Literal

from pyspark.sql import SparkSession

from acker.batches.batch import finish
from acker.batches.run import Run, Step
from acker.core.errors import StoreError, TopologyError
from acker.core.events import State
from acker.core.store.lease import Lease
from acker.core.store.store import Store
from acker.core.tasks import Caller
from acker.operations import cycle
from acker.operations import fold as acking
from acker.operations.maintenance import compact as maintain
from acker.operations.maintenance.backup import back_up, store_in, topology_in
from acker.operations.maintenance.restore import restore
from acker.operations.maintenance.trim import trim_events, trim_streams
from acker.operations.publish import publish
from acker.operations.replay import plan_by_hand
from acker.operations.selection.selection import Selection
from acker.operations.standing import republish
from acker.reports.audit import audit_report
from acker.runtime.server.sessions import connect
from acker.runtime.settings import Settings
from acker.testing.session import for_few_rows
from tests.faults.shapes import Shape, build
from tests.kit.stops import Stop
from tests.kit.tasks import PickledTasks
from tests.kit.waiting import PATIENCE_SECONDS

FOLD_ROWS = 10  # so that most folds take several passes

LATER_SECONDS = 0.1  # into what follows a step
DAY = timedelta(days=1)

processes = multiprocessing.get_context("forkserver")
processes.set_forkserver_preload([__name__])
_looking = threading.Lock()  # of two threads that look for a process's end at once, one may take it for 255


def begin(what: Callable[..., None], *args: Any) -> BaseProcess:
    """A process that does this. To start one is to look for the ends of all others."""
    process = processes.Process(target=what, args=args, daemon=True)
    with _looking:
        process.start()
    return process


def end_of(process: BaseProcess) -> int | None:
    """The exit code of a process that is about to end."""
    with _looking:
        process.join()
        return process.exitcode


@dataclass(frozen=True)
class Order:
    """What a worker is told to do, and what is to happen to it on the way.

    Args:
        what: a function of `DEEDS`.
        at: the step, counted from 1, at which it is hit.
        hit: it is killed then or a moment later, or stopped as by an exception, or waits until told to go on.
        options: of the function.
        begin: when to begin, by the system's monotonic clock.
    """

    what: str
    at: int = 0
    hit: Literal["kill", "kill later", "stop", "pause"] = "kill"
    options: dict[str, Any] = field(default_factory=dict)
    begin: float = 0

    def __str__(self) -> str:
        options = ", ".join(f"{name}={value}" for name, value in self.options.items())
        return f"{self.what}({options})" + (f" with a {self.hit} at step {self.at}" if self.at else "")


@dataclass(frozen=True)
class Reply:
    """What became of an order: `done`, `stopped`, `paused`, `killed`, or `refused` with the reason."""

    what: str
    now: datetime
    told: Any = None


class Clock:
    """A clock that stands still until a run would sleep."""

    def __init__(self, now: datetime) -> None:
        self.now = now

    def __call__(self) -> datetime:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += timedelta(seconds=max(seconds, 1))


def session(remote: str) -> SparkSession:
    """A session of its own, set up for jobs on a few rows and for a vacuum of all."""
    found = for_few_rows(connect(replace(Settings.from_env({}), remote=remote)))
    found.conf.set("spark.databricks.delta.retentionDurationCheck.enabled", "false")
    return found


class Worker:
    """One such process."""

    def __init__(self, remote: str) -> None:
        self._pipe, theirs = processes.Pipe()
        self._process = begin(_serve, theirs, remote)
        theirs.close()

    def send(self, shape: Shape, now: datetime, order: Order) -> None:
        """Give an order; `hear` tells what became of it."""
        self._now = now
        self._pipe.send((shape, now, order))

    def go_on(self) -> None:
        """Let it go on after a pause."""
        self._pipe.send("go on")

    def hear(self) -> Reply:
        """Wait for what it says.

        Raises:
            AssertionError: it raised what nobody expects, or says nothing.
        """
        assert self._pipe.poll(PATIENCE_SECONDS), "the worker says nothing"
        try:
            reply = self._pipe.recv()
        except EOFError:
            code = end_of(self._process)
            assert code == -signal.SIGKILL, code
            return Reply("killed", self._now)
        assert reply.what != "raised", reply.told
        return reply

    def end(self) -> None:
        self._process.kill()
        end_of(self._process)


def _serve(pipe: Connection, remote: str) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    spark = session(remote)
    while True:
        try:
            shape, now, order = pipe.recv()
        except EOFError:
            spark.stop()
            return
        clock = Clock(now)
        dying = threading.Event()
        try:
            run = _run(shape, lambda: spark, clock, _hitting(pipe, clock, order, dying))
            while (rest := order.begin - time.monotonic()) > 0:
                time.sleep(rest)
            reply = Reply("done", clock.now, DEEDS[order.what](run, **order.options))
        except Stop:
            reply = Reply("stopped", clock.now)
        except (StoreError, TopologyError) as error:
            reply = Reply("refused", clock.now, str(error))
        except BaseException:
            reply = Reply("raised", clock.now, traceback.format_exc())
        if dying.is_set():  # and must not be given another order
            time.sleep(PATIENCE_SECONDS)
        pipe.send(reply)


def _run(
    shape: Shape, connect: Callable[[], SparkSession], clock: Clock, on_step: Callable[[Step], None]
) -> Run:
    topology = build(shape)
    topology.validate()
    store = Store(shape.store, topology.name)
    tasks = PickledTasks(shape.acker_tasks) if shape.acker_tasks else Caller(FOLD_ROWS)
    hold = Lease(store, "working", clock).hold
    return Run(topology, store, connect, clock=clock, tasks=tasks, hold=hold, on_step=on_step)


def _hitting(pipe: Connection, clock: Clock, order: Order, dying: threading.Event) -> Callable[[Step], None]:
    count = 0

    def on_step(step: Step) -> None:
        nonlocal count
        count += 1
        if count != order.at:
            return
        if order.hit == "stop":
            raise Stop
        if order.hit == "pause":
            pipe.send(Reply("paused", clock.now, str(step)))
            pipe.recv()
        elif order.hit == "kill":
            _kill()
        else:
            dying.set()
            threading.Timer(LATER_SECONDS, _kill).start()

    return on_step


def _kill() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _drain(run: Run) -> int:
    assert isinstance(run.clock, Clock)
    return cycle.drain(run, sleep=run.clock.sleep)


def _steps(run: Run, names: list[str]) -> None:
    """Some components by themselves, as a scheduler's tasks."""
    for name in names:
        component = run.topology.components[name]
        if component.is_spout:
            cycle.run_spout(run, component)
        else:
            cycle.run_bolt(run, component)


def _acked(run: Run) -> int:
    """A cycle that publishes nothing."""
    _steps(run, [component.name for component in run.topology.order()])
    return acking.fold(run).number


def _audit(run: Run) -> dict[str, list[str]]:
    """What an audit finds wrong."""
    found = audit_report(run.topology, run.store).findings
    return {kind: [each.message for each in findings] for kind, findings in found.items() if findings}


def _age(run: Run) -> None:
    """Fold until what is in flight is too old."""
    assert isinstance(run.clock, Clock)
    timeouts = run.topology.timeouts
    assert timeouts.message_timeout is not None
    for _ in range(2 + max(timeouts.turns or 0, timeouts.hard_turns or 0)):
        run.clock.sleep(timeouts.message_timeout.total_seconds() / timeouts.windows)
        acking.fold(run)


def _replay(
    run: Run, states: list[State], positions: list[tuple[str, int]], limit: int | None, request: str
) -> int:
    selection = Selection(states=tuple(states), positions=tuple(positions), limit=limit)
    matched, batches = plan_by_hand(run, selection, "to see", "me", request)
    for batch in batches:
        finish(run, batch)
    return matched.count


def _trim(run: Run) -> dict[str, int]:
    return trim_streams(run, DAY) | trim_events(run, DAY)


def _back_up(run: Run, to: str) -> str:
    back_up(run.topology, run.store, to, run.clock).write(to)
    verdict = audit_report(topology_in(to, run.topology), store_in(to, run.topology)).verdict
    assert verdict == "pass", verdict
    return to


def _restore(run: Run, backup: str) -> int:
    manifest, lease = restore(run.topology, run.store, backup, run.clock)
    lease.release()
    return manifest.fold


DEEDS: dict[str, Callable[..., Any]] = {
    "acked": _acked,
    "audit": _audit,
    "republish": lambda run, stream: republish(run, stream)[1],
    "cycle": lambda run: cycle.run_cycle(run).batches,
    "drain": _drain,
    "steps": _steps,
    "fold": lambda run: acking.fold(run).number,
    "publish": publish,
    "age": _age,
    "replay": _replay,
    "compact": maintain.compact,
    "trim": _trim,
    "vacuum": maintain.vacuum,
    "back_up": _back_up,
    "restore": _restore,
}
