"""The topology of the soak: a Python bolt, failures for a while and for good, both ways to publish.

Its folder is `PIPELINE_HOME`, and its outage is a file there.
"""

from collections.abc import Iterator

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F

from acker.components.anchors import fail_when
from acker.core.retry import ExponentialBackoff
from acker.runtime.settings import Settings
from acker.spouts import DeltaSpout
from acker.targets.functions import Count, Sum
from acker.topology.topology import Topology

HOME = Settings.from_env().home
ORDERS = HOME / "orders"
OUTAGE = HOME / "outage"
PRICES = HOME / "prices"
TOTALS = HOME / "totals"
GIVEN_UP_EVERY = 100  # orders, one of which is never taken
FAILED_EVERY = 10  # orders, one of which is not taken during the outage

topology = Topology(
    "soaked", message_timeout="6 hours", retry=ExponentialBackoff(initial_seconds=60, cap_seconds=60, limit=2)
)
orders = topology.spout("orders", DeltaSpout(str(ORDERS), key="id"))


@topology.basic_bolt(orders, schema="id bigint, item string, price bigint")
def items(order: Row) -> Iterator[tuple[int, str, int]]:
    """Three items of each order."""
    if order.id % GIVEN_UP_EVERY == 0:
        raise ValueError("nobody sells this")
    for item in range(3):
        yield order.id, f"item{(order.id + item) % 20}", order.id % 7


@topology.bolt(items)
def priced(rows: DataFrame) -> DataFrame:
    """Fail some of them during the outage."""
    down = F.lit(OUTAGE.exists()) & (F.col("id") % FAILED_EVERY == 1)
    return rows.select("anchor", "id", "item", "price", fail_when(down, "no price today"))


@topology.bolt(priced)
def sold(rows: DataFrame) -> DataFrame:
    """What is added up."""
    return rows.select("anchor", "item", "price")


topology.publish(priced, to=str(PRICES))
topology.publish(sold, to=str(TOTALS), by="item", aggregates={"n": Count(), "price": Sum("price")})
