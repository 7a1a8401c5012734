"""Python's values of types without elements, on their way into a bolt's columns (see `values`).

For each type: the classes whose values Arrow takes exactly or refuses, and how a value of another class
becomes one of these without a change, if it can.

The module is pickled by value, so a worker needs PySpark and PyArrow and not this project.
"""

import struct
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark import cloudpickle

from acker.core import reasons
from acker.core.reasons import shown

for _module in (reasons, sys.modules[__name__]):
    cloudpickle.register_pickle_by_value(_module)  # type: ignore[no-untyped-call]

MISFITS = (pa.ArrowException, TypeError, ValueError, OverflowError)  # values that a type does not take
NOTHING = type(None)
_MOST_DIGITS = 38  # of a decimal
_LONGEST_QUOTED = 200  # characters of what a bolt has emitted by mistake


def misfit(kind: type[Exception], before: str, values: Any, after: str) -> Exception:
    """An error that quotes the beginning of values that a bolt has emitted.

    Its attribute `told` is the text for a reason. That text also has the next part of the values between
    marks, at which a redaction looks for secrets.

    Args:
        kind: the class of the error.
        before: the text before the quotation.
        after: the text after the quotation.
    """
    text = repr(values)
    error = kind(f"{before} {text[:_LONGEST_QUOTED]}{after}")
    error.told = f"{before} {shown(text, _LONGEST_QUOTED)}{after}"  # type: ignore[attr-defined]
    return error


class Refused(Exception):
    """A value that a type does not take: the value, the type, and where in the column it lies."""

    def __init__(self, value: Any, kind: pa.DataType, path: str = "") -> None:
        self.value, self.kind, self.path = value, kind, path


@dataclass(frozen=True)
class Scalars:
    """The conversion of Python's values for a column of a type without elements.

    Args:
        kind: the type.
        plain: classes of values that Arrow takes exactly, or refuses.
        converted: the function that turns a value of any class into one that Arrow takes exactly; None where
            the type does not take the value.
        are_exact: whether Arrow takes values of these classes exactly, where their class alone does not tell.
    """

    kind: pa.DataType
    plain: frozenset[type]
    converted: Callable[[Any], Any]
    are_exact: Callable[[Sequence[Any]], bool] = lambda values: True

    def are_plain(self, values: Sequence[Any]) -> bool:
        """Whether no value has to be converted, since Arrow takes each one exactly or refuses it."""
        return self.plain.issuperset(map(type, values)) and self.are_exact(values)

    def kept(self, value: Any) -> Any:
        """A value that stays as it is, whatever the bolt changes later."""
        return bytes(value) if isinstance(value, bytearray | memoryview) else value

    def exact(self, value: Any) -> Any:
        """A value in the form that Arrow takes exactly.

        Raises:
            Refused: the type does not take the value.
        """
        if value is None:
            return None
        try:
            found = self.converted(_unwrapped(value))
        except MISFITS:
            found = None
        if found is None:
            raise Refused(value, self.kind)
        return found


def _unwrapped(value: Any) -> Any:
    """Python's value of a scalar of NumPy's or Arrow's, None where it has none; other values as they are."""
    if isinstance(value, pa.Scalar):
        return value.as_py()
    if not is_of(value, "numpy") or not hasattr(value, "dtype") or getattr(value, "ndim", False):
        return value
    kind, unit = value.dtype.kind, value.dtype.name[-4:]
    if kind in "Mm" and unit == "[ns]":
        rounded = value.astype(value.dtype.str[:-4] + "[us]")
        return rounded.item() if rounded == value else None
    found = value.item()
    return None if kind in "Mm" and isinstance(found, int) else found  # past what Python's classes hold


def is_of(value: Any, package: str) -> bool:
    """Whether a value's class is of a package, which need not be installed."""
    return type(value).__module__.partition(".")[0] == package


def _integer(value: Any) -> int | None:
    if isinstance(value, int) and not isinstance(value, bool):
        return int(value)
    if isinstance(value, float):
        return int(value) if value.is_integer() else None
    if isinstance(value, Decimal) and value.is_finite() and value.adjusted() < _MOST_DIGITS:
        return int(value) if value == value.to_integral_value() else None
    return None


def _double(value: Any) -> float | None:
    if isinstance(value, float):
        return float(value)
    if isinstance(value, int | Decimal) and not isinstance(value, bool):
        return float(value) if float(value) == value else None
    return None


def _single(value: Any) -> float | None:
    """A number as a float of 32 bits; None where the type does not take it.

    A float becomes the closest one, but none other than 0 may become 0. An int or a Decimal must stay the
    same number.

    Raises:
        OverflowError: the number is too large.
    """
    double = _double(value)
    if double is None or double != double:
        return double
    rounded: float = struct.unpack("<f", struct.pack("<f", double))[0]  # it raises where it is too large
    if isinstance(value, float):
        return rounded if rounded or not double else None
    return rounded if rounded == value else None


def _are_singles(values: Sequence[Any]) -> bool:
    """Whether no value changes too much as a float of 32 bits.

    No finite number may become infinite, and no number other than 0 may become 0.
    """
    double = pa.array(values, pa.float64())
    single = double.cast(pa.float32())
    same = pc.and_(
        pc.equal(pc.is_inf(double), pc.is_inf(single)), pc.equal(pc.equal(double, 0), pc.equal(single, 0))
    )
    return pc.all(same).as_py() is not False


def _decimal(value: Any) -> Decimal | int | None:
    if isinstance(value, int) and not isinstance(value, bool):
        return int(value)
    if isinstance(value, Decimal) and value.is_finite() and abs(value.adjusted()) <= _MOST_DIGITS:
        return Decimal(value)
    return None


def _are_decimals(values: Sequence[Any]) -> bool:
    """Whether no Decimal among the values has an exponent with which Arrow would take seconds."""
    return all(abs(value.adjusted()) <= _MOST_DIGITS for value in values if type(value) is Decimal)


def _text(value: Any) -> str | None:
    return str.__str__(value) if isinstance(value, str) else None


def _bytes(value: Any) -> bytes | None:
    return bytes(value) if isinstance(value, bytes | bytearray | memoryview) else None


def _date(value: Any) -> date | None:
    if isinstance(value, datetime):
        moment = _moment(value)
        return moment.date() if moment and moment.tzinfo is None and moment.time() == time() else None
    return date(value.year, value.month, value.day) if isinstance(value, date) else None


def _moment(value: Any) -> datetime | None:
    """A value as a datetime of Python's own.

    None where the value is no datetime, or is one of pandas that is finer than a microsecond.
    """
    if not isinstance(value, datetime) or getattr(value, "nanosecond", False):
        return None
    day = value.year, value.month, value.day
    clock = value.hour, value.minute, value.second, value.microsecond
    return datetime(*day, *clock, tzinfo=value.tzinfo, fold=value.fold)


def _instant(value: Any) -> datetime | None:
    moment = _moment(value)
    return moment if moment is None or moment.tzinfo is None else moment.astimezone(UTC)


def _local(value: Any) -> datetime | None:
    moment = _moment(value)
    return None if moment is None or moment.tzinfo is not None else moment


def _are_in_utc(values: Sequence[Any]) -> bool:
    zones = {id(value.tzinfo): value.tzinfo for value in values if value is not None}
    return all(zone is None or zone is UTC or str(zone) == "UTC" for zone in zones.values())


def _are_local(values: Sequence[Any]) -> bool:
    return all(value is None or value.tzinfo is None for value in values)


def _duration(value: Any) -> timedelta | None:
    if not isinstance(value, timedelta) or getattr(value, "nanoseconds", False):
        return None
    return timedelta(value.days, value.seconds, value.microseconds)


def _clock(value: Any) -> time | None:
    return value if isinstance(value, time) and value.tzinfo is None else None


def scalars(kind: pa.DataType) -> Scalars:
    """The conversion of Python's values for a type without elements.

    The conversion for an unknown type takes no value but None.
    """
    ways: list[tuple[Callable[[pa.DataType], bool], tuple[Any, ...]]] = [
        (pa.types.is_boolean, ({bool}, lambda value: value if isinstance(value, bool) else None)),
        (pa.types.is_integer, ({int}, _integer)),
        (pa.types.is_float32, ({float}, _single, _are_singles)),
        (pa.types.is_float64, ({float, int}, _double)),
        (pa.types.is_decimal, ({Decimal, int}, _decimal, _are_decimals)),
        (pa.types.is_string, ({str}, _text)),
        (pa.types.is_binary, ({bytes}, _bytes)),
        (pa.types.is_date, ({date}, _date)),
        (lambda each: pa.types.is_timestamp(each) and each.tz, ({datetime}, _instant, _are_in_utc)),
        (pa.types.is_timestamp, ({datetime}, _local, _are_local)),
        (pa.types.is_duration, ({timedelta}, _duration)),
        (pa.types.is_time, (set(), _clock)),
    ]
    for is_kind, (classes, *how) in ways:
        if is_kind(kind):
            return Scalars(kind, frozenset({*classes, NOTHING}), *how)
    return Scalars(kind, frozenset({NOTHING}), lambda value: None)
