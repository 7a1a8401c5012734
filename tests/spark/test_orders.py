"""The example of orders and payments, with all its troubles, against a plain computation from its input."""

import importlib
import json
from collections import Counter

import pytest
from deltalake import DeltaTable

from acker.batches.batch import finish
from acker.core.events import State
from acker.core.store.tables import query
from acker.operations.cycle import run_cycle
from acker.operations.replay import plan_by_hand
from acker.operations.selection.selection import Selection
from acker.reports.audit import audit_report
from acker.runtime.registry import load_topology
from pipeline import orders, orders_feed
from pipeline.orders_feed import FIRST_PRICES_CENTS, PRICES_CENTS, orders_of

pytestmark = pytest.mark.extended  # every way through the example takes a minute or more

TABLES = ("paid_orders", "order_lines", "mismatches", "revenue")


@pytest.fixture(scope="module")
def run(shared_place, settings):
    """A run of the example below the test's folder; its paths are fixed when it is imported."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PIPELINE_HOME", str(shared_place.folder))
        importlib.reload(orders)
    return shared_place.run(load_topology("pipeline.orders:topology", settings))


def orders_in_files():
    """(file, line) -> the order in it; bad ones are left out."""
    found = {}
    for file in sorted(orders.INCOMING.glob("*.json")):
        for number, line in enumerate(file.read_text().splitlines(), start=1):
            try:
                order = json.loads(line)
            except json.JSONDecodeError:
                continue
            if order["lines"] and all(each["quantity"] > 0 for each in order["lines"]):
                found[file.name, number] = order
    return found


def expected(prices_of):
    """The rows of the published tables.

    Args:
        prices_of: the price list that an order is priced by, given its file, its line and its skus.
    """
    payments = query("SELECT * FROM t", t=DeltaTable(str(orders.PAYMENTS)))
    payment_of = {payment["order_id"]: payment for payment in payments}
    paid, lines, mismatches = [], [], []
    quantities, revenue = Counter(), Counter()
    for (file, number), order in orders_in_files().items():
        prices = prices_of(file, number, {each["sku"] for each in order["lines"]})
        priced = [
            (each["sku"], each["quantity"], each["quantity"] * prices[each["sku"]]) for each in order["lines"]
        ]
        cents = sum(each for _, _, each in priced)
        payment = payment_of[order["order_id"]]
        row = (order["order_id"], order["customer"], payment["payment_id"], cents)
        if payment["cents"] != cents:
            mismatches.append((*row, payment["cents"]))
            continue
        paid.append(row)
        for sku, quantity, part in priced:
            lines.append((order["order_id"], sku, quantity, part))
            quantities[sku] += quantity
            revenue[sku] += part
    sums = [(sku, quantities[sku], revenue[sku]) for sku in revenue]
    return {name: sorted(rows) for name, rows in zip(TABLES, (paid, lines, mismatches, sums), strict=True)}


def published(place):
    return {name: place.rows(f"orders/{name}") for name in TABLES}


def cycle(run, place):
    """A cycle when all retries are due."""
    place.clock.advance(10)
    run_cycle(run)


def counted(run):
    """How many messages are in which state."""
    audit = audit_report(run.topology, run.store)
    found = {
        state: getattr(audit, state) for state in ("acked", "pending", "retrying", "dead_letter", "recovered")
    }
    return audit.verdict, found


def reasons(run):
    rows = query(
        "SELECT spout, reason FROM ledger WHERE state = 'dead_letter'", ledger=run.store.require("ledger")
    )
    return Counter((row["spout"], row["reason"].split(":")[0]) for row in rows)


@pytest.fixture(scope="module")
def told(run, shared_place):
    """What the audit said while the price list was down, after that, and when all had settled."""
    found = []
    orders_feed.feed(20)
    orders.OUTAGE.touch()
    run_cycle(run)
    found.append(counted(run))
    orders.OUTAGE.unlink()
    cycle(run, shared_place)
    found.append(counted(run))
    orders_feed.write_prices(PRICES_CENTS)
    orders_feed.feed(4)  # with the late payments of the first file, and none of its own
    for _ in range(3):
        cycle(run, shared_place)
    return [*found, counted(run)]


def first_prices(file, number, skus):
    """Orders of the first file were priced by the first list, unless it lacked one of their prices."""
    return FIRST_PRICES_CENTS if file == "0001.json" and "saffron" not in skus else PRICES_CENTS


def test_the_same_arguments_give_the_same_orders():
    assert orders_of(3, 50, seed=7) == orders_of(3, 50, seed=7)
    assert orders_of(3, 50, seed=7)[:20] == orders_of(3, 20, seed=7)
    assert orders_of(3, 50, seed=7) != orders_of(3, 50, seed=8)


def states_of(acked=0, pending=0, retrying=0, dead_letter=0, recovered=0):
    return {
        "acked": acked,
        "pending": pending,
        "retrying": retrying,
        "dead_letter": dead_letter,
        "recovered": recovered,
    }


def test_orders_and_payments_settle_once_the_price_list_is_there_and_complete(told):
    assert told == [
        ("pass", states_of(pending=13, retrying=20)),  # payments in time wait for their orders
        ("pass", states_of(acked=16, pending=7, retrying=10, recovered=8)),  # no saffron; late payments
        ("pass", states_of(acked=40, dead_letter=4, recovered=17)),
    ]


def test_bad_orders_are_given_up_with_their_reasons(told, run):
    assert reasons(run) == {
        ("orders", "an order without lines"): 2,
        ("orders", "a quantity below 1"): 1,
        ("orders", "not valid JSON for the schema"): 1,
    }


def test_the_published_tables_are_those_of_a_plain_computation(told, shared_place):
    found = published(shared_place)
    assert found == expected(first_prices)
    assert all(found.values())


@pytest.mark.thorough
def test_replayed_orders_take_their_payments_along_and_replace_what_they_had_published(
    told, run, shared_place
):
    """Of two orders that are replayed with other prices, one is paid now and one no longer is."""
    dearer = {**PRICES_CENTS, "bread": PRICES_CENTS["bread"] + 10}
    orders_feed.write_prices(dearer)
    good = orders_in_files()
    skus = {place: {each["sku"] for each in order["lines"]} for place, order in good.items()}
    slipped = next(place for place in skus if "tea" in skus[place] and not skus[place] & {"saffron", "bread"})
    right = next(place for place in skus if "bread" in skus[place] and "tea" not in skus[place])
    chosen = Selection(states=(State.ACKED,), spout="orders", positions=(slipped, right))
    matched, batches = plan_by_hand(run, chosen, "new prices", "tester")
    for batch in batches:
        finish(run, batch)
    cycle(run, shared_place)

    def prices_of(file, number, skus):
        return dearer if (file, number) in (slipped, right) else first_prices(file, number, skus)

    assert matched.count == 4
    assert published(shared_place) == expected(prices_of)
    verdict, states = counted(run)
    assert (verdict, states["pending"], states["retrying"]) == ("pass", 0, 0)
