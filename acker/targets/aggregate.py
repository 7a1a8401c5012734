"""A Delta table with one row per key: running aggregates over the tuples of acked messages."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Self

from deltalake import DeltaTable
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from acker.core.arguments import checked
from acker.core.errors import BoltError, TopologyError
from acker.core.quoting import sql_name
from acker.core.store.tables import open_table
from acker.core.stream_names import component_of
from acker.spark.delta import append, exact, read, schema_of
from acker.targets.audit import KINDS
from acker.targets.base import Changes, Evidence, Verdict
from acker.targets.by_key import COUNT, ByKey
from acker.targets.delta import DeltaTarget
from acker.targets.functions import Aggregate, check_order
from acker.targets.made_anew import audit_by_key
from acker.targets.rules import APPEND_ONLY, Rules, is_append_only

if TYPE_CHECKING:
    from acker.targets.kafka import KafkaTarget


@checked
@dataclass(frozen=True)
class DeltaAggregate(DeltaTarget):
    """A Delta table of running aggregates.

    Args:
        path: path or URI of the table. The first fold that has tuples for the table makes it.
        by: the columns of the key.
        aggregates: column -> its aggregate.
        topic: the KafkaTarget to which the rows that a fold changes are sent as well, in their new state. A
            row that is gone is sent as a tombstone. A topic that is compacted by key holds the same rows as
            the table.

    Attributes:
        takes_back: see `Target`; True.

    Raises:
        TopologyError: the records of the topic have no key, or may come twice.
    """

    by: tuple[str, ...]
    aggregates: Mapping[str, Aggregate]
    topic: "KafkaTarget | None" = None

    takes_back: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.topic is not None and (self.topic.key is None or not self.topic.exactly_once):
            raise TopologyError(
                f"The topic of {self.path} gets the newest row of each key: give its KafkaTarget a key, and "
                "leave exactly_once as it is."
            )

    def violations(
        self, spark: SparkSession, stream: str, rows: DataFrame, columns: Sequence[str]
    ) -> DataFrame:
        """See `Target`. Of an existing table, only the rules that its keys can break are checked.

        Raises:
            TopologyError: the stream lacks a column of the key or of an aggregate, or has it in a type that
                cannot be used.
            BoltError: the table could take no row.
        """
        types = {name: kind for name, kind in rows.dtypes if name in columns}
        for key in self.by:
            check_order(f"by={key!r}", stream, key, types)
        for aggregate in self.aggregates.values():
            aggregate.check(stream, types)
        if self.topic is not None:
            summed = self._grouped(rows.withColumn("_sign", F.lit(1)), types)
            self.topic.records(stream, summed, [*self.by, *self.aggregates])  # which says what does not fit
            rows = self.topic.key_violations(stream, rows, self.by)
        table = open_table(self.path)
        if table is None:
            return rows
        self._check_table(stream, table)
        self.check_writable(spark, stream, table)
        rules = Rules(stream, self.path, table, self.by, is_whole=False)
        rules.check({key: types[key] for key in self.by})
        return rules.refused(rows)

    def _check_table(self, stream: str, table: DeltaTable) -> None:
        """Refuse a table to which no fold could be added.

        Raises:
            BoltError: the table lacks a column or only takes new rows; the error says what to do.
        """
        there = {field.name.lower() for field in schema_of(table).fields}
        missing = [name for name in (*self.by, *self.aggregates, COUNT) if name.lower() not in there]
        wrong = None
        if missing:
            wrong = (
                f"{self.path} has no column {', '.join(missing)}: publish to a new table, since what was "
                "added up before cannot be known for it."
            )
        elif is_append_only(table):
            wrong = (
                f"{self.path} has the property {APPEND_ONLY}, and the rows of a running aggregate change. "
                f"Unset it: ALTER TABLE delta.`{self.path}` UNSET TBLPROPERTIES ('{APPEND_ONLY}')."
            )
        if wrong is not None:
            raise BoltError(wrong, component=component_of(stream), table=self.path)

    def irreversible(self) -> str | None:
        """See `Target`."""
        for column, aggregate in self.aggregates.items():
            if not aggregate.reversible:
                return (
                    f"{column} of {self.path} is a {type(aggregate).__name__}, and what it took in cannot be "
                    "taken back. Drop that column, or rebuild the table from its source."
                )
        return None

    def apply(self, spark: SparkSession, changes: Changes) -> None:
        """See `Target`. The topic gets its rows before the table: the table's position is that of both."""
        self.check_remembers(changes.publisher)
        with exact(spark):
            self._take_in(spark, changes)

    def _take_in(self, spark: SparkSession, changes: Changes) -> None:
        summed = self._summed(changes)
        if self.topic is not None:
            self._check_taken(spark, changes)
            columns = [*self.by, *self.aggregates]
            rows = self.topic.records(changes.publisher.stream, self._after(spark, summed), columns)
            value = F.when(F.col(COUNT) > 0, F.col("value"))
            headers = {name: F.lit(None).cast("string") for name in ("message", "attempt")}
            self.topic.send(rows.withColumn("value", value).withColumns(headers).drop(COUNT), changes)
        table = open_table(self.path)
        if table is None:
            options = {"userMetadata": changes.note}
            append(summed, self.path, changes.publisher.app, changes.fold, options)
            return
        kept = [
            f"{column} = {aggregate.merge(f'target.{column}', f'changes.{column}')}"
            for column, aggregate in zip(
                map(sql_name, self.aggregates), self.aggregates.values(), strict=True
            )
        ]
        names = [*map(sql_name, (*self.by, *self.aggregates)), COUNT]
        kept.append(f"{COUNT} = target.{COUNT} + changes.{COUNT}")
        sql = (
            f"{self._same_key()} WHEN MATCHED AND target.{COUNT} + changes.{COUNT} = 0 THEN DELETE "
            f"WHEN MATCHED THEN UPDATE SET {', '.join(kept)} "
            f"WHEN NOT MATCHED AND changes.{COUNT} > 0 THEN INSERT ({', '.join(names)}) "
            f"VALUES ({', '.join(f'changes.{name}' for name in names)})"
        )
        self.merge(spark, table, summed, changes, sql)

    def _check_taken(self, spark: SparkSession, changes: Changes) -> None:
        """Let Spark raise the error of a row that breaks a rule of the table, before the topic has the row.

        Raises:
            PySparkException: a value that the table does not take, in the rule's words.
            BoltError: the table takes no row.
        """
        table = open_table(self.path)
        if table is None:
            return
        rows, nothing = self.computed(spark, changes), F.lit(None).cast("string")
        rules = Rules(changes.publisher.stream, self.path, table, rows.columns)
        told = rules.refused(rows.withColumns({"_kind": nothing, "_error": nothing}))
        raised = F.when(F.col("_error").isNotNull(), F.raise_error(F.col("_error")))
        told.withColumn("_error", raised).write.format("noop").mode("overwrite").save()

    def moved_to(self, path: str) -> Self:
        """See `Target`."""
        return replace(super().moved_to(path), topic=None)

    def computed(self, spark: SparkSession, changes: Changes) -> DataFrame:
        """See `DeltaTarget`."""
        rows = self._after(spark, self._summed(changes)).where(F.col(COUNT) > 0)  # others are deleted
        table = open_table(self.path)
        types = {} if table is None else {field.name: field.dataType for field in schema_of(table)}
        return rows.select(*(F.col(sql_name(name)).cast(types.get(name, kind)) for name, kind in rows.dtypes))

    def _same_key(self) -> str:
        return " AND ".join(f"target.{key} <=> changes.{key}" for key in map(sql_name, self.by))

    def _after(self, spark: SparkSession, summed: DataFrame) -> DataFrame:
        """The rows of the table that a fold changes, as they are after its merge.

        A row whose `_tuples` is 0 is deleted by the merge.

        Args:
            summed: the changes of the fold, one row per key.
        """
        if open_table(self.path) is None:
            return summed
        both = summed.alias("changes").join(
            read(spark, self.path).alias("target"), F.expr(self._same_key()), "left"
        )
        is_new = F.col(f"target.{COUNT}").isNull()
        merged = {
            column: F.expr(aggregate.merge(f"target.{sql_name(column)}", f"changes.{sql_name(column)}"))
            for column, aggregate in self.aggregates.items()
        }
        merged[COUNT] = F.expr(f"target.{COUNT} + changes.{COUNT}")
        return both.select(
            *(F.col(f"changes.{sql_name(key)}") for key in self.by),
            *(
                F.when(is_new, F.col(f"changes.{sql_name(column)}")).otherwise(value).alias(column)
                for column, value in merged.items()
            ),
        )

    def _summed(self, changes: Changes) -> DataFrame:
        """One row per key: the contribution of the added tuples, less that of the replaced ones."""
        types = dict(changes.added.dtypes)
        for aggregate in self.aggregates.values():
            aggregate.check(changes.publisher.stream, types)
        signed = changes.added.withColumn("_sign", F.lit(1))
        if changes.replaced is not None:
            signed = signed.unionByName(
                changes.replaced.withColumn("_sign", F.lit(-1)), allowMissingColumns=True
            )
        return self._grouped(signed, types)

    def _grouped(self, signed: DataFrame, types: Mapping[str, str]) -> DataFrame:
        """The tuples, each with its `_sign`, aggregated to one row per key."""
        sign = F.col("_sign")
        return signed.groupBy(*map(sql_name, self.by)).agg(
            *[aggregate.of(sign, types).alias(column) for column, aggregate in self.aggregates.items()],
            F.sum(sign).cast("bigint").alias(COUNT),
        )

    def rows_by_key(self) -> ByKey:
        """See `Target`."""
        return ByKey(self.by, self.aggregates)

    def audit(self, evidence: Evidence) -> Verdict:
        """See `Target`. Each row is compared with the acked tuples of its key, the topic with its markers."""
        verdict = audit_by_key(evidence, self.delta_table(), self.rows_by_key())
        if self.topic is None:
            return verdict
        findings, why = self.topic.audit_records(evidence, is_of_messages=False)
        merged = {kind: [*verdict.findings.get(kind, ()), *findings.get(kind, ())] for kind in KINDS}
        said = tuple(f"of its topic: {each}" for each in why)
        return replace(verdict, findings=merged, why=(*verdict.why, *said))
