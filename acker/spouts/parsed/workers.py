"""Texts as rows, in Spark's Python workers: JSON objects and CSV, read exactly.

Spark's own `from_json` and `from_csv` read the first half of a text, and round or guess values, in more ways
than can be listed. Here a text is the row that was written or fails with a reason, and none stops the others.
"""

import math
import re
import sys
from collections.abc import Iterator, Sequence
from datetime import UTC, timedelta, timezone, tzinfo
from typing import Protocol
from zoneinfo import ZoneInfo

import pyarrow as pa
import pyarrow.compute as pc
from pyspark import cloudpickle
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    ArrayType,
    DataType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

import acker.spark.reasons  # noqa: F401 - a worker is sent the module of reasons
from acker.core.error_messages import message_of
from acker.core.errors import SourceError
from acker.core.reasons import shown
from acker.spouts.parsed.texts import Field, Misfit, is_readable

_SHOWN = 200  # characters of a text that a reason shows
_PARTS, _MOST_PARTED = 10, 3  # slices of texts of which some are odd, and how many are sliced again
_OFFSET = re.compile(r"(?:UTC|GMT)?([+-])(\d\d?)(?::?(\d\d))?")

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # type: ignore[no-untyped-call]


class Parser(Protocol):
    """Reads texts of one form."""

    form: str
    is_slow: bool  # text by text, beside at once
    fields: Sequence[Field]

    def at_once(self, texts: pa.Array) -> list[pa.Array] | None:
        """The columns of all texts; None where one of the texts may be bad, or give other values alone."""

    def one_by_one(self, texts: Sequence[str]) -> tuple[list[pa.Array], list[Misfit | None]]:
        """The columns, and the misfit of each text or None; the values of a bad text do not count."""


def columns_of(spark: SparkSession, ddl: str) -> StructType:
    """The columns of a schema that a user gives for JSON or CSV, those NOT NULL as such.

    Raises:
        SourceError: the text is no schema, or a field within a column is NOT NULL.
    """
    try:
        schema: StructType = spark.createDataFrame([], ddl).schema
    except AnalysisException as error:
        why = message_of(error).rstrip(". ")
        raise SourceError(f"The schema {ddl!r} cannot be read: {why}. Mend it.") from error
    for field in schema.fields:
        if _has_required(field.dataType):
            raise SourceError(
                f"The schema {ddl!r} has a field within {field.name} that is NOT NULL, which only a column "
                "can be: leave it out there."
            )
    return schema


def fields_of(schema: StructType, nested: bool) -> list[Field]:
    """The fields that a parser is given.

    Args:
        nested: whether the form has nested values.

    Raises:
        SourceError: a field is of a type that cannot be read from text.
    """
    for field in schema.fields:
        if not _is_readable(field.dataType, nested):
            raise SourceError(
                f"The column {field.name} is {field.dataType.simpleString()}, which cannot be read from text "
                "here: give it another type, such as string."
            )
    arrow = to_arrow_schema(schema, timezone="UTC")
    return [
        Field(field.name, field.dataType, arrow.field(field.name).type, not field.nullable)
        for field in schema.fields
    ]


def zone_of(spark: SparkSession, schema: StructType) -> tzinfo:
    """The zone of timestamps that name none: the session's.

    Raises:
        SourceError: Python does not know the session's zone.
    """
    if not _has_times(schema):
        return UTC
    name = spark.conf.get("spark.sql.session.timeZone") or "UTC"
    if name in ("UTC", "Z", "GMT", "Etc/UTC"):
        return UTC
    offset = _OFFSET.fullmatch(name)
    if offset:
        ahead = timedelta(hours=int(offset[2]), minutes=int(offset[3] or 0))
        return timezone(-ahead if offset[1] == "-" else ahead)
    try:
        return ZoneInfo(name)
    except (ValueError, OSError) as error:
        raise SourceError(
            f"The session's time zone {name} is none that Python knows: set spark.sql.session.timeZone to a "
            "name such as Europe/Berlin."
        ) from error


def parsed(texts: DataFrame, parser: Parser) -> DataFrame:
    """Rows of texts: `_fields`, a struct of the columns, and `_why`, why a text is bad, or else null.

    Args:
        texts: rows with `value`, a text or null, and columns that stay.
    """
    kept = [field for field in texts.schema.fields if field.name != "value"]
    fields = StructType([StructField(field.name, field.kind) for field in parser.fields])
    schema = StructType([*kept, StructField("_fields", fields), StructField("_why", StringType())])
    return texts.mapInArrow(Rows(parser), schema)


class Rows:
    """Reads batches of texts in a worker, or texts in this process."""

    def __init__(self, parser: Parser) -> None:
        self.parser = parser

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Batches with the columns that `parsed` returns.

        Args:
            batches: batches with the columns of the texts that `parsed` is given.
        """
        for batch in batches:
            names = [name for name in batch.schema.names if name != "value"]
            fields, why = self._rows(batch.column("value"))
            columns = [*(batch.column(name) for name in names), fields, why]
            yield pa.RecordBatch.from_arrays(columns, [*names, "_fields", "_why"])

    def _rows(self, texts: pa.Array) -> tuple[pa.Array, pa.Array]:
        there = texts.is_valid()
        found, why = self.found(texts.drop_null())
        if texts.null_count == 0:
            return found, why
        at = pc.if_else(there, pc.subtract(pc.cumulative_sum(there.cast(pa.int64())), 1), None)
        return found.take(at), why.take(at)

    def found(self, texts: pa.Array) -> tuple[pa.Array, pa.Array]:
        """The rows of texts, and for each text the reason why it is bad, or null.

        Args:
            texts: the texts, none of which is null.
        """
        if len(texts) == 0:
            within = pa.struct([(field.name, field.arrow) for field in self.parser.fields])
            return pa.nulls(0, within), pa.nulls(0, pa.string())
        read, whys = zip(*self._slices(texts), strict=True)
        return pa.concat_arrays(read), pa.concat_arrays(whys)

    def _slices(self, texts: pa.Array) -> Iterator[tuple[pa.StructArray, pa.Array]]:
        """The result of `found`, in slices of the texts.

        A slice with a text that may be bad is read text by text, any other slice at once. There are several
        slices only where a text may be bad and the parser is slow text by text.
        """
        columns = self._at_once(texts)
        if columns is not None or not self.parser.is_slow:
            yield self._read(texts, columns)
            return
        left = _MOST_PARTED
        for part in _parted(texts):
            columns = self._at_once(part)
            if columns is None and left:
                left -= 1
                yield from (self._read(few, self._at_once(few)) for few in _parted(part))
            else:
                yield self._read(part, columns)

    def _at_once(self, texts: pa.Array) -> list[pa.Array] | None:
        try:
            return self.parser.at_once(texts)
        except Exception:  # whatever it is, it is known then which text it comes from
            return None

    def _read(self, texts: pa.Array, columns: list[pa.Array] | None) -> tuple[pa.StructArray, pa.Array]:
        """The rows of texts, and for each text the reason why it is bad, or null.

        Args:
            columns: the columns, where the texts were read at once; None: the texts are read text by text.
        """
        why = pa.nulls(len(texts), pa.string())
        if columns is None:
            lines = texts.to_pylist()
            columns, misfits = self._one_by_one(lines)
            wrong = [
                None if misfit is None else _reason(self.parser.form, line, misfit)
                for line, misfit in zip(lines, misfits, strict=True)
            ]
            why = pa.array(wrong, pa.string())
        why = self._without_required(texts, columns, why)
        fields = [pa.field(field.name, field.arrow) for field in self.parser.fields]
        return pa.StructArray.from_arrays(columns, fields=fields, mask=why.is_valid()), why

    def _without_required(self, texts: pa.Array, columns: list[pa.Array], why: pa.Array) -> pa.Array:
        """For each text the reason why it is bad, or null; null in a NOT NULL column is a reason, too.

        Args:
            columns: the columns that were read.
            why: the reasons that are known already.
        """
        for field, column in zip(self.parser.fields, columns, strict=True):
            if not field.is_required or not column.null_count:
                continue
            misfit = Misfit("null, and it is NOT NULL").below(field.name)
            absent = pc.and_(column.is_null(), why.is_null()).to_pylist()
            told = [
                _reason(self.parser.form, text, misfit) if is_absent else reason
                for is_absent, text, reason in zip(absent, texts.to_pylist(), why.to_pylist(), strict=True)
            ]
            why = pa.array(told, pa.string())
        return why

    def _one_by_one(self, lines: list[str]) -> tuple[list[pa.Array], list[Misfit | None]]:
        """The result of the parser's `one_by_one`; a text that makes it raise is found by halves, and bad."""
        try:
            return self.parser.one_by_one(lines)
        except Exception as error:
            if len(lines) == 1:
                nothing = [pa.nulls(1, field.arrow) for field in self.parser.fields]
                return nothing, [Misfit(f"{type(error).__name__}: {error}")]
        middle = len(lines) // 2
        (first, wrong_first), (last, wrong_last) = map(self._one_by_one, (lines[:middle], lines[middle:]))
        columns = [pa.concat_arrays(both) for both in zip(first, last, strict=True)]
        return columns, [*wrong_first, *wrong_last]


def _parted(texts: pa.Array) -> Iterator[pa.Array]:
    size = math.ceil(len(texts) / _PARTS)
    return (texts.slice(start, size) for start in range(0, len(texts), size))


def _reason(form: str, text: str, misfit: Misfit) -> str:
    told = f"{misfit}: " if str(misfit) else ""
    reason = f"not valid {form} for the schema: {told}{shown(text, _SHOWN)}"
    return reason.encode("utf-8", "backslashreplace").decode()  # a misfit may quote half of a character


def _is_readable(kind: DataType, nested: bool) -> bool:
    match kind:
        case StructType():
            return nested and all(_is_readable(field.dataType, nested) for field in kind.fields)
        case ArrayType():
            return nested and _is_readable(kind.elementType, nested)
        case MapType():
            is_object = isinstance(kind.keyType, StringType)
            return nested and is_object and _is_readable(kind.valueType, nested)
    return is_readable(kind)


def _has_required(kind: DataType) -> bool:
    """Whether a field within a type is NOT NULL."""
    match kind:
        case StructType():
            return any(not field.nullable or _has_required(field.dataType) for field in kind.fields)
        case ArrayType():
            return _has_required(kind.elementType)
        case MapType():
            return _has_required(kind.valueType)
    return False


def _has_times(kind: DataType) -> bool:
    match kind:
        case StructType():
            return any(_has_times(field.dataType) for field in kind.fields)
        case ArrayType():
            return _has_times(kind.elementType)
        case MapType():
            return _has_times(kind.valueType)
    return isinstance(kind, TimestampType)
