"""`python -m bench.object_store`: what cycles and commands ask of S3, and their seconds at 60 ms a request.

The store, the source and the published table are on an S3 server of this machine, behind two proxies: one for
Spark, one for all others. CYCLES (12) cycles of new messages come first, then cycles without any, then the
commands as processes of their own, and these after a compaction. Prints, and writes `object_store.json` into
`PIPELINE_HOME`.
"""

import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import NoReturn

import pyarrow as pa
from deltalake import write_deltalake

from acker.batches.run import Run
from acker.core.store.store import Store
from acker.operations.cycle import run_cycle
from acker.operations.maintenance.compact import compact
from acker.runtime.registry import load_topology
from acker.runtime.server.sessions import owned_session
from acker.runtime.settings import Settings, positive_number
from bench.command import exit_with
from tests.kit.object_store import running_object_store
from tests.kit.proxies import Proxy, running_proxy

CYCLES = 12
IDLE_CYCLES = 5
MESSAGES = 100  # of a cycle
DELAY_SECONDS = 0.06
NAME = "on_s3"
COMMANDS = (("status",), ("audit",), ("trace", f"numbers:0:{MESSAGES}"))

Counts = dict[str, int]  # method -> requests


def main() -> int:
    """Measure. Returns 0 where all commands succeed."""
    home = Settings.from_env().home
    folder = home / "object_store"
    shutil.rmtree(folder, ignore_errors=True)
    cycles = positive_number("CYCLES", CYCLES)
    with (
        # moto counts as well where there is no Go.
        running_object_store(folder / "s3", is_atomic=shutil.which("go") is not None) as variables,
        running_proxy(variables["AWS_ENDPOINT_URL"]) as of_spark,
        running_proxy(variables["AWS_ENDPOINT_URL"]) as of_clients,
    ):
        ours = {"PIPELINE_HOME": str(folder), "PIPELINE_STORE": "s3://lake/store", "SPARK_REMOTE": ""}
        os.environ |= variables | ours | {"PIPELINE_TOPOLOGIES": "bench.on_s3:topology"}
        found = measure_cycles(of_spark, of_clients, cycles)
        found |= {each[0]: measure_command(of_clients, each) for each in COMMANDS}
        of_clients.take_counts()
        compact(Run(load_topology(NAME, Settings.from_env()), Store(Settings.from_env().store, NAME), _none))
        print(f"compaction: {told(of_clients.take_counts())}", flush=True)
        found |= {f"{each[0]}, compacted": measure_command(of_clients, each) for each in COMMANDS}
    report = home / "object_store.json"
    report.write_text(json.dumps(found, indent=2) + "\n")
    print(f"Written to {report}.")
    return 0


def _none() -> NoReturn:
    raise AssertionError("Spark is asked for")


def measure_cycles(of_spark: Proxy, of_clients: Proxy, cycles: int) -> dict[str, object]:
    """Requests of cycles with new messages and without, by who asked."""
    os.environ["AWS_ENDPOINT_URL"] = of_spark.address
    settings = Settings.from_env()
    with owned_session(settings) as spark:
        os.environ["AWS_ENDPOINT_URL"] = of_clients.address
        from bench import on_s3

        store = Store(settings.store, NAME)
        store.create()
        run = Run(on_s3.topology, store, lambda: spark)

        def cycle(number: int, is_idle: bool = False) -> tuple[Counts, Counts]:
            if not is_idle:
                ids = range((number - 1) * MESSAGES + 1, number * MESSAGES + 1)
                write_deltalake(on_s3.SOURCE.replace("s3:", "s3a:"), pa.table({"id": ids}), mode="append")
            of_spark.take_counts(), of_clients.take_counts()
            run_cycle(run)
            return dict(of_spark.take_counts()), dict(of_clients.take_counts())

        busy = [cycle(number) for number in range(1, cycles + 1)]
        idle = [cycle(number, is_idle=True) for number in range(IDLE_CYCLES)]
    result: dict[str, object] = {}
    for name, counts in (("cycle", busy), ("idle cycle", idle)):
        for side, index in (("Spark", 0), ("clients", 1)):
            each = [pair[index] for pair in counts]
            result[f"{name}, {side}"] = each
            print(f"{name}, {side}: {median_of(each)}; from {least_and_most(each)}", flush=True)
    return result


def measure_command(proxy: Proxy, arguments: Sequence[str]) -> dict[str, object]:
    """Requests of a command, and its seconds without a delay and with one for each request."""
    command = [sys.executable, "-m", "acker", arguments[0], NAME, *arguments[1:]]
    seconds = []
    for delay in (0, DELAY_SECONDS):
        proxy.delay(delay)
        proxy.take_counts()
        start = time.perf_counter()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        seconds.append(round(time.perf_counter() - start, 1))
    counts = dict(proxy.take_counts())
    proxy.delay(0)
    print(f"{arguments[0]}: {told(counts)}; {seconds[0]} s, {seconds[1]} s with delays", flush=True)
    return {"requests": counts, "seconds": seconds}


def median_of(counts: Sequence[Counts]) -> str:
    """The median of each method's requests."""
    methods = sorted({method for each in counts for method in each})
    return told({name: int(statistics.median(each.get(name, 0) for each in counts)) for name in methods})


def least_and_most(counts: Sequence[Counts]) -> str:
    """Of all methods together."""
    sums = [sum(each.values()) for each in counts]
    return f"{min(sums)} to {max(sums)} in all"


def told(counts: Counts) -> str:
    """As it is printed."""
    return ", ".join(f"{number} {method}" for method, number in sorted(counts.items())) or "no requests"


if __name__ == "__main__":
    exit_with(main)
