"""Tests of the bolts: each runs on a few rows, as in a run, on a Spark server that the tests start."""

from acker.testing import run_bolt
from pipeline.shop import items, priced


def test_an_order_is_split_into_its_items():
    result = run_bolt(items, [{"id": 1, "items": "tea,milk"}])
    assert result.rows == [{"id": 1, "item": "tea"}, {"id": 1, "item": "milk"}]
    assert result.failures == []


def test_an_order_without_items_fails():
    result = run_bolt(items, [{"id": 2, "items": None}], schema="id bigint, items string")
    assert [failure.reason for failure in result.failures] == ["an order without items"]


def test_an_item_without_a_price_fails_its_order_and_no_other():
    result = run_bolt(priced, [{"id": 1, "item": "tea"}, {"id": 2, "item": "wine"}])
    assert result.rows == [{"id": 1, "item": "tea", "cents": 300}]
    assert [failure.row["id"] for failure in result.failures] == [2]
