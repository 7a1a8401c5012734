"""Price orders: each line of the files in `input` is a message, each item of an order a row of `SALES`."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from acker import ExponentialBackoff, FileSpout, Topology, fail_when
from acker.runtime.settings import Settings

INPUT = Path(__file__).parent / "input"
SALES = Settings.from_env().home / "shop" / "sales"
CENTS = {"tea": 300, "milk": 120}

topology = Topology("shop", retry=ExponentialBackoff(initial_seconds=1, limit=1))
orders = topology.spout(
    "orders", FileSpout(str(INPUT), format="json", schema="id bigint, items string", glob="*.json")
)


@topology.bolt(orders)
def items(tuples: DataFrame) -> DataFrame:
    """One row an item; an order without items fails."""
    empty = fail_when(F.col("items").isNull(), "an order without items")
    item = F.explode_outer(F.split("items", ",")).alias("item")
    return tuples.select("anchor", "id", item, empty)


@topology.basic_bolt(items, schema="id bigint, item string, cents bigint")
def priced(tup: Any) -> Iterator[tuple[int, str, int]]:
    """Add the price. What is raised here fails the order of this row, and no other."""
    yield tup.id, tup.item, CENTS[tup.item]


topology.publish(priced, to=str(SALES))
