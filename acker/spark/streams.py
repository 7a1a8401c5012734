"""Streams as Spark has them: the rows of some batches, which columns are the user's, and a batch's write.

Spark reads and writes Parquet files. The table's log says which files are a stream's; the client reads the
log and commits to it (`acker/core/store/commits.py`). So a read makes Spark look for no file, and a write is
one job.
"""

from collections.abc import Sequence

from deltalake import DeltaTable, Schema
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, DecimalType, MapType, StructField, StructType

from acker.core.errors import BoltError, SourceError
from acker.core.quoting import sql_name
from acker.core.snapshot.snapshot import Snapshot
from acker.core.snapshot.streams import Rows
from acker.core.store.commits import WIDER, batch_folder, commit_batch, files_below
from acker.core.store.schemas import is_tuple, stream
from acker.core.store.store import Store
from acker.spark.columns import bound_literal
from acker.spark.delta import read_files, schema_of

_ATOMS = (
    *("boolean", "byte", "short", "integer", "long", "float", "double", "decimal", "binary", "date"),
    *("timestamp", "timestamp_ntz"),
)
_TEXTS = ("string", "char", "varchar")  # of any length and collation
CAST = "cast it, or give the column a new name"  # what a bolt's author can do

_NOT_IN_A_NAME = frozenset(" ,;{}()\n\t=")


def rows(spark: SparkSession, snapshot: Snapshot, component: str, batches: Sequence[int]) -> DataFrame:
    """Rows of some batches of a component's streams, with Spark's `_metadata` unless there are none."""
    found = Rows.of(snapshot, component, batches)
    frame = read_files(spark, snapshot.require(stream(component)), found.files)
    if found.batches is None:
        return frame
    mine = spark.createDataFrame(found.batches.to_frame().to_arrow())
    return frame.join(F.broadcast(mine), frame["_batch"] == mine["_batch"], "leftsemi")


def tuples(spark: SparkSession, snapshot: Snapshot, name: str, batches: Sequence[int]) -> DataFrame:
    """Tuples of some batches of a stream, with all columns of its table."""
    frame = rows(spark, snapshot, name, batches)
    return frame.where(is_tuple(name, frame.columns))


def user_columns(frame: DataFrame) -> list[str]:
    """A stream's columns without those that the system keeps."""
    return [column for column in frame.columns if not column.startswith("_")]


def stamped(
    frame: DataFrame, table: DeltaTable | None, component: str, batch: int, way: str = CAST
) -> DataFrame:
    """Rows as they are to lie in the stream of a component, with the number of their batch.

    Args:
        table: the stream's table; None where there is none yet.
        way: the advice of the error about a column that the stream has in another type.

    Raises:
        BoltError: the stream cannot hold a column.
    """
    there = {field.name.lower(): field for field in schema_of(table).fields} if table else {}
    columns = [_column(component, field, there.get(field.name.lower()), way) for field in frame.schema.fields]
    return frame.select(bound_literal(batch, "_root_id", "bigint").alias("_batch"), *columns)


class CountDiffers(SourceError):
    """A source returned another number of messages than the plan of its batch has."""


def append(frame: DataFrame, store: Store, component: str, batch: int, planned: int | None = None) -> None:
    """Append the stamped rows of a batch to the stream of a component, once, however often it is called.

    Args:
        planned: how many rows the batch has by its plan; None where the plan does not say.

    Raises:
        PySparkException: the rows could not be made or written.
        CountDiffers: the rows are fewer or more than planned, and nothing was committed.
        StoreError: the rows could not be committed.
    """
    path, folder = store.path(stream(component)), batch_folder(batch)
    writer = frame.write.option("mapreduce.fileoutputcommitter.marksuccessfuljobs", "false")
    writer.parquet(f"{path}/{folder}")
    files = files_below(path, folder)
    found = sum(file.rows for file in files)
    if planned not in (None, found):
        raise CountDiffers(
            f"Batch {batch} of {component} has {planned:,} messages by its plan, and {found:,} were read; "
            "none of them was taken in. Look whether somebody writes to the source while it is read.",
            component=component,
            batch=batch,
        )
    commit_batch(path, files, Schema.from_json(frame.schema.toNullable().json()), component, batch)


def _column(component: str, field: StructField, there: StructField | None, way: str) -> Column:
    """A column under the name and in the type that the stream has for it.

    Args:
        field: the column as a component emits it.
        there: the stream's column of this name; None where there is none yet.
        way: see `stamped`.

    Raises:
        BoltError: the stream cannot hold the column.
    """
    unfit = _NOT_IN_A_NAME.intersection(field.name)
    if unfit:
        raise BoltError(
            f"{component} emits a column {field.name!r}: the name of a stream's column has no space and none "
            "of , ; { } ( ) = in it; rename it.",
            component=component,
        )
    kind = field.dataType
    if there is not None and not _fits(kind, there.dataType) and not _widens(there.dataType, kind):
        if not _is_wider(there.dataType, kind):
            raise BoltError(
                f"{component} emits {field.name} as {kind.simpleString()}, but its stream has it as "
                f"{there.dataType.simpleString()}: {way}.",
                component=component,
            )
        kind = there.dataType
    name = there.name if there else field.name
    return F.col(sql_name(field.name)).cast(_ddl(component, kind)).alias(name, metadata={})


def can_hold(field: StructField) -> bool:
    """Whether a stream can have a column of this name and type."""
    try:
        _ddl("", field.dataType)
    except BoltError:
        return False
    return not _NOT_IN_A_NAME.intersection(field.name)


def _fits(kind: DataType, there: DataType) -> bool:
    """Whether values of a type can lie in a column of another type as they are.

    Of a struct each type may lack fields of the other.

    Args:
        kind: the type of the values.
        there: the type of the column.
    """
    if isinstance(kind, StructType) and isinstance(there, StructType):
        known = {field.name: field.dataType for field in there.fields}
        return all(_fits(each.dataType, known.get(each.name, each.dataType)) for each in kind.fields)
    if isinstance(kind, ArrayType) and isinstance(there, ArrayType):
        return _fits(kind.elementType, there.elementType)
    if isinstance(kind, MapType) and isinstance(there, MapType):
        return _fits(kind.keyType, there.keyType) and _fits(kind.valueType, there.valueType)
    return (_is_text(kind) and _is_text(there)) or kind.simpleString() == there.simpleString()


def _is_wider(wide: DataType, kind: DataType) -> bool:
    """Whether a type holds all values of another."""
    if isinstance(wide, DecimalType) and isinstance(kind, DecimalType):
        return wide.scale >= kind.scale and wide.precision - wide.scale >= kind.precision - kind.scale
    return _widens(kind, wide)


def _widens(narrow: DataType, wide: DataType) -> bool:
    """Whether a column of the type `narrow` can be widened to the type `wide`."""
    return wide.typeName() in WIDER.get(narrow.typeName(), ())


def _is_text(kind: DataType) -> bool:
    return kind.typeName() in _TEXTS


def _ddl(component: str, kind: DataType) -> str:
    """A type in SQL, whatever its fields are called.

    Raises:
        BoltError: streams hold no column of this type.
    """
    if isinstance(kind, StructType):
        fields = (f"{sql_name(each.name)}: {_ddl(component, each.dataType)}" for each in kind.fields)
        return f"struct<{', '.join(fields)}>"
    if isinstance(kind, ArrayType):
        return f"array<{_ddl(component, kind.elementType)}>"
    if isinstance(kind, MapType):
        return f"map<{_ddl(component, kind.keyType)}, {_ddl(component, kind.valueType)}>"
    if _is_text(kind):
        # Spark Connect gives what Python functions return a collation that is the default but is spelt out,
        # and that `deltalake` cannot read.
        return "string"
    if kind.typeName() not in _ATOMS:
        raise BoltError(
            f"{component} emits a column of type {kind.simpleString()}, which streams cannot hold: cast it, "
            "or turn it into text in the source or in the bolt.",
            component=component,
        )
    return kind.simpleString()
