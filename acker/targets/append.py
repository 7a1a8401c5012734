"""A Delta table to which the tuples of acked messages are appended, with a column `_root_id`."""

from collections.abc import Sequence
from dataclasses import dataclass

from deltalake import DeltaTable
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from acker.core.delta import append_rows, open_table
from acker.core.digests import NoDigest
from acker.core.errors import BoltError
from acker.core.events import Kind
from acker.core.quoting import sql_name
from acker.core.schemas import component_of, of_stream
from acker.spark.delta import append, schema_of
from acker.targets.audit import QUICK, audit_rows
from acker.targets.base import Changes, Evidence, Verdict
from acker.targets.by_content import audit_contents
from acker.targets.delta import DeltaTarget
from acker.targets.plain import takes_as_they_are

_CHECK = "delta.constraints."


@dataclass(frozen=True)
class DeltaAppend(DeltaTarget):
    """A Delta table of rows.

    Where a message is acked again, after a replay by hand, its new rows replace the earlier ones.
    """

    def violations(
        self, spark: SparkSession, stream: str, rows: DataFrame, columns: Sequence[str]
    ) -> DataFrame:
        """See `Target`. What a table refuses that exists already: other types, NOT NULL, CHECK."""
        table = open_table(self.path)
        if table is None:
            return rows
        target = schema_of(table)
        types = {field.name: field.dataType.simpleString() for field in target.fields}
        _check_types(stream, self.path, types, rows, columns)
        rules = {
            f"{field.name} is null": F.col(sql_name(field.name)).isNull()
            for field in target.fields
            if not field.nullable and field.name in columns
        }
        rules |= _constraints(table)
        if not rules:
            return rows
        texts = [F.when(broken, F.lit(f"{self.path}: {text}")) for text, broken in rules.items()]
        reason = F.coalesce(*texts)
        mine = F.expr(of_stream(stream, rows.columns))
        refused = F.col("_kind").isNull() & mine & reason.isNotNull()
        return rows.withColumns(
            {
                "_error": F.when(refused, reason).otherwise(F.col("_error")),
                "_kind": F.when(refused, Kind.FAIL.value).otherwise(F.col("_kind")),
            }
        )

    def apply(self, spark: SparkSession, changes: Changes) -> None:
        """See `Target`. A small fold goes without Spark into a table that asks for nothing else."""
        self.check_remembers(changes.publisher)
        table = open_table(self.path)
        if changes.replaced_roots is not None and table is not None:
            self._replace(spark, changes, changes.replaced_roots)
            return
        app, note = changes.publisher.app, {"userMetadata": changes.note}
        if table is not None and changes.is_small and takes_as_they_are(table, changes.added.schema):
            append_rows(table, changes.added.toArrow(), app, changes.fold, note)
        else:
            append(changes.added, self.path, app, changes.fold, {"mergeSchema": "true"} | note)

    def _replace(self, spark: SparkSession, changes: Changes, roots: DataFrame) -> None:
        columns = changes.added.columns
        source = changes.added.withColumn("_delete", F.lit(None).cast("bigint")).unionByName(
            roots.select(F.col("_root_id").alias("_delete")), allowMissingColumns=True
        )
        names = ", ".join(sql_name(column) for column in columns)
        values = ", ".join(f"changes.{sql_name(column)}" for column in columns)
        sql = (
            "target._root_id = changes._delete WHEN MATCHED THEN DELETE "
            f"WHEN NOT MATCHED AND changes._delete IS NULL THEN INSERT ({names}) VALUES ({values})"
        )
        self.merge(spark, source, changes, sql)

    def audit(self, evidence: Evidence) -> Verdict:
        """See `Target`. Message by message: its rows say what its tuples do, or are as many."""
        table = self.table()
        if not evidence.contents:
            return audit_rows(evidence, table, QUICK)
        try:
            return audit_contents(evidence, table, self.path)
        except NoDigest as error:
            return audit_rows(evidence, table, f"a column is of the type {error}, which is not compared")


def _check_types(
    stream: str, path: str, types: dict[str, str], rows: DataFrame, columns: Sequence[str]
) -> None:
    for column, found in rows.dtypes:
        if column in columns and types.get(column, found) != found:
            raise BoltError(
                f"{stream} emits {column} as {found}, but {path} has it as {types[column]}. "
                "Cast it in the bolt, or publish to a new table.",
                component=component_of(stream),
                table=path,
            )


def _constraints(table: DeltaTable) -> dict[str, Column]:
    """What breaks each CHECK constraint of a table, by what is said of it."""
    rules = {}
    for key, expression in table.metadata().configuration.items():
        if key.startswith(_CHECK):
            # A constraint holds unless it is false or null, as in Delta.
            broken = ~F.coalesce(F.expr(expression), F.lit(False))
            rules[f"breaks the constraint {key.removeprefix(_CHECK)}: {expression}"] = broken
    return rules
