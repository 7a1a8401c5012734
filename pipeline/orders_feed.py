"""Input for the example `orders`; a call of `python -m pipeline.orders_feed` writes the next file.

A seed, a file's number and a count decide what is in it, troubles included: three bad orders in each file,
payments that come with the next file, and a price list that at first lacks a price and has a wrong one.
"""

import json
from dataclasses import dataclass
from random import Random
from typing import Any

import click
import pyarrow as pa
from deltalake import write_deltalake

from pipeline import orders

PRICES_CENTS = {"bread": 380, "milk": 120, "saffron": 2900, "tea": 450, "wine": 1400}
FIRST_PRICES_CENTS = {"bread": 380, "milk": 120, "tea": 45, "wine": 1400}  # a slip in tea, and no saffron
CUSTOMERS = ("ada", "ben", "cleo", "dai", "eve")
FILE_IDS = 1_000_000  # order 2000007 is line 7 of file 2

NO_LINES, NEGATIVE, BROKEN = 3, 6, 9  # the lines of each file that are bad
LATE = 5  # the payment of each fifth order comes with the next file

_PAYMENT = pa.schema({"payment_id": pa.int64(), "order_id": pa.int64(), "cents": pa.int64()})


@dataclass(frozen=True)
class Order:
    """One line of a file."""

    order_id: int
    text: str
    cents: int | None  # what its customer pays for it; None for a bad order
    late: bool  # whether that comes with the next file


def orders_of(number: int, count: int, seed: int = 1) -> list[Order]:
    """The first `count` orders of file `number`, from 1; the same for the same arguments."""
    random = Random(f"{seed}/{number}")
    return [_order(random, number, line) for line in range(1, count + 1)]


def _order(random: Random, number: int, line: int) -> Order:
    skus = random.sample(sorted(PRICES_CENTS), random.randint(1, 3))
    quantities = {sku: random.randint(1, 4) for sku in skus}
    cents = sum(PRICES_CENTS[sku] * quantity for sku, quantity in quantities.items())
    if line == NEGATIVE:
        quantities[skus[0]] = -1
    lines = [{"sku": sku, "quantity": quantity} for sku, quantity in quantities.items()]
    order: dict[str, Any] = {
        "order_id": number * FILE_IDS + line,
        "customer": random.choice(CUSTOMERS),
        "lines": [] if line == NO_LINES else lines,
    }
    text = json.dumps(order)
    is_bad = line in (NO_LINES, NEGATIVE, BROKEN)
    return Order(
        order_id=order["order_id"],
        text=text[:-2] if line == BROKEN else text,
        cents=None if is_bad else cents,
        late=line % LATE == 0,
    )


def payments_of(number: int, earlier: list[Order], current: list[Order]) -> list[dict[str, int]]:
    """The payments that come with file `number`: late ones of the file before, and those of its own in time.

    Their ids grow from file to file, as a `DeltaSpout` needs it.
    """
    due = [order for order in earlier if order.late] + [order for order in current if not order.late]
    paid = [order for order in due if order.cents is not None]
    return [
        {"payment_id": number * FILE_IDS + index, "order_id": order.order_id, "cents": order.cents or 0}
        for index, order in enumerate(paid, start=1)
    ]


def feed(count: int, seed: int = 1) -> str:
    """Write the next file of orders and its payments, and a price list where there is none. Says what."""
    orders.INCOMING.mkdir(parents=True, exist_ok=True)
    if not orders.PRICES.exists():
        write_prices(FIRST_PRICES_CENTS)
    files = sorted(orders.INCOMING.glob("*.json"))
    number = len(files) + 1
    earlier = orders_of(number - 1, len(files[-1].read_text().splitlines()), seed) if files else []
    current = orders_of(number, count, seed)
    payments = payments_of(number, earlier, current)
    if payments:
        write_deltalake(orders.PAYMENTS, pa.Table.from_pylist(payments, _PAYMENT), mode="append")
    name = f"{number:04}.json"
    unseen = orders.INCOMING / f"{name}.part"  # a spout must not see half a file
    unseen.write_text("".join(f"{order.text}\n" for order in current))
    unseen.rename(orders.INCOMING / name)
    return f"{len(current)} orders in {name}, {len(payments)} payments"


def write_prices(cents: dict[str, int]) -> None:
    """Write the price list."""
    orders.HOME.mkdir(parents=True, exist_ok=True)
    rows = "".join(f"{sku},{price}\n" for sku, price in cents.items())
    orders.PRICES.write_text(f"sku,cents\n{rows}")


@click.command()
@click.option("--orders", "count", default=20, type=click.IntRange(1, FILE_IDS - 1), help="How many orders.")
@click.option("--mend-prices", is_flag=True, help="Write the price list as it should be, and nothing else.")
def main(count: int, mend_prices: bool) -> None:
    """Write the next file of orders, with its payments."""
    if mend_prices:
        write_prices(PRICES_CENTS)
        click.echo(f"{orders.PRICES} has all prices, and the right ones")
    else:
        click.echo(feed(count))


if __name__ == "__main__":
    main()
