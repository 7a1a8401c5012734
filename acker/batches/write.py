"""The write of a batch: what a spout reads or a bolt makes of its inputs, appended in one commit.

Rows that raise fail their messages and no others.
"""

from functools import partial

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, MapType, StructType

from acker.batches.run import Run
from acker.components.base import BadRows, Component, Work, columns_of
from acker.core.errors import BoltError
from acker.core.quoting import sql_name
from acker.core.schemas import STREAM_PROPERTIES, component_of, stream
from acker.journal.batch import Batch
from acker.journal.journal import Journal
from acker.spark.columns import bound_literal
from acker.spark.delta import append

_WRITE_OPTIONS = {**STREAM_PROPERTIES, "mergeSchema": "true"}
_UNREADABLE = ("variant", "geometry", "geography")  # for Polars


def write(run: Run, journal: Journal, component: Component, batch: Batch) -> None:
    """Append a planned batch's rows to its component's stream.

    Raises:
        BoltError: the bolt broke its contract, or fails on too many messages.
        PySparkException: an error that no message causes.
    """
    work = Work(
        spark=run.spark,
        topology=run.topology.name,
        components=run.topology.components,
        journal=journal,
        batch=batch,
        check=partial(_without_violations, run, component),
        on_bisect=lambda: run.emit_progress("bisecting", component.name, batch.number),
        takes_back=any(each.target.takes_back for each in run.topology.publications.values()),
    )
    bad: BadRows = {}
    while True:
        rows = component.rows(work, bad)
        try:
            _append_rows(work, component, rows)
        except PySparkException as error:
            bad = component.find_bad_rows(work, bad, error)
        else:
            return


def _without_violations(run: Run, component: Component, rows: DataFrame) -> DataFrame:
    """Rows of a component, those that a target would refuse as failures of their messages."""
    for name, publication in run.topology.publications.items():
        if component_of(name) == component.name:
            columns = columns_of(run.topology.components, rows, name)
            rows = publication.target.violations(run.spark, name, rows, columns)
    return rows


def _append_rows(work: Work, component: Component, rows: DataFrame) -> None:
    # Spark Connect gives the strings that Python functions return the type `string collate UTF8_BINARY`,
    # which is the default but which `deltalake` cannot read; a cast spells it as everybody else does.
    columns = [
        F.col(sql_name(field.name)).cast(_ddl(component, field.dataType)).alias(field.name)
        for field in rows.schema.fields
    ]
    stamped = rows.select(bound_literal(work.batch.number, "_root_id", "bigint").alias("_batch"), *columns)
    path = work.journal.store.path(stream(component.name))
    append(stamped, path, component.name, work.batch.number, _WRITE_OPTIONS)


def _ddl(component: Component, kind: DataType) -> str:
    """A type in SQL, whatever its fields are called.

    Raises:
        BoltError: the log of the batch could not read a column of this type.
    """
    if kind.typeName() in _UNREADABLE:
        raise BoltError(
            f"{component.name} emits a column of type {kind.simpleString()}, which streams cannot hold: turn "
            "it into text in the source or in the bolt.",
            component=component.name,
        )
    if isinstance(kind, StructType):
        fields = (f"{sql_name(each.name)}: {_ddl(component, each.dataType)}" for each in kind.fields)
        return f"struct<{', '.join(fields)}>"
    if isinstance(kind, ArrayType):
        return f"array<{_ddl(component, kind.elementType)}>"
    if isinstance(kind, MapType):
        return f"map<{_ddl(component, kind.keyType)}, {_ddl(component, kind.valueType)}>"
    return kind.simpleString()
