"""The published tables that can take a small append without Spark, which spends three jobs on one.

A table that asks a writer for more than new files is left to Spark: one with rules on values, partitions,
features of Delta, or columns that are new or of another type.
"""

from deltalake import DeltaTable
from pyspark.sql.types import StructType

from acker.spark.delta import schema_of
from acker.targets.nulls import has_not_null

_WRITER = 2  # the highest of Delta's writer versions that needs nothing but what is looked at here
_PROPERTIES = frozenset(  # do not say how rows are written
    {
        "delta.appendOnly",
        "delta.checkpointInterval",
        "delta.dataSkippingNumIndexedCols",
        "delta.deletedFileRetentionDuration",
        "delta.enableExpiredLogCleanup",
        "delta.logRetentionDuration",
    }
)


def takes_as_they_are(table: DeltaTable, rows: StructType) -> bool:
    """Whether a table takes rows with these columns by nothing but new files."""
    protocol, metadata = table.protocol(), table.metadata()
    columns = schema_of(table)
    return (
        protocol.min_reader_version == 1
        and protocol.min_writer_version <= _WRITER
        and not metadata.partition_columns
        and not [key for key in metadata.configuration if key.startswith("delta.") and key not in _PROPERTIES]
        and all(field.nullable and not set(field.metadata) - {"comment"} for field in columns)
        and not any(has_not_null(field.dataType) for field in columns)
        and _types(columns) == _types(rows)
    )


def _types(columns: StructType) -> dict[str, str]:
    return {field.name: field.dataType.simpleString() for field in columns}
