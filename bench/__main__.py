"""`make bench`: measure, print, and write `data/bench.json`; ROUNDS (3) pairs of runs each."""

import json
import shutil
import sys
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from pathlib import Path

from pyspark.sql import SparkSession

from acker.runtime.server.sessions import owned_session
from acker.runtime.settings import Settings, positive_number
from bench.again import SOURCES, measure_again
from bench.bad import measure_bad
from bench.command import exit_with
from bench.cycle import measure_cycle
from bench.fold import measure_fold, measure_history
from bench.kafka import measure_kafka, measure_replay
from bench.large import Figure, measure_acked, measure_audit, measure_fresh, measure_idle, measure_selection
from bench.minute import measure_minute
from bench.pairs import Measure
from bench.storm import measure_storm
from bench.tax import measure_tax, measure_width


def main() -> int:
    """Run what the arguments name, or everything. Returns 0 where every ratio is within its bound."""
    measures: dict[str, Callable[[SparkSession, Path, int], Measure | Figure]] = {
        "cycle": measure_cycle,
        "tax": measure_tax,
        **{f"tax{words}": partial(measure_width, words=words) for words in (1, 100, 10_000)},
        "fold": measure_fold,
        "history": measure_history,
        "kafka": measure_kafka,
        "replay": measure_replay,
        **{f"replay-{source}": partial(measure_again, source=source) for source in SOURCES},
        "selection": measure_selection,
        "idle": measure_idle,
        "acked": measure_acked,
        "fresh": measure_fresh,
        "failing": partial(measure_fresh, fails=True),
        "audit": measure_audit,
        "minute": measure_minute,
        "bad": measure_bad,
        "storm": measure_storm,
    }
    names = sys.argv[1:] or list(measures)
    unknown = [name for name in names if name not in measures]
    if unknown:
        print(
            f"There is no measure called {unknown[0]}; choose among {', '.join(measures)}.", file=sys.stderr
        )
        return 2
    rounds = positive_number("ROUNDS", 3)
    settings = Settings.from_env()
    folder = settings.home / "bench"
    shutil.rmtree(folder, ignore_errors=True)
    results: list[Measure | Figure] = []
    with owned_session(settings) as spark:
        for name in names:
            result = measures[name](spark, folder / name, rounds)
            print(f"{name}: {result}", flush=True)
            results.append(result)
            shutil.rmtree(folder / name)
    report = Path(settings.home) / "bench.json"
    report.write_text(json.dumps([asdict(result) for result in results], indent=2) + "\n")
    print(f"Written to {report}.")
    return 0 if all(result.within for result in results) else 1


if __name__ == "__main__":
    exit_with(main)
