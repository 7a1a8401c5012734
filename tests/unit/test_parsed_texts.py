"""Texts as rows: what comes out is what was written, or a failure that says why."""

import json
import subprocess
import sys
from datetime import UTC, date, datetime
from decimal import Decimal
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import types as t

from acker.spouts.parsed.csv_fields import CsvFields
from acker.spouts.parsed.json_objects import JsonObjects
from acker.spouts.parsed.workers import Rows, _has_required, fields_of

TYPES = {
    "boolean": t.BooleanType(),
    "tinyint": t.ByteType(),
    "int": t.IntegerType(),
    "bigint": t.LongType(),
    "float": t.FloatType(),
    "double": t.DoubleType(),
    "decimal": t.DecimalType(10, 2),
    "string": t.StringType(),
    "binary": t.BinaryType(),
    "date": t.DateType(),
    "timestamp": t.TimestampType(),
    "timestamp_ntz": t.TimestampNTZType(),
    "struct": t.StructType([t.StructField("x", t.LongType()), t.StructField("y", t.DoubleType())]),
    "array": t.ArrayType(t.DecimalType(10, 2)),
    "map": t.MapType(t.StringType(), t.LongType()),
}
BAD = "not valid JSON for the schema: "


def rows(parser, texts):
    """The first column's value of each text, or else why it has none."""
    values, why = Rows(parser).found(pa.array(texts, pa.string()))
    name = parser.fields[0].name
    pairs = zip(values.to_pylist(), why.to_pylist(), strict=True)
    return [value[name] if reason is None else reason for value, reason in pairs]


def fields(kind):
    return fields_of(t.StructType([t.StructField("v", TYPES[kind])]), nested=True)


def of_json(kind, *values, zone=UTC):
    return rows(JsonObjects(fields(kind), zone), [f'{{"v": {value}}}' for value in values])


def made(parser, texts):
    """All values of each text."""
    found, why = Rows(parser).found(pa.array(texts))
    assert why.null_count == len(texts)
    return [tuple(row.values()) for row in found.to_pylist()]


def of_csv(kind, *texts, zone=UTC):
    return rows(CsvFields(fields(kind), zone, ","), list(texts))


def at(*parts, **more):
    return datetime(*parts, **more, tzinfo=UTC)


NOON = at(2026, 1, 31, 12)
# The table of docs/reference/sources.md: of each type the texts that it takes, in CSV and, as a string or
# as a number, in JSON.
TAKEN = [
    *(("boolean", "true", True), ("boolean", "false", False)),
    *(("tinyint", "-128", -128), ("bigint", "9223372036854775807", 2**63 - 1)),
    *(("double", "1.5", 1.5), ("double", "-2e3", -2000.0), ("float", "0.1", 0.10000000149011612)),
    *(("decimal", "12.5", Decimal("12.50")), ("decimal", "1e3", Decimal("1000.00"))),
    *(("decimal", "-99999999.9900", Decimal("-99999999.99")), ("decimal", "0e-99999", Decimal("0.00"))),
    *(("string", "1.10", "1.10"), ("string", "12345678901234567890123", "12345678901234567890123")),
]
IN_QUOTES = [
    *(("decimal", "12.50", Decimal("12.50")), ("string", "a,b", "a,b")),
    *(("double", "NaN", "nan"), ("double", "-Infinity", "-inf"), ("double", "INF", "inf")),
    *(("date", "2026-01-31", date(2026, 1, 31)), ("date", "0001-01-01", date.min)),
    *(("timestamp", "2026-01-31T12:00:00Z", NOON), ("timestamp", "2026-01-31 12:00:00", NOON)),
    *(("timestamp", "2026-01-31T12:00", NOON), ("timestamp", "2026-01-31 12:00:00 UTC", NOON)),
    *(("timestamp", "2026-01-31T13:30:00+01:30", NOON), ("timestamp", "2026-01-31T11:00:00-01", NOON)),
    ("timestamp", "2026-01-31T12:00:00.000001000Z", NOON.replace(microsecond=1)),
    ("timestamp", "2026-01-31", at(2026, 1, 31)),
    ("timestamp_ntz", "2026-01-31 12:00:00.5", datetime(2026, 1, 31, 12, 0, 0, 500_000)),
]
REFUSED_TEXTS = {
    "boolean": ["1", "yes", "t", " true"],
    "tinyint": ["128", "-129"],
    "bigint": ["x", "1.0", "1e3", " 1", "1_0", "0x10", "9223372036854775808", "\u0663"],
    "double": ["1,5", " 1", "1d", "0x1p3", "1e400", "1e-400", "1_0", "nan"],
    "float": ["1e39", "1e-50"],
    "decimal": ["12,50", "1.250,75", "12.999", "123456789", "1e20000000", "1e-20000000", "1" * 50, "NaN", ""],
    "date": [
        *("2026-02-30", "2026-1-5", "2026-01", "2026", "45000", "2026-01-31 x", "2026-01-31T00:00:00"),
        *("31.01.2026", "0000-01-01", "10000-01-01", " 2026-01-31"),
    ],
    "timestamp": [
        *("12:00", "45000", "1769860800000", "2026-01-31 x", "2026-01-31T24:00:00Z", "2026-01-31+01:00"),
        *("2026-01-31T12:00:00.1234567Z", "9999-12-31T23:59:59-01:00", "0001-01-01T00:00:00+01:00"),
        *("2026-01-31T12:00:00 Europe/Berlin", "2026-01-31T12:00:60Z", "2026-01-31T12:00:00+19:00"),
    ],
    "timestamp_ntz": ["2026-01-31T12:00:00Z", "12:00"],
}


def plain(value):
    """A value that can be compared; NaN cannot."""
    return str(value) if isinstance(value, float) and not -1e308 < value < 1e308 else value


@pytest.mark.parametrize(("kind", "text", "value"), TAKEN, ids=str)
def test_a_text_of_json_or_csv_is_the_value_that_is_written(kind, text, value):
    assert (of_json(kind, text), of_csv(kind, text)) == ([value], [value])


@pytest.mark.parametrize(("kind", "text", "value"), IN_QUOTES, ids=str)
def test_a_string_of_json_or_a_field_of_csv_is_the_value_that_is_written(kind, text, value):
    assert [plain(each) for each in of_json(kind, f'"{text}"')] == [value]
    assert [plain(each) for each in of_csv(kind, f'"{text}"')] == [value]


@pytest.mark.parametrize("kind", REFUSED_TEXTS)
def test_a_text_that_is_another_value_or_none_fails_its_row_alone(kind):
    for text in REFUSED_TEXTS[kind]:
        quoted = f"v: {json.dumps(text, ensure_ascii=False)[:40]}"
        why, null = of_json(kind, f'"{text}"', "null")
        assert (why.startswith(BAD + quoted), null) == (True, None)
        if text:
            why, null = of_csv(kind, f'"{text}"', '""')
            assert (why.startswith(f"not valid CSV for the schema: {quoted}"), null) == (True, None)


REFUSED_VALUES = {
    "boolean": ['"true"', "1", "[]"],
    "bigint": ['"5"', "1.0", "1e2", "true", "9223372036854775808", "NaN"],
    "double": ['"1.5"', "true", "1e400", "1e-400", "{}"],
    "decimal": ["12.999", "1e20000000", "NaN", "true", "100000000"],
    "string": ['"\\ud800"', '{"a": 1, "a": 2}'],
    "binary": ['"AA"', '"AB=="', '"A A="', "5"],
    "date": ["45000", "true"],
    "timestamp": ["45000", "1769860800000", "1.5"],
    "struct": ['{"x": "1"}', '{"y": 1e400}', "[]", '"{}"', '{"x": 1, "x": 1}'],
    "array": ["[1.5, 12.999]", '["12,50"]', "{}", '"[]"'],
    "map": ['{"a": 1.5}', '{"a": 1, "a": 1}', "[]"],
}


@pytest.mark.parametrize("kind", REFUSED_VALUES)
def test_a_value_of_json_of_another_kind_fails_its_row_alone(kind):
    for value in REFUSED_VALUES[kind]:
        why, null = of_json(kind, value, "null")
        assert (why.startswith(BAD + "v"), null) == (True, None)


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        ("string", '{"a": [1.10, "x", null, true, NaN]}', '{"a":[1.10,"x",null,true,NaN]}'),
        ("string", "true", "true"),
        ("binary", '"AP8="', b"\x00\xff"),
        ("binary", '""', b""),
        ("struct", '{"y": 1, "more": []}', {"x": None, "y": 1.0}),
        ("array", '[1, "2.50", null]', [Decimal("1.00"), Decimal("2.50"), None]),
        ("map", '{"a": 1, "b": null}', [("a", 1), ("b", None)]),
    ],
)
def test_values_of_json_that_are_not_one_text(kind, value, expected):
    assert of_json(kind, value) == [expected]


def test_a_misfit_is_named_by_its_place_and_quoted():
    kind = t.StructType(
        [t.StructField("items", t.ArrayType(t.StructType([t.StructField("price", TYPES["decimal"])])))]
    )
    parser = JsonObjects(fields_of(kind, nested=True), UTC)
    line = '{"items": [{"price": 1}, {"price": "12,50"}]}'
    assert rows(parser, [line]) == [f'{BAD}items[1].price: "12,50" is no decimal(10,2): {line}']


@pytest.mark.parametrize("after", ["{}", " {}", "x", ",", "}", "]", "\0", " null", "\r{}", " null{}", "//"])
def test_a_line_with_anything_behind_its_object_is_not_read_by_half(after):
    line = f'{{"v": 1}}{after}'
    found = rows(JsonObjects(fields("bigint"), UTC), ['{"v": 2}', line, '{"v": 3} \t'])
    assert found == [2, f"{BAD}more follows the object: {line}", 3]


@pytest.mark.parametrize(
    "line", ["", " ", "null", "[1]", "5", '"x"', "{", '{"v": 1', "\ufeff{}", "[" * 9_000]
)
def test_a_line_that_is_no_object_fails_alone(line):
    found = rows(JsonObjects(fields("bigint"), UTC), ['{"v": 2}', line])
    assert (found[0], found[1][: len(BAD)]) == (2, BAD)


def test_a_time_without_a_zone_is_one_of_the_sessions():
    zone = ZoneInfo("Europe/Berlin")
    texts = ["2026-07-01 12:00:00", "2026-01-01 12:00:00", "2026-03-29 02:30:00", "2026-10-25 02:30:00"]
    expected = [at(2026, 7, 1, 10), at(2026, 1, 1, 11), at(2026, 3, 29, 1, 30), at(2026, 10, 25, 0, 30)]
    assert of_csv("timestamp", *texts, zone=zone) == expected  # as Java has times that are left out or twice


def test_a_row_of_csv_has_as_many_fields_as_the_schema_however_many_it_has():
    columns = t.StructType([t.StructField(name, t.StringType()) for name in ("v", "w")])
    parser = CsvFields(fields_of(columns, nested=False), UTC, ",")
    texts = ["a,b", ",".join("x" * 25_000), "a", 'b,"c, ""d"""', '"a"b,c', "a\rb,c", "c" * 200_000 + ","]
    bad = "not valid CSV for the schema: "
    assert [each[:60] for each in rows(parser, texts)] == [
        "a",
        f"{bad}fields: 25000 instead of 2: x,",
        f"{bad}fields: 1 instead of 2: a",
        "b",
        f'{bad}"a"b,c',
        f"{bad}a carriage return within the line, which"[:60],
        "c" * 60,
    ]


@pytest.mark.parametrize("beside", ["1,b", '2,"c"'], ids=["at once", "one by one"])
def test_a_field_of_csv_that_is_said_to_be_null_is_null_in_quotes_or_not(beside):
    columns = t.StructType([t.StructField(name, t.StringType()) for name in ("w", "v")])
    parser = CsvFields(fields_of(columns, nested=False), UTC, ",", null="NA")
    assert made(parser, ["1,NA", "1,", "1,na", beside]) == [
        *[("1", None), ("1", None), ("1", "na")],
        tuple(beside.replace('"', "").split(",")),
    ]
    assert made(parser, ['1,"NA"']) == [("1", None)]


@pytest.mark.parametrize(
    ("text", "row"),
    [
        (r'1,"a \"b\", c"', ("1", 'a "b", c')),
        (r'1,"a\\"', ("1", "a\\")),
        (r"1,C:\new", ("1", r"C:\new")),
        (r"1,\"a", ("1", '"a')),
        (r'1,"a\\\""', ("1", 'a\\"')),
        (r'1,"a""b"', ("1", 'a"b')),
    ],
)
def test_a_backslash_escapes_a_quote_and_itself_where_it_is_told_to(text, row):
    columns = t.StructType([t.StructField(name, t.StringType()) for name in ("w", "v")])
    parser = CsvFields(fields_of(columns, nested=False), UTC, ",", escapes=True)
    assert made(parser, [text]) == [row]


@pytest.mark.parametrize("form", ["json", "csv"])
def test_a_text_without_a_value_for_a_required_column_is_bad(form):
    columns = t.StructType(
        [t.StructField("v", t.LongType(), nullable=False), t.StructField("w", t.StringType())]
    )
    required = fields_of(columns, nested=form == "json")
    texts = ["1,a", ",b", "2,"] if form == "csv" else ['{"v": 1}', '{"w": "b"}', '{"v": 2}']
    parser = CsvFields(required, UTC, ",") if form == "csv" else JsonObjects(required, UTC)
    why = f"not valid {form.upper()} for the schema: v: null, and it is NOT NULL: {texts[1]}"
    assert rows(parser, texts) == [1, why, 2]
    assert rows(parser, ["x", *texts])[2] == why


@pytest.mark.parametrize("bad", [None, "{"])
def test_a_batch_keeps_its_other_columns_and_has_nulls_where_there_is_no_text(bad):
    batch = pa.record_batch({"n": [1, 2, 3], "value": ['{"v": 5}', bad, '{"v": 6}']})
    (made,) = Rows(JsonObjects(fields("bigint"), UTC))(iter([batch]))
    assert made.to_pydict() == {
        "n": [1, 2, 3],
        "_fields": [{"v": 5}, None, {"v": 6}],
        "_why": [None, bad and f"{BAD}{{", None],
    }


def test_a_batch_without_any_text_has_nulls():
    batch = pa.record_batch({"value": pa.nulls(2, pa.string())})
    for parser in (JsonObjects(fields("bigint"), UTC), CsvFields(fields("bigint"), UTC, ",")):
        (made,) = Rows(parser)(iter([batch]))
        assert made.to_pydict() == {"_fields": [None, None], "_why": [None, None]}


def test_a_text_that_makes_the_parser_raise_is_bad_alone(monkeypatch):
    parser = JsonObjects(fields("bigint"), UTC)
    read = parser.one_by_one
    monkeypatch.setattr(parser, "at_once", lambda texts: 1 / 0)
    monkeypatch.setattr(parser, "one_by_one", lambda texts: 1 / 0 if '{"v": 2}' in texts else read(texts))
    found = rows(parser, ['{"v": 1}', '{"v": 2}', '{"v": 3}'])
    assert found == [1, f'{BAD}ZeroDivisionError: division by zero: {{"v": 2}}', 3]


@pytest.mark.parametrize(
    ("odd", "lengths"),
    [
        ([], []),
        ([432], [10]),
        ([9, 432, 439, 999], [10, 10, 10]),
        ([0, 100, 200, 300, 999], [10, 10, 10, 100, 100]),
    ],
)
def test_odd_texts_of_a_batch_leave_most_of_it_to_be_read_at_once(odd, lengths, monkeypatch):
    parser, read = JsonObjects(fields("bigint"), UTC), []
    texts = ["{" if place in odd else f'{{"v": {place}}}' for place in range(1_000)]
    one_by_one = parser.one_by_one
    monkeypatch.setattr(parser, "one_by_one", lambda some: read.append(len(some)) or one_by_one(some))
    assert rows(parser, texts) == [f"{BAD}{{" if place in odd else place for place in range(1_000)]
    assert read == lengths


WITHOUT_PANDAS = """
import sys
from datetime import UTC
from pyspark.sql import types as t
from acker.spouts.parsed.csv_fields import CsvFields
from acker.spouts.parsed.json_objects import JsonObjects
from acker.spouts.parsed.texts import few_texts
from acker.spouts.parsed.workers import fields_of

kinds = [t.BooleanType(), t.LongType(), t.DoubleType(), t.DecimalType(10, 2), t.StringType(), t.DateType(),
         t.TimestampType(), t.TimestampNTZType()]
names = [f"v{place}" for place in range(len(kinds))]
fields = fields_of(t.StructType([t.StructField(*each) for each in zip(names, kinds)]), nested=True)
values = ["true", "5", "0.5", "1.50", "a", "2026-01-31", "2026-01-31T10:00:00Z", "2026-01-31T10:00:00"]
plain = ("true", "5", "0.5", "1.50")
members = ", ".join(f'"{name}": ' + (value if value in plain else f'"{value}"')
                    for name, value in zip(names, values))
pairs = [(CsvFields(fields, UTC, ","), ",".join(values)), (JsonObjects(fields, UTC), f"{{{members}}}")]
for parser, text in pairs:
    columns = parser.at_once(few_texts(text, text))
    print(parser.form, [str(column.cast("string")[1]) for column in columns], "pandas" in sys.modules)
"""


def test_texts_are_read_at_once_without_pandas():
    told = subprocess.run([sys.executable, "-c", WITHOUT_PANDAS], capture_output=True, text=True, check=True)
    zoned = "'2026-01-31', '2026-01-31 10:00:00.000000Z', '2026-01-31 10:00:00.000000'"
    read = f"['true', '5', '0.5', '1.50', 'a', {zoned}]"
    assert told.stdout.splitlines() == [f"{form} {read} False" for form in ("CSV", "JSON")]


# Python's own json and decimal are the judge.
NUMBERS = st.one_of(
    st.integers(-(2**70), 2**70).map(str),
    st.decimals(allow_nan=False, allow_infinity=False).map(str),
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.from_regex(r"-?(0|[1-9][0-9]{0,20})(\.[0-9]{1,30})?([eE][+-]?[0-9]{1,4})?", fullmatch=True),
)
TEXTS = st.one_of(
    st.text(),
    NUMBERS,
    st.dates().map(str),
    st.datetimes(timezones=st.sampled_from([None, UTC])).map(str),
    st.sampled_from([text for texts in REFUSED_TEXTS.values() for text in texts]),
)
VALUES = st.one_of(
    NUMBERS, TEXTS.map(json.dumps), TEXTS.map(lambda text: json.dumps(text, ensure_ascii=False)),
    st.sampled_from(["true", "false", "null", "[]", "{}", "NaN", '{"a": 1}']),
)  # fmt: skip


def judged(kind, written):
    """The value that is written, as its type would have it, or None where it is not one of the type."""
    value = json.loads(written, parse_int=Decimal, parse_float=Decimal, parse_constant=str)
    is_number, is_text = isinstance(value, Decimal), isinstance(value, str)
    if kind == "string":
        return value if is_text and written != value else written.replace(" ", "")
    if kind == "bigint":
        return int(value) if is_number and not set(written) & set(".eE") else None
    if kind == "double":
        return float(written) if is_number else None
    if kind == "decimal":
        return value if is_number or not is_text else Decimal(value)
    return datetime.fromisoformat(value)


@settings(deadline=None)
@given(
    st.sampled_from(["string", "bigint", "double", "decimal", "date", "timestamp_ntz"]),
    st.lists(VALUES, min_size=1),
)
def test_whatever_is_written_comes_out_or_fails(kind, values):
    for written, value in zip(values, of_json(kind, *values), strict=True):
        if isinstance(value, str) and value.startswith(BAD):
            continue
        assert value is None if written == "null" else plain(value) is not None
        if written != "null" and plain(value) == value:
            judge = judged(kind, written)
            assert value == (judge.date() if kind == "date" else judge)


@settings(deadline=None)
@given(
    st.sampled_from(["bigint", "double", "decimal", "date", "timestamp", "string"]),
    st.lists(VALUES, min_size=1),
)
def test_a_batch_is_read_at_once_as_text_by_text(kind, values):
    parser = JsonObjects(fields(kind), UTC)
    texts = [f'{{"v": {value}}}' for value in values]
    alone = [rows(parser, [text]) for text in texts]
    assert list(map(repr, rows(parser, texts))) == [repr(each[0]) for each in alone]


def test_a_schema_with_a_required_field_within_a_column_is_refused():
    inner = t.StructType([t.StructField("x", t.LongType(), nullable=False)])
    for kind in (inner, t.ArrayType(inner), t.MapType(t.StringType(), inner)):
        assert _has_required(kind)
    assert not _has_required(t.StructType([t.StructField("x", t.ArrayType(t.LongType()))]))
