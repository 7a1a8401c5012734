"""Values as text for whoever reads them outside: columns as a JSON object, the same wherever it is made.

The JSON is Spark's own, but for the parts that Spark would lose or make up: times have all their
microseconds, and the keys of a map are their values as text.
"""

from collections.abc import Sequence

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from acker.core.quoting import sql_name

_TO_THE_SECOND = "yyyy-MM-dd'T'HH:mm:ss"
_NESTED = (StructType, ArrayType, MapType)


def as_json(fields: Sequence[StructField]) -> Column:
    """The columns of a frame as one JSON object. A column that is null is in it as null.

    A value that is no number in JSON, such as NaN, is text in it.
    """
    values = (_plain(F.col(sql_name(each.name)), each.dataType).alias(each.name) for each in fields)
    return _to_json(F.struct(*values))


def as_text(column: Column, kind: DataType) -> Column:
    """A column as text, a nested one as JSON; bytes stay as they are."""
    if isinstance(kind, _NESTED):
        return _to_json(_plain(column, kind))
    return column if isinstance(kind, BinaryType) else column.cast("string")


def _to_json(column: Column) -> Column:
    return F.to_json(column, {"ignoreNullFields": "false"})


def _plain(column: Column, kind: DataType) -> Column:
    """A column in a form that Spark writes as JSON without a loss.

    Args:
        kind: the type of the column.
    """
    if not _is_told_in_part(kind):
        return column
    if isinstance(kind, TimestampType | TimestampNTZType):
        return _time(column, "XXX" if isinstance(kind, TimestampType) else "")
    if isinstance(kind, ArrayType):
        return F.transform(column, lambda each: _plain(each, kind.elementType))
    if isinstance(kind, MapType):
        named = F.transform_keys(column, lambda key, _: _name(key, kind.keyType))
        return F.transform_values(named, lambda _, value: _plain(value, kind.valueType))
    assert isinstance(kind, StructType)
    values = (_plain(column.getField(each.name), each.dataType).alias(each.name) for each in kind.fields)
    return F.when(column.isNotNull(), F.struct(*values))


def _is_told_in_part(kind: DataType) -> bool:
    if isinstance(kind, StructType):
        return any(_is_told_in_part(each.dataType) for each in kind.fields)
    if isinstance(kind, ArrayType):
        return _is_told_in_part(kind.elementType)
    if isinstance(kind, MapType):
        return not isinstance(kind.keyType, StringType) or _is_told_in_part(kind.valueType)
    return isinstance(kind, TimestampType | TimestampNTZType)


def _time(column: Column, zone: str) -> Column:
    """A time as text: with milliseconds, as Spark's JSON has it, or with microseconds where it has some.

    Args:
        zone: the pattern for the offset from UTC, which ends the text; empty for a time without a zone.
    """
    milliseconds, microseconds = (
        F.date_format(column, f"{_TO_THE_SECOND}.{fraction}{zone}") for fraction in ("SSS", "SSSSSS")
    )
    return F.when(F.date_format(column, "SSSSSS").endswith("000"), milliseconds).otherwise(microseconds)


def _name(key: Column, kind: DataType) -> Column:
    """The key of a map as a name in JSON: the text that JSON has for such a value, without quotes."""
    if isinstance(kind, BinaryType):
        return F.replace(F.replace(F.base64(key), F.lit("\r"), F.lit("")), F.lit("\n"), F.lit(""))
    if isinstance(kind, TimestampType | TimestampNTZType):
        return _plain(key, kind)
    return as_text(key, kind)
