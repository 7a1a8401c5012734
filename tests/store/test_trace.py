"""The story of a message that was joined with many."""

from datetime import UTC, datetime

import polars as pl
import pytest

from acker.core.events import Kind
from acker.core.store.parquet import columns_of
from acker.core.store.schemas import EVENTS
from acker.core.store.tables import append_rows, query
from acker.operations.cycle import run_cycle
from acker.reports.trace import trace_report
from tests.kit.polars_topology import PolarsTopology, TableSource

PARTNERS = 60_000


@pytest.fixture
def run(place):
    """A run of one message, and events of a bolt that has joined it with many of a spout that is gone."""
    topology = PolarsTopology("joined", message_timeout=None)
    topology.bolt(topology.spout("numbers", TableSource(place.add("numbers", id=[1]))), name="pairs")(
        lambda tuples: tuples
    )
    run = place.run(topology)
    run_cycle(run)
    events = run.store.require(EVENTS)
    (init,) = query("SELECT root_id FROM events WHERE kind = 'init'", events=events)
    others = pl.DataFrame({"root_id": range(PARTNERS), "logged_at": datetime(2026, 1, 1, tzinfo=UTC)})
    emitted = others.select(
        "root_id",
        "logged_at",
        kind=pl.lit(Kind.INIT),
        spout=pl.lit("orders"),
        source_partition=pl.lit("0"),
        source_offset=pl.col("root_id") + 1_000_000,
        attempt=1,
    )
    joined = others.select(
        "root_id",
        "logged_at",
        kind=pl.lit(Kind.JOIN),
        joined=pl.lit(init["root_id"]),
        component=pl.lit("pairs"),
        batch=7,
    )
    columns = columns_of(EVENTS)
    rows = pl.concat([pl.DataFrame(schema=columns), emitted, joined], how="diagonal_relaxed")
    append_rows(events, rows.cast(dict(columns)).to_arrow(), "by hand", 1)
    return run


def test_of_many_partners_the_first_are_named_and_the_others_counted(run):
    (joined,) = [entry for entry in trace_report(run.topology, run.store, "0:1") if entry.batch == 7]
    named = ", ".join(f"orders:0:{number}" for number in range(1_000_000, 1_000_003))
    detail = f"with {named} and 59,997 more"
    assert (joined.what, joined.component, joined.attempt, joined.detail) == ("joined by", "pairs", 1, detail)
