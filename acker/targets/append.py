"""A Delta table to which the tuples of acked messages are appended, with a column `_root_id`."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from deltalake import DeltaTable
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from acker.core.arguments import checked
from acker.core.digests import NoDigest
from acker.core.quoting import sql_name
from acker.core.store.tables import append_rows, open_table
from acker.spark.delta import append
from acker.targets.audit import QUICK, audit_rows, fault_of_columns, incomparable
from acker.targets.base import Changes, Evidence, Verdict
from acker.targets.by_content import audit_contents
from acker.targets.delta import DeltaTarget
from acker.targets.plain import takes_as_they_are
from acker.targets.rules import APPEND_ONLY, Rules, is_append_only

ROOT = "_root_id"


@checked
@dataclass(frozen=True)
class DeltaAppend(DeltaTarget):
    """A Delta table to which the tuples of acked messages are appended as rows.

    Where a message is acked again, after a replay by hand, its new rows replace the earlier ones.

    Args:
        path: path or URI of the table. The first fold that has tuples for the table makes it.
    """

    has_roots: ClassVar[bool] = True

    def irreversible(self) -> str | None:
        """See `Target`. No row can leave a table that has the property `delta.appendOnly`."""
        table = self.delta_table()
        if table is None or not is_append_only(table):
            return None
        return (
            f"{self.path} has the property {APPEND_ONLY}, so that no row leaves it. Unset it: ALTER TABLE "
            f"delta.`{self.path}` UNSET TBLPROPERTIES ('{APPEND_ONLY}')."
        )

    def violations(
        self, spark: SparkSession, stream: str, rows: DataFrame, columns: Sequence[str]
    ) -> DataFrame:
        """See `Target`. All rules of an existing table are checked."""
        table = open_table(self.path)
        if table is None:
            return rows
        self.check_writable(spark, stream, table)
        rules = Rules(stream, self.path, table, (ROOT, *columns))
        rules.check({name: kind for name, kind in rows.dtypes if name in columns} | {ROOT: "bigint"})
        return rules.refused(rows)

    def apply(self, spark: SparkSession, changes: Changes) -> None:
        """See `Target`. A small fold is appended without Spark to a table that needs only new files."""
        self.check_remembers(changes.publisher)
        table = open_table(self.path)
        if changes.replaced_roots is not None and table is not None:
            self._replace(spark, table, changes, changes.replaced_roots)
            return
        app, note = changes.publisher.app, {"userMetadata": changes.note}
        if table is not None and changes.is_small and takes_as_they_are(table, changes.added.schema):
            append_rows(table, changes.added.toArrow(), app, changes.fold, note)
        else:
            append(changes.added, self.path, app, changes.fold, {"mergeSchema": "true"} | note)

    def _replace(self, spark: SparkSession, table: DeltaTable, changes: Changes, roots: DataFrame) -> None:
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
        self.merge(spark, table, source, changes, sql, adds_columns=True)

    def audit(self, evidence: Evidence) -> Verdict:
        """See `Target`. The rows of each message are compared with its tuples, by content or by number."""
        table = self.delta_table()
        if table is not None and (why := fault_of_columns(table, [ROOT], ROOT)) is not None:
            return incomparable(evidence, table, why)
        if not evidence.contents:
            return audit_rows(evidence, table, QUICK)
        try:
            return audit_contents(evidence, table, self.path)
        except NoDigest as error:
            return audit_rows(evidence, table, f"a column is of the type {error}, which is not compared")
