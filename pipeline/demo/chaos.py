"""The demonstration's trouble: tasks and the Spark server are killed in the middle of their work."""

import contextlib
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from queue import Queue
from typing import Any

from acker.core.errors import ServerError
from acker.core.store.schemas import EVENTS, stream
from acker.core.store.store import Store
from acker.runtime.server import process as server
from acker.runtime.settings import Settings
from embedded.stack import Stack
from pipeline.wordcount import topology

_POLL_SECONDS = 0.25
_WATCH_SECONDS = 0.005  # what is to be hit lasts a tenth of a second


def make_trouble(stack: Stack, store: Store, said: "Queue[str]") -> None:
    """Kill a task between a batch's write and its log, together with Spark, and then one in its fold."""

    def is_written(task: dict[str, Any]) -> bool:
        return store.last_number(stream("words"), "words") > store.last_number(EVENTS, "words")

    def is_folding(task: dict[str, Any]) -> bool:
        attempt = f"run_id={task['dag_run_id']}/task_id=fold/attempt={task['try_number']}.log"
        told = stack.settings.home / "airflow" / "logs" / f"dag_id={topology.name}.acker" / attempt
        return told.exists() and "reading events" in told.read_text(errors="replace")

    _kill_task(stack, "run", "words", is_written)
    _kill_spark(stack.settings)
    said.put("A task and Spark are killed between write and log of a batch of words.")
    _kill_task(stack, "acker", "fold", is_folding)
    said.put("A task is killed in the middle of its fold.")


def _kill_spark(settings: Settings) -> None:
    found = server.find(settings)
    if found is not None:
        os.killpg(found.pid, signal.SIGKILL)


def _kill_task(stack: Stack, kind: str, name: str, is_time: Callable[[dict[str, Any]], bool]) -> None:
    """Wait until Airflow runs a task and it is time, and kill the task's process."""
    path = f"dags/{topology.name}.{kind}/dagRuns/~/taskInstances?state=running"
    while True:
        with contextlib.suppress(OSError, ServerError):
            for task in stack.api("GET", path)["task_instances"]:
                while task["task_id"] == name and task["pid"] and Path(f"/proc/{task['pid']}").exists():
                    if is_time(task):
                        os.kill(task["pid"], signal.SIGKILL)
                        return
                    time.sleep(_WATCH_SECONDS)
        time.sleep(_POLL_SECONDS)
