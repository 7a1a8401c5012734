"""What a bolt's Python code may return, and how its rows are handed on."""

from collections import Counter

import pyarrow as pa
import pytest

from acker.components.collector import Context, RichBolt
from acker.components.workers import ROWS_AT_ONCE, RichRunner, TupleRunner

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


MANY = 4_000


def many(row):
    """A bolt that makes many rows of each tuple, and what does not fit its schema of the third."""
    yield from ({"item": row.value, "n": number} for number in range(MANY))
    if row.amount == 3:
        yield {"n": "three"}


def test_many_rows_of_a_tuple_are_handed_on_in_slices():
    tuples = pa.RecordBatch.from_pylist([{"_root_id": n, "value": "tea", "amount": n} for n in range(1, 8)])
    batches = list(TupleRunner(many, SCHEMA)(iter([tuples])))
    assert max(batch.num_rows for batch in batches) < ROWS_AT_ONCE + MANY
    rows = pa.Table.from_batches(batches).to_pylist()
    failed = [row["_root_id"] for row in rows if row["_kind"] == "fail"]
    assert failed == [3]
    assert Counter(row["_root_id"] for row in rows if row["_kind"] is None) == dict.fromkeys(
        (1, 2, 4, 5, 6, 7), MANY
    )


class Repeating(RichBolt):
    """Acks what it is given, and emits it many times; the last tuples it holds back."""

    def execute(self, tup, collector):
        for number in range(MANY):
            collector.emit(tup, {"item": tup.value, "n": number})
        if tup.amount < 7:
            collector.ack(tup)


def test_many_rows_of_a_rich_bolt_are_handed_on_in_slices():
    given = [
        {"_task": 0, "_input": 0, "_again": False, "_root_id": n, "_root_ids": None, "_batch": 1}
        | {"_file": "f", "_row": n, "_since": 1, "_0": {"value": "tea", "amount": n}}
        for n in range(1, 8)
    ]
    report = [("_root_id", pa.int64()), ("_root_ids", pa.list_(pa.int64())), ("_kind", pa.string())]
    schema = pa.schema([*report, ("_error", pa.string()), *SCHEMA])
    context = Context("t", "repeat", 1, 0, 1)
    runner = RichRunner(Repeating, context, ["drinks"], {None: SCHEMA.names}, schema)
    parts = [pa.RecordBatch.from_pylist(some) for some in (given[:4], given[4:])]
    batches = list(runner(iter(parts)))
    assert max(batch.num_rows for batch in batches) < ROWS_AT_ONCE + MANY
    rows = pa.Table.from_batches(batches).to_pylist()
    assert Counter((row["_root_id"], row["_kind"]) for row in rows) == {
        **{(n, None): MANY for n in range(1, 8)},
        (7, "held"): 1,
    }
