"""The columns of each Parquet file, and the columns of all files together.

The columns of all files do not depend on which files a batch takes. The files that are looked into together
when a column first occurs decide on its type, which is the widest of theirs. Values of a later file are
widened to this type where that changes none; a file of other types is left out, with the reason.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import pyarrow.parquet as pq
from pyarrow import ArrowException, NativeFile
from pyspark.errors import (
    AnalysisException,
    ArithmeticException,
    IllegalArgumentException,
    PySparkException,
    UnsupportedOperationException,
)
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, DecimalType, MapType, StructField, StructType

from acker.core.quoting import sql_name
from acker.spark.streams import can_hold
from acker.spark.trees import union_of
from acker.spouts.files.footers import unreadable
from acker.spouts.files.listing import read_each
from acker.spouts.files.reading import read_files

_BLOCK_BYTES = 1 << 20
_ENCRYPTED = b"PARE"  # the last bytes of a file whose footer is encrypted as well
_DIGITS = {"byte": 3, "short": 5, "integer": 10, "long": 20}
_WIDER = {  # -> the types that hold all of its values as they are
    "byte": ("short", "integer", "long", "double"),
    "short": ("integer", "long", "double"),
    "integer": ("long", "double"),
    "float": ("double",),
}
_REFUSES = (  # of a schema
    AnalysisException,
    ArithmeticException,
    IllegalArgumentException,
    UnsupportedOperationException,
)
_POSITION = ("_source_partition", "_source_offset")


@dataclass(frozen=True)
class Footer:
    """The facts that the footer of a Parquet file tells.

    Args:
        rows: the number of rows in the file.
        schema: a text that is the same for files with the same columns.
        nulls: the columns that have no type, as they hold nothing.
        why: the reason why the file is left out; None where it is read.
    """

    rows: int = 0
    schema: str = ""
    nulls: tuple[str, ...] = ()
    why: str | None = None


def footers(folder: str, paths: Sequence[str]) -> dict[str, Footer]:
    """Path -> the footer of the file, for each file that can be read now.

    Args:
        folder: path or URI.

    Raises:
        SourceError: none of the files can be read, and some are there.
    """

    def footer(source: NativeFile, _path: str) -> Footer:
        size = source.size()
        tail = source.read_at(8, max(0, size - 8))
        if tail.endswith(_ENCRYPTED):
            return Footer(why="encrypted")
        length = int.from_bytes(tail[:4], "little")
        last = source.read_at(length, max(0, size - 8 - length))
        try:
            return _footer(pq.read_metadata(source), unreadable(last))
        except (ArrowException, OSError, ValueError) as error:
            return Footer(why=f"that are no Parquet: {str(error).splitlines()[0].rstrip('.')}")

    return read_each(folder, paths, footer)


def decoded(folder: str, paths: Sequence[str]) -> dict[str, str | None]:
    """Path -> the reason why the file cannot be decoded, or None, for each file whose bytes can be read now.

    Args:
        folder: path or URI.

    Raises:
        SourceError: the bytes of none of the files can be read, and some files are there.
    """

    def why(source: NativeFile, _path: str) -> str | None:
        while source.read(_BLOCK_BYTES):  # which a disk or a network may refuse
            pass
        source.seek(0)
        try:
            for _ in pq.ParquetFile(source).iter_batches():
                pass
        except (ArrowException, OSError, ValueError) as error:
            return str(error).splitlines()[0].rstrip(".")
        return None

    return read_each(folder, paths, why)


def _footer(found: pq.FileMetaData, why: str | None) -> Footer:
    columns = [found.schema.column(number) for number in range(found.num_columns)]
    if not columns:
        return Footer(why="without columns")
    if why is not None:
        return Footer(why=why)
    nulls = tuple(
        each.name for each in columns if each.path == each.name and each.logical_type.type == "UNKNOWN"
    )
    told = (found.metadata or {}).get(b"org.apache.spark.sql.parquet.row.metadata", b"")
    rows = sum(found.row_group(number).num_rows for number in range(found.num_row_groups))  # as Spark counts
    return Footer(rows, f"{found.schema} {told!r}", nulls)


def unite(
    spark: SparkSession, root: str, found: Mapping[str, Footer], before: StructType | None
) -> tuple[StructType, dict[str, str]]:
    """The columns of all files, and path -> the reason of each new file that is left out.

    Args:
        root: path or URI of the folder.
        found: the footers of new files, in their order.
        before: the columns of the files that were planned before.
    """
    columns = before or StructType([])
    fixed = {name.lower() for name in columns.names}
    known: dict[str, str | None] = {}
    why: dict[str, str] = {}
    for path, footer in found.items():
        if footer.why is None and footer.schema not in known:
            own = _schema(spark, root, path, footer.nulls)
            try:
                columns = united(columns, own, fixed) if isinstance(own, StructType) else columns
                known[footer.schema] = None if isinstance(own, StructType) else own
            except OtherTypeError as error:
                known[footer.schema] = str(error)
        reason = footer.why or known[footer.schema]
        if reason:
            why[path] = reason
    return columns, why


def _schema(spark: SparkSession, root: str, path: str, nulls: tuple[str, ...]) -> StructType | str:
    """The columns of a file, or why no stream can have them."""
    try:
        found = read_files(spark, "parquet", root, {path: ""}, {}).drop(*_POSITION).schema
    except PySparkException as error:
        condition = error.getCondition() or ""
        if not isinstance(error, _REFUSES) and "FOOTER" not in condition and "TYPE" not in condition:
            raise
        return f"that Spark refuses: {str(error).splitlines()[0].split(' SQLSTATE')[0].rstrip('. ')}"
    fields = [field for field in found.fields if field.name not in nulls]
    names = [field.name.lower() for field in fields]
    twice = sorted(field.name for field in fields if names.count(field.name.lower()) > 1)
    if twice:
        return f"whose columns {', '.join(twice)} have one name, as Spark sees it"
    reserved = [
        field.name for field in fields if field.name.startswith("_") or field.name.lower() == "anchor"
    ]
    if reserved:
        return f"whose columns {', '.join(reserved)} have reserved names"
    unfit = next((field for field in fields if not can_hold(field)), None)
    if unfit is not None:
        return f"whose column {unfit.name!r} of type {unfit.dataType.simpleString()} no stream can have"
    return StructType(fields) if fields else "without columns"


class OtherTypeError(Exception):
    """A file has a column in a type whose values do not all fit into the type that the column has so far."""


def united(columns: StructType, more: StructType, fixed: Iterable[str]) -> StructType:
    """All columns of two schemas. A column of both has the wider of its two types.

    Args:
        fixed: names of columns, in lower case, which keep the types that they have in `columns`.

    Raises:
        OtherTypeError: neither type, or not the fixed one, has all values of the other.
    """
    others = {field.name.lower(): field for field in more.fields}
    found = []
    for field in columns.fields:
        other = others.pop(field.name.lower(), None)
        kind = field.dataType
        if other is not None:
            kind = _type_of_both(field.name, kind, other.dataType, field.name.lower() in fixed)
        found.append(StructField(field.name, kind))
    return StructType([*found, *(StructField(each.name, each.dataType) for each in others.values())])


def _type_of_both(name: str, kind: DataType, other: DataType, is_fixed: bool) -> DataType:
    if isinstance(kind, StructType) and isinstance(other, StructType):
        return united(kind, other, {each.lower() for each in kind.names} if is_fixed else ())
    if isinstance(kind, ArrayType) and isinstance(other, ArrayType):
        return ArrayType(_type_of_both(name, kind.elementType, other.elementType, is_fixed))
    if isinstance(kind, MapType) and isinstance(other, MapType):
        keys = _type_of_both(name, kind.keyType, other.keyType, is_fixed)
        return MapType(keys, _type_of_both(name, kind.valueType, other.valueType, is_fixed))
    if kind.simpleString() == other.simpleString() or _holds(kind, other):
        return kind
    if not is_fixed and _holds(other, kind):
        return other
    raise OtherTypeError(
        f"whose column {name} is {other.simpleString()}, and that of files before them {kind.simpleString()}"
    )


def _holds(wide: DataType, kind: DataType) -> bool:
    """Whether a type has all values of another as they are."""
    if isinstance(wide, DecimalType) and isinstance(kind, DecimalType):
        return wide.scale >= kind.scale and wide.precision - wide.scale >= kind.precision - kind.scale
    if isinstance(wide, DecimalType) and kind.typeName() in _DIGITS:
        return wide.precision - wide.scale >= _DIGITS[kind.typeName()]
    return wide.typeName() in _WIDER.get(kind.typeName(), ())


def parquet_rows(
    spark: SparkSession, root: str, nulls: Mapping[str, Sequence[str]], columns: StructType
) -> DataFrame:
    """The rows of Parquet files, as of `read_files`, with the same columns whatever each file has.

    Args:
        nulls: path of a file -> its columns that have no type.
        columns: the columns to read; a file that lacks one has null there.
    """
    groups: dict[tuple[str, ...], list[str]] = {}
    for path, names in nulls.items():
        untyped = {name.lower() for name in names}
        left = tuple(name for name in columns.names if name.lower() in untyped)
        groups.setdefault(left, []).append(path)
    frames = []
    for left, paths in groups.items():
        schema = StructType([field for field in columns.fields if field.name not in left])
        rows = read_files(spark, "parquet", root, dict.fromkeys(paths, ""), {}, schema)
        frames.append(rows.select(*_POSITION, *(_column(field, left) for field in columns.fields)))
    return union_of(frames)


def _column(field: StructField, untyped: Sequence[str]) -> Column:
    read = F.lit(None).cast(field.dataType) if field.name in untyped else F.col(sql_name(field.name))
    return read.alias(field.name)
