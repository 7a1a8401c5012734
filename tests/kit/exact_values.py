"""Values that a Python bolt may yield into a column of each type, and whether what came out is the same."""

import math
from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from decimal import Context, Decimal
from typing import Any

import numpy as np
import pandas as pd
from hypothesis import strategies as st
from pyspark.sql import Row


def _integers(bits: int) -> st.SearchStrategy[Any]:
    return st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


def _decimals(precision: int, scale: int) -> st.SearchStrategy[Any]:
    most = 10**precision - 1
    return st.integers(-most, most).map(lambda value: Decimal(value).scaleb(-scale, _WIDE))


_WIDE = Context(prec=80)
_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
_INT, _BIGINT, _DOUBLE = _integers(32), _integers(64), st.floats()
_DATES = st.dates()
_LOCAL = st.datetimes()
_MOMENTS = st.datetimes(timezones=st.timezones(), min_value=datetime(2, 1, 1), max_value=datetime(9998, 1, 1))
_STRUCTS = st.fixed_dictionaries({"a": _INT, "b": _TEXT})

# DDL -> values that the column has to take
OWN: Mapping[str, st.SearchStrategy[Any]] = {
    "tinyint": _integers(8),
    "smallint": _integers(16),
    "int": _INT,
    "bigint": _BIGINT,
    "float": st.floats(width=32),
    "double": _DOUBLE | st.integers(-(2**53), 2**53),
    "decimal(10,2)": _decimals(10, 2) | st.integers(-(10**8) + 1, 10**8 - 1),
    "decimal(38,18)": _decimals(38, 18),
    "string": _TEXT,
    "binary": st.binary(max_size=8),
    "boolean": st.booleans(),
    "date": _DATES,
    "timestamp": _MOMENTS | _LOCAL,
    "timestamp_ntz": _LOCAL,
    "interval day to second": st.timedeltas(timedelta(-(10**6)), timedelta(10**6)),
    "array<int>": st.lists(_INT, max_size=4) | st.lists(_INT, max_size=4).map(np.array),
    "array<string>": st.lists(_TEXT, max_size=4),
    "array<double>": st.lists(_DOUBLE, max_size=4) | st.lists(_DOUBLE, max_size=4).map(np.array),
    "map<string,int>": st.dictionaries(_TEXT, _INT, max_size=4),
    "struct<a:int,b:string>": _STRUCTS | st.tuples(_INT, _TEXT) | _STRUCTS.map(lambda each: Row(**each)),
    "array<struct<a:int,b:string>>": st.lists(_STRUCTS, max_size=3),
    "map<string,array<int>>": st.dictionaries(_TEXT, st.lists(_INT, max_size=3), max_size=3),
}

_STRANGE = st.one_of(
    _DOUBLE.map(np.float64),
    st.floats(width=32).map(np.float32),
    _BIGINT.map(np.int64),
    st.integers(0, 2**64 - 1).map(np.uint64),
    st.integers(-(10**6), 10**6).map(float),
    st.decimals(allow_nan=True, allow_infinity=True),
    st.integers(-(2**80), 2**80),
    st.integers(0, 10**18).map(lambda each: np.datetime64(each, "ns")),
    st.integers(0, 10**15).map(lambda each: np.datetime64(each, "us")),
    st.integers(0, 10**18).map(lambda each: pd.Timestamp(each, tz="Asia/Tokyo")),
    st.integers(0, 10**18).map(lambda each: pd.Timedelta(each, "ns")),
    st.sampled_from([pd.NaT, pd.NA, np.bool_(True), np.str_("x"), b"ab", bytearray(b"ab"), "ab", {1, 2}, ()]),
    st.lists(_DOUBLE, max_size=3).map(np.array),
    st.dictionaries(_TEXT, _DOUBLE, max_size=3),
    st.dictionaries(_INT, _INT, max_size=3),
    st.fixed_dictionaries({"a": _DOUBLE, "b": _TEXT}),
    st.fixed_dictionaries({"a": _INT, "b": _TEXT, "c": _INT}),
    st.tuples(_TEXT, _INT),
    _INT.map(lambda each: Row(b="x", a=each)),
    st.lists(st.tuples(_TEXT, _INT), max_size=3),
)
ANY = st.one_of(_STRANGE, *OWN.values())


def is_same(ddl: str, given: Any, found: Any) -> bool:
    """Whether a column holds what was yielded into it, judged by Python's own comparison of the two."""
    if given is None or found is None:
        return given is found
    head, _, inner = ddl.removesuffix(">").partition("<")
    if head == "array":
        return len(given) == len(found) and all(map(is_same, [inner] * len(found), given, found))
    if head == "map":
        key, _, item = inner.partition(",")
        pairs = list(given.items()) if isinstance(given, Mapping) else given
        return [*map(len, pairs)] == [2] * len(found) and all(
            is_same(key, ours, theirs) and is_same(item, value, found[theirs])
            for (ours, value), theirs in zip(pairs, found, strict=True)
        )
    if head == "struct":
        kinds = dict(field.split(":") for field in inner.split(","))
        names = getattr(given, "__fields__", list(kinds))
        by_name = dict(given if isinstance(given, Mapping) else zip(names, given, strict=True))
        return by_name.keys() <= kinds.keys() and all(
            is_same(kind, by_name.get(name), found[name]) for name, kind in kinds.items()
        )
    return _is_same_scalar(head, given, found)


def _is_same_scalar(ddl: str, given: Any, found: Any) -> bool:
    if isinstance(given, np.datetime64):
        found = found.replace(tzinfo=None) if isinstance(found, datetime) else found
        return bool(given == np.datetime64(found))
    if isinstance(given, str | bytes | bytearray | bool | np.bool_ | np.timedelta64):
        return bool(given == found)
    if isinstance(found, float) and math.isnan(found):
        return bool(given != given)
    if ddl == "float" and isinstance(given, float | np.floating):
        return bool(np.float32(given) == np.float32(found)) and math.isinf(given) == math.isinf(found)
    if ddl == "timestamp":
        # Python says of a time that a clock shows twice, or never, that no time of another zone is the same.
        given = given.replace(tzinfo=UTC) if given.tzinfo is None else given.astimezone(UTC)
    if ddl == "date" and isinstance(given, datetime):
        return given.tzinfo is None and datetime.combine(found, datetime.min.time()) == given
    if isinstance(found, int | float | Decimal):
        given = given.item() if isinstance(given, np.generic) else given
        return not isinstance(found, bool) and bool(given == found)
    return isinstance(given, date | timedelta) and bool(given == found)
