"""Match a shop's orders with their payments: two sources, a lookup, a join, three tables and an aggregate.

`python -m pipeline.orders_feed` writes input for it. Orders are lines of JSON files, payments rows
of a Delta table. An order that nobody could deliver fails always. One whose price is not known, or not to be
had while the file `OUTAGE` exists, fails until it is. A priced order waits for its payment, and a payment
for its order, over as many batches as it takes. An order that was paid with another amount than it costs is
no failure, since trying again would not help: it goes to a table of its own, for a person to look at.
"""

from pathlib import Path

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from acker.components.anchors import fail_when
from acker.components.collector import Collector, Context, RichBolt, Tuple
from acker.core.retry import ExponentialBackoff
from acker.runtime.settings import Settings
from acker.spouts import DeltaSpout, FileSpout
from acker.targets.functions import Sum
from acker.topology.topology import Topology

HOME = Path(Settings.from_env().home) / "orders"
INCOMING = HOME / "incoming"
PAYMENTS = HOME / "payments"
PRICES = HOME / "prices.csv"
OUTAGE = HOME / "price-list-is-down"
PAID_ORDERS = HOME / "paid_orders"
ORDER_LINES = HOME / "order_lines"
MISMATCHES = HOME / "mismatches"
REVENUE = HOME / "revenue"

topology = Topology(
    "orders",
    message_timeout="3 days",  # how long an order waits for its payment before it is tried anew
    retry=ExponentialBackoff(initial_seconds=1, limit=2),
)
orders = topology.spout(
    "orders",
    FileSpout(
        str(INCOMING),
        format="json",
        schema="order_id bigint, customer string, lines array<struct<sku:string,quantity:int>>",
        glob="*.json",
    ),
)
payments = topology.spout("payments", DeltaSpout(str(PAYMENTS), key="payment_id"))


@topology.bolt(orders)
def checked(tuples: DataFrame) -> DataFrame:
    """Fail orders that nobody could deliver."""
    quantities = F.transform("lines", lambda line: F.coalesce(line["quantity"], F.lit(0)))
    trouble = F.coalesce(
        fail_when(F.col("order_id").isNull() | F.col("customer").isNull(), "an order of nobody"),
        fail_when(F.coalesce(F.size("lines"), F.lit(0)) < 1, "an order without lines"),
        fail_when(F.array_min(quantities) < 1, "a quantity below 1"),
    ).alias("_error")
    return tuples.select("anchor", "order_id", "customer", "lines", trouble)


@topology.bolt(checked)
def priced(tuples: DataFrame) -> DataFrame:
    """Price each order by the price list."""
    prices = tuples.sparkSession.read.csv(str(PRICES), schema="sku string, price bigint", header=True)
    lines = tuples.select("anchor", "order_id", "customer", F.inline("lines")).join(prices, "sku", "left")
    cents = F.col("quantity") * F.col("price")
    # Grouped by the anchor itself: a group is of one message, so it needs no `collect_anchors`.
    found = lines.groupBy("anchor", "order_id", "customer").agg(
        F.sort_array(F.collect_list(F.struct("sku", "quantity", cents.alias("cents")))).alias("lines"),
        F.sum(cents).alias("cents"),
        F.min(F.when(F.col("price").isNull(), F.col("sku"))).alias("unpriced"),
    )
    trouble = F.coalesce(
        fail_when(F.lit(OUTAGE.exists()), "the price list does not answer"),
        fail_when(F.col("unpriced").isNotNull(), F.concat(F.lit("no price for "), "unpriced")),
    ).alias("_error")
    return found.select("anchor", "order_id", "customer", "lines", "cents", trouble)


class Paid(RichBolt):
    """Join each order with its payment, whichever comes first."""

    def prepare(self, context: Context) -> None:
        """Begin with nothing: what was held back comes again."""
        self.orders: dict[int, Tuple] = {}
        self.payments: dict[int, Tuple] = {}

    def execute(self, tup: Tuple, collector: Collector) -> None:
        """Keep a tuple that has no partner yet. It is neither acked nor failed, so it is held back."""
        mine = self.orders if tup.component == "priced" else self.payments
        mine[tup.order_id] = tup
        if tup.order_id in self.orders and tup.order_id in self.payments:
            self.settle(self.orders.pop(tup.order_id), self.payments.pop(tup.order_id), collector)

    def settle(self, order: Tuple, payment: Tuple, collector: Collector) -> None:
        """Emit an order with its payment, anchored to both."""
        both = [order, payment]
        row = {name: order[name] for name in ("order_id", "customer", "cents")}
        row["payment_id"] = payment.payment_id
        if order.cents != payment.cents:
            collector.emit(both, {**row, "paid_cents": payment.cents}, "mismatches")
        else:
            collector.emit(both, row)
            for line in order.lines:
                collector.emit(both, {"order_id": order.order_id, **line}, "lines")
        for each in both:
            collector.ack(each)


paid = topology.rich_bolt(
    priced.fields_grouping("order_id"),
    payments.fields_grouping("order_id"),
    schema="order_id bigint, customer string, payment_id bigint, cents bigint",
    streams={
        "lines": "order_id bigint, sku string, quantity int, cents bigint",
        "mismatches": "order_id bigint, customer string, payment_id bigint, cents bigint, paid_cents bigint",
    },
    tasks=2,
)(Paid)


@topology.bolt(paid.stream("lines"))
def sold(tuples: DataFrame) -> DataFrame:
    """Add up what was sold."""
    return tuples.select("anchor", "sku", F.col("quantity").cast("bigint").alias("quantity"), "cents")


topology.publish(paid, to=str(PAID_ORDERS))
topology.publish(paid.stream("lines"), to=str(ORDER_LINES))
topology.publish(paid.stream("mismatches"), to=str(MISMATCHES))
topology.publish(
    sold, to=str(REVENUE), by="sku", aggregates={"quantity": Sum("quantity"), "cents": Sum("cents")}
)
