"""The texts that stand for values of Spark's types, in a field of CSV or in a string of JSON.

A text is a value exactly, or it is none: nothing is cut, rounded or guessed. A type reads one text, or a
whole column of texts at once; a column that may be read otherwise at once is left to be read text by text.
The module is pickled by value, so a worker of Spark needs PySpark and PyArrow and not this project.

Reading at once makes no array and no scalar of Python's values, for which PyArrow would import pandas: a
second in each new worker.
"""

import re
import struct
import sys
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal, Inexact, InvalidOperation, Overflow, Underflow
from itertools import accumulate
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark import cloudpickle
from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    TimestampNTZType,
    TimestampType,
)

from acker.core.reasons import shown

Reader = Callable[[Any], Any]

NO_VALUE = (ValueError, ArithmeticError)  # what a reader raises for a text that is no value of its type
_SHOWN = 40  # characters of a value that a reason shows

_BITS = {ByteType: 8, ShortType: 16, IntegerType: 32, LongType: 64}
_ATOMS = (
    *(StringType, BooleanType, ByteType, ShortType, IntegerType, LongType, FloatType, DoubleType),
    *(DecimalType, DateType, TimestampType, TimestampNTZType, BinaryType),
)
_BOOLEANS = {"true": True, "false": False}
_INTEGER = re.compile(r"[+-]?\d+", re.ASCII)
_NUMBER = re.compile(r"[+-]?(\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)
_NOT_FINITE = re.compile(r"NaN|[+-]?(?:Infinity|Inf|INF)")
_DATE = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_TIMESTAMP = re.compile(
    r"(?P<day>\d{4}-\d\d-\d\d)"
    r"(?:[T ](?P<minute>\d\d:\d\d)(?::(?P<second>\d\d)(?:\.(?P<fraction>\d{1,6})0*)?)?"
    r" ?(?P<zone>Z|UTC|[+-](?:0\d|1[0-8])(?::?[0-5]\d)?)?)?",
    re.ASCII,
)
_EXACT = Context(
    prec=38, Emin=MIN_EMIN, Emax=MAX_EMAX, traps=[Inexact, InvalidOperation, Overflow, Underflow]
)
# What a whole column must look like to be read at once, in the syntax of RE2.
_WHOLE_NUMBER = r"\A[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?\z"
_WHOLE_ZERO = r"\A[+-]?[0.]+(?:[eE][+-]?\d+)?\z"
_WHOLE_DAY = r"\A\d{4}-\d\d-\d\d\z"
_WHOLE_TIME = r"\A\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:\.\d{1,6})?"
_DAYS = (str(date.min), str(date.max))  # the first and the last that Python knows
_TIMES = (str(datetime.min), str(datetime.max))

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # type: ignore[no-untyped-call]


@dataclass(frozen=True)
class Field:
    """A column that texts are read into.

    Args:
        arrow: the column's type as Arrow has it.
        is_required: whether the column is NOT NULL.
    """

    name: str
    kind: DataType
    arrow: pa.DataType
    is_required: bool = False


class Misfit(ValueError):
    """A value that a column does not take.

    Args:
        why: a sentence about the value.
        path: where the value is in the row.
    """

    def __init__(self, why: str, path: str = "") -> None:
        self.why = why
        self.path = path
        super().__init__(f"{path}: {why}" if path else why)

    @classmethod
    def of(cls, written: str, kind: DataType) -> "Misfit":
        """The misfit of a value that is no value of a type.

        Args:
            written: the value, as it is written.
            kind: the type.
        """
        return cls(f"{shown(written, _SHOWN)} is no {kind.simpleString()}")

    def below(self, step: str) -> "Misfit":
        """The same misfit, with a step before its path.

        Args:
            step: the field or element that holds the value, such as "name" or "[0]".
        """
        join = "." if self.path and not self.path.startswith("[") else ""
        return Misfit(self.why, f"{step}{join}{self.path}")


def is_readable(kind: DataType) -> bool:
    """Whether texts can be values of a type. A type with elements or fields has no such texts."""
    return isinstance(kind, _ATOMS)


def text_reader(kind: DataType, zone: tzinfo) -> Reader:
    """Return the function that reads a text as a value of a type, or raises one of `NO_VALUE`.

    Args:
        zone: the zone of a timestamp that names none.
    """
    match kind:
        case StringType():
            return checked_text
        case BooleanType():
            return _boolean
        case ByteType() | ShortType() | IntegerType() | LongType():
            most = 1 << _BITS[type(kind)] - 1
            return lambda text: _integer(text, most)
        case FloatType():
            return _single
        case DoubleType():
            return _double
        case DecimalType():
            least = Decimal(1).scaleb(-kind.scale)
            return lambda text: _decimal(text, least, kind.precision - kind.scale)
        case DateType():
            return _date
        case TimestampType():
            return lambda text: _timestamp(text, zone)
        case TimestampNTZType():
            return _local_timestamp
    raise TypeError(f"no text is a {kind.simpleString()}")


def checked_text(text: str) -> str:
    """The text itself.

    Raises:
        UnicodeEncodeError: the text has half of a surrogate pair, which JSON can write and is no character.
    """
    if not text.isascii():
        text.encode()
    return text


def has_digits(text: str) -> bool:
    """Whether a text is neither NaN nor infinite."""
    return _NOT_FINITE.fullmatch(text) is None


def _boolean(text: str) -> bool:
    found = _BOOLEANS.get(text.lower())
    if found is None:
        raise ValueError(text)
    return found


def _integer(text: str, most: int) -> int:
    if not _INTEGER.fullmatch(text) or not -most <= (value := int(text)) < most:
        raise ValueError(text)
    return value


def _double(text: str, read: Callable[[str], float] = float) -> float:
    if _NOT_FINITE.fullmatch(text):
        return float(text)
    written = _NUMBER.fullmatch(text)
    if not written:
        raise ValueError(text)
    value = read(text)
    if value in (float("inf"), float("-inf")) or (value == 0 and written[1].strip("0.")):
        raise ValueError(text)  # beyond the type's largest or below its smallest number
    return value


def _single(text: str) -> float:
    # By way of a double some would be rounded twice.
    return _double(text, lambda digits: pc.cast(pa.scalar(digits.removeprefix("+")), pa.float32()).as_py())


def _decimal(text: str, least: Decimal, digits: int) -> Decimal:
    if not _NUMBER.fullmatch(text):
        raise ValueError(text)
    value = _EXACT.create_decimal(text)
    if value and value.adjusted() >= digits:  # asked first, as 1e20000000 has as many digits
        raise ValueError(text)
    return value.quantize(least, context=_EXACT)


def _date(text: str) -> date:
    if not _DATE.fullmatch(text):
        raise ValueError(text)
    return date.fromisoformat(text)


def _timestamp(text: str, zone: tzinfo) -> datetime:
    local, given = _parts(text)
    return local.replace(tzinfo=_offset(given) if given else zone).astimezone(UTC)


def _local_timestamp(text: str) -> datetime:
    local, given = _parts(text)
    if given:
        raise ValueError(text)
    return local


def _parts(text: str) -> tuple[datetime, str | None]:
    """The time that a timestamp names, and its zone."""
    found = _TIMESTAMP.fullmatch(text)
    if not found:
        raise ValueError(text)
    time = f"{found['day']}T{found['minute'] or '00:00'}:{found['second'] or '00'}"
    micros = int((found["fraction"] or "0").ljust(6, "0"))
    return datetime.fromisoformat(time).replace(microsecond=micros), found["zone"]


def _offset(zone: str) -> tzinfo:
    if zone in ("Z", "UTC"):
        return UTC
    ahead = timedelta(hours=int(zone[1:3]), minutes=int(zone[3:].strip(":") or 0))
    return timezone(-ahead if zone[0] == "-" else ahead)


def few_texts(*texts: str) -> pa.Array:
    """An array of a few texts, made without pandas."""
    data = [text.encode() for text in texts]
    ends = struct.pack(f"={len(data) + 1}i", *accumulate(map(len, data), initial=0))
    return pa.StringArray.from_buffers(len(data), pa.py_buffer(ends), pa.py_buffer(b"".join(data)))


def lines_of(texts: pa.Array) -> pa.Buffer:
    """The bytes of texts, one a line."""
    whole = pa.ListArray.from_arrays(few_texts("0", str(len(texts))).cast(pa.int32()), texts)
    return pc.binary_join(whole, few_texts("\n")[0])[0].as_buffer()


def read_at_once(texts: pa.Array, field: Field, zone: tzinfo) -> pa.Array | None:
    """A column of texts as values, as `text_reader` would read each; None where a value may differ.

    Args:
        texts: the texts; nulls among them stay.
        zone: see `text_reader`.
    """
    try:
        return _at_once(texts, field.kind, field.arrow, zone)
    except pa.ArrowException:
        return None


def _at_once(texts: pa.Array, kind: DataType, arrow: pa.DataType, zone: tzinfo) -> pa.Array | None:
    match kind:
        case StringType():
            return texts
        case BooleanType():
            return texts.cast(arrow) if _all_fit(texts, r"\A(?:true|false)\z") else None
        case ByteType() | ShortType() | IntegerType() | LongType():
            return texts.cast(arrow) if _all_fit(texts, r"\A-?\d+\z") else None
        case FloatType() | DoubleType():
            return _floats(texts, arrow) if _all_fit(texts, _WHOLE_NUMBER) else None
        case DecimalType():
            return texts.cast(arrow) if _all_fit(texts, r"\A[+-]?\d+(?:\.\d+)?\z") else None
        case DateType():
            days = texts.cast(arrow) if _all_fit(texts, _WHOLE_DAY) else None
            return days if days is not None and _are_within(days, few_texts(*_DAYS).cast(arrow)) else None
        case TimestampType() | TimestampNTZType():
            return _times(texts, arrow, zone)
    return None


def _all_fit(texts: pa.Array, pattern: str) -> bool:
    return pc.all(pc.match_substring_regex(texts, pattern)).as_py() is not False


def _floats(texts: pa.Array, arrow: pa.DataType) -> pa.Array | None:
    values = texts.cast(arrow)
    zeros = texts.filter(pc.equal(values, few_texts("0").cast(arrow)[0]))
    finite = pc.all(pc.is_finite(values)).as_py() is not False
    return values if finite and _all_fit(zeros, _WHOLE_ZERO) else None


def _times(texts: pa.Array, arrow: pa.DataType, zone: tzinfo) -> pa.Array | None:
    if arrow.tz is not None and _all_fit(texts, rf"{_WHOLE_TIME}(?:Z|[+-](?:0\d|1[0-4]):[0-5]\d)\z"):
        values = texts.cast(arrow)
    elif (arrow.tz is None or zone == UTC) and _all_fit(texts, rf"{_WHOLE_TIME}\z"):
        values = texts.cast(pa.timestamp("us")).cast(arrow)
    else:
        return None
    return values if _are_within(values, few_texts(*_TIMES).cast(pa.timestamp("us")).cast(arrow)) else None


def _are_within(values: pa.Array, bounds: pa.Array) -> bool:
    first, last = bounds
    within = pc.and_(pc.greater_equal(values, first), pc.less_equal(values, last))
    return pc.all(within).as_py() is not False
