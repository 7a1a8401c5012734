"""Values of Python's in a bolt's columns: the table of docs/reference/bolts.md row by row, and whole rows."""

import math
import re
from collections import namedtuple
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import Row

from acker.components.collector import Context, RichBolt
from acker.components.emitted import tuples_of
from acker.components.values import ValueColumn
from acker.components.workers import RichRunner, TupleRunner
from tests.kit.exact_values import ANY, OWN, is_same

TYPES = {
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "decimal(10,2)": pa.decimal128(10, 2),
    "string": pa.string(),
    "binary": pa.binary(),
    "boolean": pa.bool_(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
    "interval day to second": pa.duration("us"),
    "array<int>": pa.list_(pa.int32()),
    "map<string,int>": pa.map_(pa.string(), pa.int32()),
    "struct<a:int,b:string>": pa.struct([("a", pa.int32()), ("b", pa.string())]),
}
KNOWN = {
    "date": date,
    "datetime": datetime,
    "time": time,
    "timedelta": timedelta,
    "UTC": UTC,
    "Decimal": Decimal,
    "Row": Row,
    "np": np,
    "pd": pd,
    "nan": math.nan,
}
PAGE = Path(__file__).parents[2] / "docs/reference/bolts.md"


def rows_of_the_table():
    """DDL, values that it takes, values that it refuses; of each row of the docs' table."""
    _, _, section = PAGE.read_text().partition("## Values of Python")
    for line in re.findall(r"^\| `.*$", section.partition("\n## ")[0], re.M):
        kinds, *cells = (re.findall(r"`([^`]*)`", cell) for cell in line.strip("|").split(" | "))
        yield from (pytest.param(kind, *cells, id=kind) for kind in kinds)


def made(kind, value):
    """What a column has of a value, or why it has not."""
    try:
        array = ValueColumn.of(pa.field("c", TYPES[kind])).array([value])
    except ValueError as error:
        return str(error)
    return array.to_pylist(maps_as_pydicts="strict")[0]


@pytest.mark.parametrize(("kind", "taken", "refused"), [*rows_of_the_table()])
def test_a_column_takes_what_the_table_says_exactly_and_refuses_the_rest(kind, taken, refused):
    values = [eval(text, KNOWN) for text in taken]
    found = [made(kind, value) for value in values]
    assert [text for text, *each in zip(taken, values, found, strict=True) if not is_same(kind, *each)] == []
    reasons = {text: made(kind, eval(text, KNOWN)) for text in refused}
    assert [text for text, why in reasons.items() if not str(why).startswith("column c")] == []


def test_every_type_of_the_table_is_tried():
    held = [kind for kind in TYPES if not kind.startswith("interval")]  # by streams
    assert [each.id for each in rows_of_the_table()] == held


@pytest.mark.parametrize(
    ("kind", "value", "why"),
    [
        ("bigint", 1998.9999999999998, "column c: 1998.9999999999998 is no bigint"),
        ("tinyint", 300, "column c: 300 is no tinyint"),
        ("array<int>", [1, 1.5], "column c: 1.5 is no int"),
        ("struct<a:int,b:string>", {"a": 1.5}, "column c.a: 1.5 is no int"),
        ("map<string,int>", [("a", 1), ("a", 2)], "column c: [('a', 1), ('a', 2)] is no map<string,int>"),
    ],
)
def test_a_refused_value_is_told_with_its_column(kind, value, why):
    assert made(kind, value) == why


def arrow_type(ddl):
    """The type of a column, by its DDL."""
    head, _, inner = ddl.removesuffix(">").partition("<")
    if head == "decimal(38,18)":
        return pa.decimal128(38, 18)
    if head == "array":
        return pa.list_(arrow_type(inner))
    if head == "map":
        key, _, item = inner.partition(",")
        return pa.map_(arrow_type(key), arrow_type(item))
    return TYPES[ddl]


@pytest.mark.parametrize("ddl", OWN)
def test_any_value_arrives_as_it_was_yielded_or_is_refused(ddl):
    column = ValueColumn.of(pa.field("c", arrow_type(ddl)))

    @settings(deadline=None, suppress_health_check=list(HealthCheck))
    @given(st.lists(OWN[ddl]), st.lists(ANY, max_size=5))
    def arrive(own, others):
        found = column.array(own).to_pylist(maps_as_pydicts="strict")
        assert [pair for pair in zip(own, found, strict=True) if not is_same(ddl, *pair)] == []
        for value in others:
            try:
                (one,) = column.array([value]).to_pylist(maps_as_pydicts="strict")
            except ValueError as error:
                assert str(error).startswith("column c")
            else:
                assert is_same(ddl, value, one)

    arrive()


@pytest.mark.parametrize(("fold", "hour"), [(0, 20), (1, 21)])
def test_a_time_that_a_clock_shows_twice_arrives_as_the_one_that_is_meant(fold, hour):
    shown = datetime(2028, 10, 26, 23, tzinfo=ZoneInfo("Egypt"), fold=fold)
    (found,) = ValueColumn.of(pa.field("c", TYPES["timestamp"])).array([shown]).to_pylist()
    assert found == datetime(2028, 10, 26, hour, tzinfo=UTC)


def test_a_value_that_does_not_fit_fails_its_tuple_alone_among_many():
    column = ValueColumn.of(pa.field("cents", pa.int64()))
    assert column.array([1, 2.0, None, Decimal(3)]).to_pylist() == [1, 2, None, 3]
    with pytest.raises(ValueError, match=r"^column cents: 434\.99999999999994 is no bigint$"):
        column.array([435, 4.35 * 100, 1.5])


def test_a_column_goes_before_a_method_of_its_name():
    names = ["count", "index", "cls", "asDict", "id"]
    (tup,) = tuples_of(names, [[number] for number in range(5)], 1)
    assert [getattr(tup, name) for name in names] == [0, 1, 2, 3, 4]
    assert (repr(tup), "id" in tup) == ("Row(count=0, index=1, cls=2, asDict=3, id=4)", True)


SCHEMA = pa.schema([pa.field("a", pa.int64(), nullable=False), ("b", pa.list_(pa.int64()))])
TUPLES = pa.RecordBatch.from_pylist([{"_root_id": 1, "n": 2}])
Turned = namedtuple("Turned", "b a")


def emitted(function):
    """(_error, a, b) of what a basic bolt makes of one tuple."""
    (batch,) = TupleRunner(function, SCHEMA)(iter([TUPLES]))
    return [tuple(row.values())[2:] for row in batch.to_pylist()]


@pytest.mark.parametrize("row", [Turned([1], 2), Row(b=[1], a=2), {"b": [1], "a": 2}, (2, [1]), [2, [1]]])
def test_a_row_with_names_is_taken_by_them(row):
    assert emitted(lambda tup: [row]) == [(None, 2, [1])]


def test_a_column_that_is_not_null_has_a_value_or_its_tuple_fails():
    reason = "ValueError: column a: None, and it is NOT NULL"
    assert emitted(lambda tup: [{"b": [1]}]) == [(reason, None, None)]


def growing(tup):
    """A bolt that goes on changing what it has emitted."""
    seen = []
    for number in (1, 2):
        seen.append(number)
        yield number, seen


def test_a_value_is_as_it_was_when_it_was_yielded():
    assert emitted(growing) == [(None, 1, [1]), (None, 2, [1, 2])]


class Growing(RichBolt):
    """Goes on changing what it has emitted, and emits what is no row."""

    def execute(self, tup, collector):
        for row in growing(tup):
            collector.emit(tup, row)
        collector.emit(tup, {"a": 4.35 * 100})
        collector.ack(tup)


def test_a_rich_bolts_values_are_held_to_the_same():
    given = {"_task": 0, "_input": 0, "_again": False, "_root_id": 1, "_root_ids": None, "_batch": 1}
    given |= {"_file": "f", "_row": 0, "_since": 1, "_0": {"n": 2}}
    report = [("_root_id", pa.int64()), ("_root_ids", pa.list_(pa.int64())), ("_kind", pa.string())]
    schema = pa.schema([*report, ("_error", pa.string()), *SCHEMA])
    runner = RichRunner(Growing, Context("t", "g", 1, 0, 1), ["n"], {None: SCHEMA.names}, schema)
    (batch,) = runner(iter([pa.RecordBatch.from_pylist([given])]))
    reason = "ValueError: column a: 434.99999999999994 is no bigint"
    assert [tuple(row.values())[3:] for row in batch.to_pylist()] == [
        (None, 1, [1]),
        (None, 2, [1, 2]),
        (reason, None, None),
    ]
