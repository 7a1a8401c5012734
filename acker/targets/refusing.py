"""The search for messages whose rows a Delta table refuses, when Spark only says that some row did not go.

The search writes to a clone of the table, which has its rules and shares its files. So the table itself never
changes, and rows that pass in the clone pass in the table. First the clone is given the tuples of no message.
Where these raise, no message is at fault. Then the table's rules are checked on each row. The rest of the
fold is applied to the clone: as a whole, and where that raises by halves, each on top of those that passed.
"""

import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING
from uuid import uuid4

import polars as pl
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from acker.core.errors import BoltError, StoreError
from acker.core.quoting import sql_name
from acker.core.reasons import LONGEST_TOLD
from acker.core.store.identity import Identity
from acker.core.store.tables import open_table
from acker.core.stream_names import component_of
from acker.targets.base import NOTHING_REFUSED, Changes, Publisher, Target
from acker.targets.rules import Rules

if TYPE_CHECKING:
    from acker.targets.delta import DeltaTarget

MOST_REFUSED = 32  # past this the table may be at fault and not the rows
_CLASS = re.compile(r"^\([\w.$]+\) ")  # of Java's
_HIDES = "TASK_WRITE_FAILED"
_DATA = ("22", "23", "P0001")  # classes of SQLSTATE: values, constraints; and that of raise_error


def fault_of_a_row(error: PySparkException) -> str | None:
    """The text of an error about a value that a table does not take; None where no value is at fault."""
    if not (error.getSqlState() or "").startswith(_DATA):
        return None
    said = str(error).split("JVM stacktrace:")[0].split(" SQLSTATE:")[0]
    return " ".join(_CLASS.sub("", said.strip()).split())[:LONGEST_TOLD]


def told_by_rules(
    target: Target, spark: SparkSession, changes: Changes, groups: pl.DataFrame
) -> pl.DataFrame:
    """The roots that a target's own rules refuse, and why; none where the rules cannot be checked.

    Args:
        groups: see `Target.refused`.

    Raises:
        StoreError: most messages of the fold are refused; see `check_fault`.
    """
    nothing = F.lit(None).cast("string")
    rows = changes.added.withColumn("_kind", nothing).withColumn("_error", nothing)
    columns = [name for name in changes.added.columns if name != "_root_id"]
    try:
        told = target.violations(spark, changes.publisher.stream, rows, columns)
        refused = told.where("_kind IS NOT NULL AND _root_id IS NOT NULL").groupBy("_root_id")
        found = pl.DataFrame(refused.agg(F.min("_error").alias("reason")).toArrow())
    except (BoltError, PySparkException):
        return NOTHING_REFUSED  # the table is not one for this stream, or none of its rules can be asked
    found = found.select(root_id="_root_id", reason="reason").join(groups, on="root_id", how="semi")
    check_fault(target, changes, found, groups)
    return found


def check_fault(
    target: Target, changes: Changes, refused: pl.DataFrame, groups: pl.DataFrame, passed: int | None = None
) -> None:
    """Stop where a target refuses more than `MOST_REFUSED` groups of messages, and most of those tried.

    Messages that were acked together count once: a single row of theirs may be at fault.

    Args:
        refused: the roots that the target refuses, each with its `reason`.
        groups: see `Target.refused`.
        passed: how many groups were tried and not refused; None: all others.

    Raises:
        StoreError: the target is taken to be at fault; the error has the reason of one message.
    """
    count = groups.join(refused, on="root_id", how="semi")["group"].n_unique()
    among = groups["group"].n_unique() if passed is None else count + passed
    if count > MOST_REFUSED and 2 * count > among:
        raise StoreError(
            f"{target.uri} refuses most messages of fold {changes.fold}, so it is taken to be at fault: "
            f"{refused['reason'][0]} Mend it, and publish again.",
            component=component_of(changes.publisher.stream),
            table=target.uri,
        )


@dataclass
class Search:
    """A search for the messages of a fold that a table refuses.

    Args:
        target: the table.
        groups: as in `Target.refused`.
        scratch: where the clone goes.
    """

    target: "DeltaTarget"
    spark: SparkSession
    changes: Changes
    groups: pl.DataFrame
    scratch: str
    found: list[pl.DataFrame] = field(default_factory=list)
    passed: int = 0

    def __post_init__(self) -> None:
        publisher = Publisher(Identity(f"trial-{uuid4().hex}"), self.changes.publisher.stream)
        self.clone = self.target.moved_to(self.scratch)
        self.trial = replace(self.changes, publisher=publisher, fold=0)

    def run(self) -> pl.DataFrame:
        """The roots that are refused, and why, in the table's words.

        Raises:
            StoreError: most messages are refused; see `check_fault`.
            PySparkException: an error that is no fault of a message.
            BoltError: the table takes no row of the stream.
        """
        if open_table(self.target.path) is not None:
            source, clone = (sql_name(path) for path in (self.target.path, self.scratch))
            self.spark.sql(f"CREATE TABLE delta.{clone} SHALLOW CLONE delta.{source}")
        if self._refusal(self.changes.added.where("_root_id IS NULL")) is not None:
            return NOTHING_REFUSED
        self.trial = replace(self.trial, replaced_roots=None, replaced=None)
        told = told_by_rules(self.target, self.spark, self.changes, self.groups)
        self.found.append(told)
        refused = self.groups.join(told, on="root_id", how="semi").select("group").unique()
        rest = self.groups.join(refused, on="group", how="anti")
        self._search(rest.with_columns(place=pl.col("group").rank("dense") - 1))
        return pl.concat(self.found)

    def _search(self, roots: pl.DataFrame) -> None:
        parts = [(0, roots["group"].n_unique())]
        while parts:
            low, high = parts.pop()
            mine = roots.filter(pl.col("place").is_between(low, high - 1)).select(_root_id="root_id")
            if mine.is_empty():
                continue
            own = self.spark.createDataFrame(mine.to_arrow())
            reason = self._refusal(self.changes.added.join(own, "_root_id", "left_semi"))
            if reason is None:
                self.passed += high - low
            elif high - low > 1:
                middle = (low + high) // 2
                parts += [(middle, high), (low, middle)]
            else:
                self.found.append(mine.select(root_id="_root_id", reason=pl.lit(reason)))
                check_fault(self.target, self.changes, pl.concat(self.found), self.groups, self.passed)

    def _refusal(self, added: DataFrame) -> str | None:
        """Why the clone does not take some further rows; None where it takes them.

        Raises:
            PySparkException: an error that is no fault of a row.
            BoltError: the table takes no row of the stream.
        """
        self.trial = replace(self.trial, added=added, fold=self.trial.fold + 1)
        try:
            self.clone.apply(self.spark, self.trial)
        except PySparkException as error:
            reason = self._hidden() if _HIDES in str(error) else fault_of_a_row(error)
            if reason is None:
                raise
            return reason
        return None

    def _hidden(self) -> str | None:
        """The reason why Delta's writer failed, which hides it; None where no value is at fault.

        The rows are computed once more, with the columns that the table makes and all its rules.

        Raises:
            BoltError: the table takes no row of the stream.
        """
        rows, nothing = self.clone.computed(self.spark, self.trial), F.lit(None).cast("string")
        table = open_table(self.clone.path)
        if table is not None:
            rules = Rules(self.changes.publisher.stream, self.target.path, table, rows.columns)
            rows = rules.refused(rows.withColumns({"_kind": nothing, "_error": nothing}))
        try:
            rows.write.format("noop").mode("overwrite").save()
            told = rows.where("_error IS NOT NULL").select("_error").limit(1).collect() if table else []
        except PySparkException as error:
            return fault_of_a_row(error)
        return str(told[0]["_error"]) if told else None
