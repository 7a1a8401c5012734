"""The rules of a Delta table that is written to: which of them a stream breaks, and which a row.

All rules are in the table's log: types and lengths, NOT NULL at any depth, CHECK, generated and identity
columns, partitions. A row that breaks a rule would else stop the publish of a whole fold, long after its
message was acked.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from deltalake import DeltaTable
from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructField

from acker.core.errors import BoltError
from acker.core.events import Kind
from acker.core.quoting import sql_name
from acker.core.store.schemas import of_stream
from acker.core.stream_names import component_of
from acker.spark.delta import schema_of
from acker.targets.folders import unwritable
from acker.targets.lengths import too_long
from acker.targets.nulls import nulls_within

APPEND_ONLY = "delta.appendOnly"
_CHECK = "delta.constraints."
_INVARIANT = "delta.invariants"
_GENERATED = "delta.generationExpression"
_DEFAULT = "CURRENT_DEFAULT"
_IDENTITY, _MAY_BE_GIVEN = "delta.identity.start", "delta.identity.allowExplicitInsert"
_BY_DELTA = (_GENERATED, _DEFAULT, _IDENTITY)  # fills a column that is not given


@dataclass(frozen=True)
class Rules:
    """The rules of a table for the rows that a stream adds to it.

    Args:
        stream: the stream's name.
        path: path or URI of the table, for errors.
        given: the columns that the stream gives to the table. The table makes its other columns itself, or
            leaves them null.
        is_whole: False where more columns are given, of which nobody knows the values beforehand.
    """

    stream: str
    path: str
    table: DeltaTable
    given: Sequence[str]
    is_whole: bool = True

    def check(self, types: Mapping[str, str]) -> None:
        """Refuse a stream of which the table would take no row.

        Args:
            types: the types of the given columns, by name.

        Raises:
            BoltError: the table would take no row; the error says what to do.
        """
        for name, found in types.items():
            field = self._fields.get(name.lower())
            if field is None:
                self._check_new(name, found)
            elif field.dataType.simpleString() != found:
                raise self._error(
                    f"{self.stream} emits {name} as {found}, but {self.path} has it as "
                    f"{field.dataType.simpleString()}. Cast it in the bolt, or publish to a new table."
                )
            elif _IDENTITY in field.metadata and not field.metadata.get(_MAY_BE_GIVEN):
                raise self._error(
                    f"{self.stream} emits {name}, which {self.path} numbers itself (GENERATED ALWAYS AS "
                    "IDENTITY): leave the column out in the bolt."
                )
        for field in self._lacking if self.is_whole else ():
            if not field.nullable and not _made_by_delta(field):
                raise self._error(
                    f"{self.stream} emits no {field.name}, which is NOT NULL in {self.path}: emit it, or "
                    "give the column a default there."
                )

    def _check_new(self, name: str, found: str) -> None:
        features = self.table.protocol().writer_features or []
        if "timestamp_ntz" in found and "timestampNtz" not in features:
            raise self._error(
                f"{self.stream} emits {name} as {found}, and {self.path} has not the feature timestampNtz: "
                f"ALTER TABLE delta.`{self.path}` SET TBLPROPERTIES ('delta.feature.timestampNtz' = "
                "'supported'), or cast it in the bolt."
            )

    def _error(self, text: str) -> BoltError:
        return BoltError(text, component=component_of(self.stream), table=self.path)

    def refused(self, rows: DataFrame) -> DataFrame:
        """The rows of a component; those that the table would refuse are failures of their messages.

        Raises:
            BoltError: the table would refuse every row.
        """
        self._check_lacking(rows.sparkSession)
        held = self._held(rows)
        broken = self._broken(held)
        if not broken:
            return rows
        texts = [F.when(is_broken, F.lit(f"{self.path}: {text}")) for text, is_broken in broken.items()]
        return failing(held, self.stream, F.coalesce(*texts)).select(*map(sql_name, rows.columns))

    def _check_lacking(self, spark: SparkSession) -> None:
        """Refuse a stream that lacks columns of a condition, where the condition fails without them."""
        lacking = [field for field in self._lacking if _GENERATED not in field.metadata]
        if not self.is_whole or not lacking or not self._texts:
            return
        row = spark.range(1).select(*(_default(field).alias(field.name) for field in lacking))
        for said, text in self._texts.items():
            if is_known(row, text) and row.where(F.expr(text)).isEmpty():
                raise self._error(
                    f"Each row of {self.stream} {said} of {self.path}, since it has none of these columns: "
                    "emit them, or give them defaults there."
                )

    def _held(self, rows: DataFrame) -> DataFrame:
        """The rows, with the columns that the table makes itself and that a rule looks at."""
        if not self.is_whole:
            return rows
        there = {name.lower() for name in rows.columns}
        makes = [field for field in self._lacking if field.name.lower() not in there]
        generated = [field for field in makes if _GENERATED in field.metadata]
        texts = [*self._texts.values(), *(field.metadata[_GENERATED] for field in generated)]
        asked = " ".join(texts).lower()
        given = [field for field in makes if _GENERATED not in field.metadata and field.name.lower() in asked]
        defaults = {field.name: _default(field) for field in given}
        made = {field.name: F.expr(field.metadata[_GENERATED]) for field in generated}
        held = rows.withColumns(defaults) if defaults else rows
        return held.withColumns(made) if made else held

    def _broken(self, held: DataFrame) -> dict[str, Column]:
        """Text of each rule -> whether a row breaks it."""
        there = {name.lower() for name in held.columns}
        rules = {}
        for field in self._fields.values():
            column, text = F.col(sql_name(field.name)), field.metadata.get(_GENERATED)
            if self._is_given(field) and text is not None and self.is_whole:
                same = column.eqNullSafe(F.expr(text).cast(field.dataType))
                rules[f"{field.name} is not what it is generated as: {text}"] = ~same
            elif text is not None and self.is_whole and field.name.lower() in there:
                rules[f"{field.name} cannot be made"] = _raises(column)
            elif not self._is_given(field):
                continue
            if not field.nullable:
                rules[f"{field.name} is null"] = column.isNull()
            rules |= too_long(field) | nulls_within(field)
        known = there if self.is_whole else {name.lower() for name in self.given}
        return rules | self._conditions(held) | unwritable(self.path, self.table, known)

    def _conditions(self, held: DataFrame) -> dict[str, Column]:
        """Text of each condition of the table that uses known columns alone -> whether a row breaks it."""
        known = held if self.is_whole else held.select(*map(sql_name, self.given))
        # A condition holds unless it is false or null, as in Delta.
        return {
            said: ~F.coalesce(F.expr(text), F.lit(False))
            for said, text in self._texts.items()
            if self.is_whole or is_known(known, text)
        }

    @cached_property
    def _texts(self) -> dict[str, str]:
        """Text of each condition of the table -> its SQL."""
        found = {}
        for key, text in self.table.metadata().configuration.items():
            if key.startswith(_CHECK):
                found[f"breaks the constraint {key.removeprefix(_CHECK)}: {text}"] = text
        for field in self._fields.values():
            if _INVARIANT in field.metadata:
                text = json.loads(field.metadata[_INVARIANT])["expression"]["expression"]
                found[f"breaks the invariant of {field.name}: {text}"] = text
        return found

    @cached_property
    def _fields(self) -> dict[str, StructField]:
        return {field.name.lower(): field for field in schema_of(self.table).fields}

    @property
    def _lacking(self) -> list[StructField]:
        return [field for field in self._fields.values() if not self._is_given(field)]

    def _is_given(self, field: StructField) -> bool:
        return field.name.lower() in {name.lower() for name in self.given}


def is_append_only(table: DeltaTable) -> bool:
    """Whether a table has the property `delta.appendOnly`, so that no row leaves it."""
    return table.metadata().configuration.get(APPEND_ONLY, "").lower() == "true"


def failing(rows: DataFrame, stream: str, reason: Column) -> DataFrame:
    """The rows of a component; rows of the stream that have a reason are failures of their messages."""
    is_tuple = F.col("_kind").isNull() & F.expr(of_stream(stream, rows.columns))
    # A condition that raises must not be asked of other rows.
    found = rows.withColumn("_refused", F.when(is_tuple, reason))
    is_refused = F.col("_refused").isNotNull()
    return found.withColumns(
        {
            "_error": F.when(is_refused, F.col("_refused")).otherwise(F.col("_error")),
            "_kind": F.when(is_refused, Kind.FAIL.value).otherwise(F.col("_kind")),
        }
    ).drop("_refused")


def _made_by_delta(field: StructField) -> bool:
    return any(key in field.metadata for key in _BY_DELTA)


def _default(field: StructField) -> Column:
    return F.expr(field.metadata.get(_DEFAULT, "NULL"))


def _raises(column: Column) -> Column:
    """A condition that is False, or raises the error of computing a column: no text has a negative length."""
    return F.octet_length(column.cast("string")) < 0


def is_known(rows: DataFrame, expression: str) -> bool:
    """Whether an expression uses the columns of some rows alone."""
    try:
        return bool(rows.select(F.expr(expression)).columns)
    except AnalysisException:
        return False
