"""Long runs: what is there after a while is what was there before, but for history.

Each of `CYCLES` takes a new message through, half a day after the one before; every fourth is followed by
maintenance. What the last maintenance leaves is compared with what the one in the middle left.
"""

from datetime import timedelta
from pathlib import Path

import pytest
from pyspark.sql import functions as F

from acker.components.anchors import fail_when
from acker.core.retry import ExponentialBackoff
from acker.core.store.store import Store
from acker.core.store.tables import query
from acker.operations.cycle import run_cycle
from acker.operations.maintenance.compact import compact, vacuum
from acker.operations.maintenance.trim import trim_events, trim_streams
from acker.reports.audit import audit_report
from acker.spouts import DeltaSpout
from acker.testing.session import for_few_rows
from acker.topology.topology import Topology
from tests.kit.places import Place

KIND = "long runs"

CYCLES = 16
MAINTAINED_EVERY = 4
HALF_A_DAY_SECONDS = 43_200
RETENTION = timedelta(days=1)
ANY_AGE = "spark.databricks.delta.retentionDurationCheck.enabled"


@pytest.fixture
def place(tmp_path, spark, empty_store):
    return Place(tmp_path, for_few_rows(spark), empty_store)


def halves(place):
    """Halves of numbers, none of the odd ones at the first attempt, and of some never."""
    topology = Topology("halves", message_timeout=None, retry=ExponentialBackoff(initial_seconds=60, limit=1))
    numbers = topology.spout("numbers", DeltaSpout(place.path("numbers"), key="id"))

    @topology.bolt(numbers)
    def halved(tuples):
        down = F.lit(Path(place.path("outage")).exists()) & (F.col("id") % 2 == 1)
        never = F.col("id") % 4 == 0
        return tuples.select("anchor", (F.col("id") / 2).alias("half"), fail_when(down | never, "no half"))

    topology.publish(halved, to=place.path("halves"))
    return topology


def left(store: Store) -> dict[str, int]:
    """Data files on the disk by table, and rows of the tables that are trimmed."""
    found = {}
    for name in ("batches", "events", "ledger", "streams/numbers", "streams/halved"):
        files = Path(store.path(name)).rglob("*.parquet")
        found[name] = sum("_delta_log" not in file.parts for file in files)
    for name in ("events", "streams/numbers", "streams/halved"):
        (row,) = query("SELECT count(*) AS n FROM t", t=store.require(name))
        found[f"rows of {name}"] = row["n"]
    return found


@pytest.mark.thorough
def test_files_and_rows_are_as_many_after_eight_days_as_after_four(place):
    place.add("numbers", id=[0])
    run = place.run(halves(place))
    run.spark.conf.set(ANY_AGE, "false")
    sizes = []
    for cycle in range(1, CYCLES + 1):
        outage = Path(place.path("outage"))
        outage.touch() if cycle % 2 else outage.unlink()
        place.add("numbers", id=[cycle])
        run_cycle(run)
        if cycle % MAINTAINED_EVERY == 0:
            trim_streams(run, RETENTION)
            trim_events(run, RETENTION)
            compact(run)
            vacuum(run, 0)
            sizes.append(left(run.store))
        place.clock.advance(HALF_A_DAY_SECONDS)
    run.spark.conf.unset(ANY_AGE)
    assert sizes[-1] == sizes[len(sizes) // 2 - 1]
    assert audit_report(run.topology, run.store).passed
