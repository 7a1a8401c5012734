"""What a minute costs in which a topology has nothing to do."""

import statistics
import time
from dataclasses import replace
from pathlib import Path

from pyspark.sql import SparkSession

from acker.airflow import KINDS
from acker.runtime.settings import Settings
from bench.large import Figure
from bench.processes import processor_seconds
from embedded.stack import ApiError, Stack, running_stack
from pipeline.wordcount import NAME

ROOT = Path(__file__).resolve().parents[1]
AT_MOST = 2.0
_MINUTE = 60.0
_LOOKS_SECONDS = 65.0  # in which each watch has looked
_PAUSE_SECONDS = 45.0  # until Airflow has read the DAG files again, and drops the triggers of paused ones


def measure_minute(spark: SparkSession, folder: Path, rounds: int) -> Figure:
    """Seconds of processor time of all of Airflow's processes in a minute, less those while it is paused.

    The word count has counted its only file and nothing waits.
    """
    settings = replace(Settings.from_env(), home=folder, store=str(folder / "store"))
    sources = folder / NAME / "sources"
    sources.mkdir(parents=True)
    (sources / "two.py").write_text("a b c\nd e f\n")
    idle, paused = [], []
    with running_stack(settings, ROOT / "dags") as stack:
        for _ in range(rounds):
            while not _rests(stack):
                pass
            idle.append(_minute(stack))
            _pause(stack, True)
            paused.append(_minute(stack))
            _pause(stack, False)
    value = round(statistics.median(idle) - statistics.median(paused), 2)
    return Figure("minute", "s of processor time", value, AT_MOST, [*idle, *paused], [])


def _pause(stack: Stack, is_paused: bool) -> None:
    for kind in KINDS:
        stack.api("PATCH", f"dags/{NAME}.{kind}", {"is_paused": is_paused})
    time.sleep(_PAUSE_SECONDS)


def _rests(stack: Stack) -> bool:
    """Whether its DAGs have run, and nothing starts them again."""
    before = _runs(stack)
    time.sleep(_LOOKS_SECONDS)
    return before == _runs(stack) and all(before)


def _runs(stack: Stack) -> list[int]:
    try:
        found = [stack.api("GET", f"dags/{NAME}.{kind}/dagRuns") for kind in ("run", "acker")]
    except ApiError:  # it has not read the DAG files yet
        return [0]
    return [int(each["total_entries"]) for each in found]


def _minute(stack: Stack) -> float:
    """Seconds of processor time of Airflow's processes in a minute."""
    before = _processor_seconds(stack)
    time.sleep(_MINUTE)
    return round(_processor_seconds(stack) - before, 2)


def _processor_seconds(stack: Stack) -> float:
    return sum(processor_seconds(part.pid) for part in stack.parts.values())
