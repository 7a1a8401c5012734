"""What a basic bolt's function may return, and why a tuple fails where it returned something else."""

import pyarrow as pa
import pytest

from acker.components.workers import TupleRunner

SCHEMA = pa.schema([("item", pa.string()), ("n", pa.int64())])
TUPLES = pa.RecordBatch.from_pylist([{"_root_id": 1, "value": "tea", "amount": 2}])


def made(function):
    """(_kind, _error, item, n) of what a bolt makes of one tuple."""
    (batch,) = TupleRunner(function, SCHEMA)(iter([TUPLES]))
    return [tuple(row.values())[1:] for row in batch.to_pylist()]


def yielding(row):
    yield {"item": row.value}
    yield row.value, row.amount


@pytest.mark.parametrize(
    ("function", "rows"),
    [
        (yielding, [(None, None, "tea", None), (None, None, "tea", 2)]),
        (lambda row: [(row.value, row.amount)], [(None, None, "tea", 2)]),
        (lambda row: ((row.value, row.amount), {"n": 3}), [(None, None, "tea", 2), (None, None, None, 3)]),
        (lambda row: None, []),
        (lambda row: (), []),
    ],
)
def test_what_a_function_yields_or_returns_in_a_list_is_emitted(function, rows):
    assert made(function) == rows


@pytest.mark.parametrize(
    ("function", "returned"),
    [
        (lambda row: row.value, "'tea'"),
        (lambda row: row.amount, "2"),
        (lambda row: {"item": row.value}, "{'item': 'tea'}"),
        (lambda row: (row.value, row.amount), "('tea', 2)"),
        (lambda row: row, "Row(value='tea', amount=2)"),
    ],
)
def test_a_row_that_is_returned_and_not_yielded_fails_its_tuple(function, returned):
    reason = (
        f"TypeError: returned {returned} instead of rows; yield each row, as a dict or a tuple of item, n"
    )
    assert made(function) == [("fail", reason, None, None)]


def test_a_column_that_the_tuple_does_not_have_is_named_with_those_that_it_has():
    reason = "AttributeError: a tuple has no column vlaue; it has value, amount"
    assert made(lambda row: [{"item": row.vlaue}]) == [("fail", reason, None, None)]
