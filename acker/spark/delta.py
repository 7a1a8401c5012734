"""Delta tables as Spark has them: the published tables, and those that are read beside them.

The files of tables that `deltalake` writes are read here too.
"""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from deltalake import DeltaTable
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from acker.core.errors import StoreError
from acker.core.paths import without_pattern
from acker.core.store.tables import last_number, open_table


def read(spark: SparkSession, path: str) -> DataFrame:
    """The Delta table at a path or URI, as it stands."""
    return spark.read.format("delta").load(path)


def schema_of(table: DeltaTable) -> StructType:
    """The columns of a table as Spark has them."""
    return StructType.fromJson(json.loads(table.schema().to_json()))


def read_files(spark: SparkSession, table: DeltaTable, files: Sequence[str]) -> DataFrame:
    """Rows of some files of a table that `deltalake` writes.

    Spark reads the files as Parquet files, and so reads no log and looks for no file. The caller must not
    need the columns by which the table is partitioned.
    """
    schema = schema_of(table)
    if not files:
        return spark.createDataFrame([], schema)
    return spark.read.format("parquet").schema(schema).load([*map(without_pattern, files)])


def append(frame: DataFrame, path: str, app: str, number: int, options: dict[str, str] | None = None) -> None:
    """Append `frame` in one commit that happens once per (app, number), however often it is called.

    Delta skips a number that is not above the app's last one, and raises no error. So the rows of a number
    may be those of another caller. A caller that may have raced with another reads back the rows.

    Args:
        options: options of the Delta writer.

    Raises:
        PySparkException: the rows could not be written, and the table does not have the number.
        StoreError: the table does not have the number although the rows were written.
    """
    writer = frame.write.format("delta").mode("append").option("txnAppId", app).option("txnVersion", number)
    for key, value in (options or {}).items():
        writer = writer.option(key, value)
    try:
        writer.save(path)
    except PySparkException:
        # Another client that commits the same number, or makes the table, at the same time has done the work.
        if last_number(open_table(path), app) < number:
            raise
    table = open_table(path)
    if table is None or last_number(table, app) < number:
        raise StoreError(
            f"The commit {app} {number} is not in {path} although it was written. "
            "If the table was replaced or restored meanwhile, run the command again.",
            table=path,
        )


def with_nulls_of(table: DeltaTable, rows: DataFrame) -> DataFrame:
    """Rows with nested fields that may be null where those of a table may; a MERGE asks that of its source.

    No cast of Spark's declares nested fields so. Rows that need another declaration go through Python, which
    does not change their values.
    """
    there = {field.name.lower(): field.dataType for field in schema_of(table).fields}
    wanted = StructType()
    for field in rows.schema.fields:
        kind = there.get(field.name.lower(), field.dataType)
        is_alike = kind.simpleString() == field.dataType.simpleString()
        wanted.add(field.name, kind if is_alike else field.dataType, field.nullable)
    is_same = [each.dataType for each in wanted] == [each.dataType for each in rows.schema]
    return rows if is_same else rows.mapInArrow(lambda batches: batches, wanted)


_EXACT = {
    # A sum of 38 digits would be rounded to one place less.
    "spark.sql.decimalOperations.allowPrecisionLoss": "false",
    # Texts of CHAR would be read longer than they are stored, and a MERGE into their table not be resolved.
    "spark.sql.readSideCharPadding": "false",
}


@contextmanager
def exact(spark: SparkSession) -> Iterator[None]:
    """Let Spark take values as they are stored, and add them without a loss of digits, in the block."""
    before = {key: spark.conf.get(key, None) for key in _EXACT}
    for key, value in _EXACT.items():
        spark.conf.set(key, value)
    try:
        yield
    finally:
        for key, former in before.items():
            if former is None:
                spark.conf.unset(key)
            else:
                spark.conf.set(key, former)
