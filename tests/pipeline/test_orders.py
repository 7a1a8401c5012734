"""The orders and their payments, as their author tests them."""

import pytest

from acker.testing import Failure, run_bolt, run_topology
from pipeline import orders
from pipeline.orders import checked, paid, topology

TEA = [{"sku": "tea", "quantity": 2}]


@pytest.fixture(autouse=True)
def price_list(monkeypatch, tmp_path):
    """A price list of the test's own."""
    prices = tmp_path / "prices.csv"
    prices.write_text("sku,price\ntea,300\n")
    monkeypatch.setattr(orders, "PRICES", prices)
    monkeypatch.setattr(orders, "OUTAGE", tmp_path / "price-list-is-down")


def test_an_order_that_nobody_could_deliver_fails():
    none = {"order_id": 2, "customer": "Bo", "lines": []}
    result = run_bolt(checked, [{"order_id": 1, "customer": "Al", "lines": TEA}, none])
    assert [row["order_id"] for row in result.rows] == [1]
    assert result.failures == [Failure(none, "an order without lines")]


def test_an_order_and_its_payment_wait_for_each_other():
    order = {
        "order_id": 1,
        "customer": "Al",
        "lines": [{"sku": "tea", "quantity": 2, "cents": 600}],
        "cents": 600,
    }
    result = run_bolt(
        paid,
        {
            "priced": [order, {**order, "order_id": 2}],
            "payments": [
                {"payment_id": 7, "order_id": 1, "cents": 600},
                {"payment_id": 8, "order_id": 3, "cents": 50},
            ],
        },
    )
    assert result.rows == [{"order_id": 1, "customer": "Al", "payment_id": 7, "cents": 600}]
    assert result.streams["mismatches"] == []
    assert result.held == [{**order, "order_id": 2}, {"payment_id": 8, "order_id": 3, "cents": 50}]


@pytest.mark.extended
def test_what_is_paid_is_revenue():
    result = run_topology(
        topology,
        {
            "orders": [{"order_id": 1, "customer": "Al", "lines": TEA}],
            "payments": [{"payment_id": 7, "order_id": 1, "cents": 600}],
        },
    )
    assert result.published["sold"] == [{"sku": "tea", "quantity": 2, "cents": 600}]
    assert result.states == {"acked": 2}
