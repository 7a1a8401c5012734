"""A topology that changes: chains of bolts that add, and what a test of a change asks for.

Every test drives two topologies of one name over one store. Timeouts are off, so that nothing but the
change itself can help a message that waits for a bolt which is gone.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial, reduce
from typing import Any

import polars as pl
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from acker.core.retry import ExponentialBackoff
from acker.core.store.tables import query
from acker.operations.cycle import run_bolt, run_spout
from acker.spouts import DeltaSpout, Spout
from acker.topology.topology import Topology
from tests.kit.polars_topology import PolarsTopology, TableSource

ADDS = {"tens": 10, "hundreds": 100, "sums": 1_000, "totals": 10_000}
CHAIN = {"tens": ("numbers",), "hundreds": ("tens",)}
REMOVED = "bolt hundreds is no longer in the topology"
UNREAD = "bolt hundreds no longer reads tens"
AGAIN_SOON = ((1, "failed"), (2, "retrying"))
AGAIN = [(1, 1, "failed"), (1, 2, "acked"), (2, 1, "failed"), (2, 2, "acked")]


@dataclass(frozen=True)
class Engine:
    """What a topology is made of.

    Args:
        source: the source of a table at a path.
        adding: a bolt's function that adds an amount to the numbers of all its inputs.
    """

    topology: type[Topology]
    source: Callable[[str], Spout]
    adding: Callable[[int], Callable[..., Any]]


def _adding_in_spark(amount):
    return lambda *inputs: reduce(DataFrame.unionByName, inputs).withColumn("id", F.col("id") + amount)


def _adding_in_polars(amount):
    return lambda *inputs: pl.concat(inputs).with_columns(pl.col("id") + amount)


SPARK = Engine(Topology, partial(DeltaSpout, key="id"), _adding_in_spark)
POLARS = Engine(PolarsTopology, TableSource, _adding_in_polars)


def build(engine, place, bolts, published=None, spouts=("numbers",), adds=ADDS):
    """A topology of bolts that add; where one is `published`, it is so to the table `out`."""
    retry = ExponentialBackoff(initial_seconds=0, limit=5)
    topology = engine.topology("changing", message_timeout=None, retry=retry)
    for spout in spouts:
        topology.spout(spout, engine.source(place.path(spout)))
    for name, inputs in bolts.items():
        topology.bolt(*inputs, name=name)(engine.adding(adds[name]))
    if published:
        topology.publish(published, to=place.path("out"))
    return topology


def advance(run, *components):
    """Run some components and no fold."""
    for name in components:
        component = run.topology.components[name]
        run_spout(run, component) if component.is_spout else run_bolt(run, component)


def failed(run):
    """(component, batch, reason) of the fails that were logged, with how many there are."""
    found = query(
        "SELECT component, batch, reason, count(*) AS n FROM events WHERE kind = 'fail' "
        "GROUP BY component, batch, reason ORDER BY component, batch, reason",
        events=run.store.require("events"),
    )
    return [tuple(row.values()) for row in found]


def inputs(run, component):
    """(kind, input) of a component's batches."""
    batches = run.snapshot().rows(f"component = '{component}'")
    return [(batch.kind, batch.input.to_json()) for batch in batches]


def span(after, upto):
    return {"after": after, "upto": upto}
