"""Rows as a test writes them, and a spout that reads them. A row is a dict, column name -> value."""

import difflib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_type, to_arrow_schema
from pyspark.sql.types import LongType, StringType, StructField, StructType

from acker.components.base import BadRows, Work
from acker.components.emitted import batch_of
from acker.components.spout import SpoutComponent
from acker.components.values import ValueColumn
from acker.core.errors import SettingsError
from acker.core.stream_names import component_of, further_of, stream_name
from acker.spouts import History, Range

Row = Mapping[str, Any]

_POSITION = [StructField("_source_partition", StringType()), StructField("_source_offset", LongType())]
_MISFITS = (PySparkException, pa.ArrowException, TypeError, ValueError, OverflowError)


@dataclass(frozen=True)
class LiteralSpout:
    """Rows of a test as a source. A row's position is its stream and its number in it, from 1.

    Args:
        streams: stream -> its rows.
        columns: stream -> its columns; no columns where they are unknown.
    """

    streams: Mapping[str, Sequence[Row]]
    columns: Mapping[str, StructType]

    def message_schema(self, spark: SparkSession) -> StructType:
        """See `Spout`."""
        for name, columns in self.columns.items():
            if not columns.fields:
                raise SettingsError(
                    f"There is no row of {name} that tells its columns; give one, or "
                    f"schema={{{name!r}: DDL}} with DDL such as 'id bigint, name string'."
                )
        return self._fields

    def next_range(self, spark: SparkSession, history: History, limit: int) -> Range | None:
        """See `Spout`."""
        after = history.newest["upto"] if history.newest else 0
        upto = min(len(self._messages), after + limit)
        return {"after": after, "upto": upto} if upto > after else None

    def read_range(self, spark: SparkSession, planned: Range) -> DataFrame:
        """See `Spout`."""
        return self._frame(spark, self._messages[planned["after"] : planned["upto"]])

    def ends(self, planned: Range) -> dict[str, int]:
        """See `Spout`."""
        read = self._messages[planned["after"] : planned["upto"]]
        return {stream: number + 1 for stream, number, *_ in read}

    def read_positions(self, spark: SparkSession, positions: pa.Table, history: History) -> DataFrame:
        """See `Spout`."""
        columns = (positions[name].to_pylist() for name in ("source_partition", "source_offset"))
        wanted = set(zip(*columns, strict=True))
        return self._frame(spark, [message for message in self._messages if message[:2] in wanted])

    def check(self, spark: SparkSession) -> None:
        """Refuse rows that do not fit their columns.

        Raises:
            SettingsError: some rows do not fit. The message names the streams.
        """
        try:
            self._frame(spark, self._messages)
        except _MISFITS as error:
            names = " and ".join(self.streams)
            raise SettingsError(
                f"The rows of {names} do not fit their columns: {error}. Mend the rows, or give the columns' "
                "types with schema=."
            ) from error

    def _frame(self, spark: SparkSession, messages: list[tuple[Any, ...]]) -> DataFrame:
        schema = StructType([*_POSITION, *self._fields.fields])
        columns = [ValueColumn.of(field) for field in to_arrow_schema(schema, timezone="UTC")]
        rows = [dict(zip(schema.names, message, strict=True)) for message in messages]
        return spark.createDataFrame(pa.Table.from_batches([batch_of(rows, columns)]), schema)

    @cached_property
    def _messages(self) -> list[tuple[Any, ...]]:
        return [
            (stream, number, *(row.get(name) for name in self._fields.names))
            for stream, rows in self.streams.items()
            for number, row in enumerate(rows, start=1)
        ]

    @cached_property
    def _fields(self) -> StructType:
        """The columns of all streams, which lie in one table."""
        fields: dict[str, StructField] = {}
        for name, columns in self.columns.items():
            for column in columns.fields:
                if fields.setdefault(column.name, column).dataType != column.dataType:
                    raise SettingsError(
                        f"Column {column.name} of {name} has another type than in the component's other "
                        "streams, which lie in the same table; give their types with schema=."
                    )
        return StructType(list(fields.values()))


@dataclass(frozen=True, kw_only=True)
class LiteralComponent(SpoutComponent):
    """A spout in the place of any component, with all of its streams.

    Args:
        source: the source, whose partitions are the streams.
        further: names of the further streams among them.
    """

    source: LiteralSpout
    further: tuple[str, ...] = field(default=())

    @property
    def streams(self) -> Mapping[str, str]:
        """See `Component`."""
        return dict.fromkeys(self.further, "")

    def columns(self, rows: DataFrame, further: str) -> list[str]:
        """See `Component`."""
        return list(self._schema(further).names)

    def rows(self, work: Work, bad: BadRows) -> DataFrame:
        """See `Component`."""
        found = super().rows(work, bad)
        if not self.further:
            return found
        further = F.substring_index("_source_partition", ".", -1)
        is_first = F.col("_source_partition") == self.name
        return found.withColumn("_stream", F.when(~is_first, further))

    def no_tuples(self, work: Work, further: str) -> DataFrame:
        """See `Component`."""
        frame = super().no_tuples(work, further)
        return frame.select("_root_id", *self._schema(further).names)

    def _schema(self, further: str) -> StructType:
        return self.source.columns[stream_name(self.name, further)]


def literal_components(
    spark: SparkSession, given: Mapping[str, Sequence[Row]], columns: Mapping[str, StructType]
) -> list[LiteralComponent]:
    """Spouts that emit the given rows of each stream, one for all streams of a component."""
    found = []
    for name in dict.fromkeys(map(component_of, given)):
        mine = [stream for stream in given if component_of(stream) == name]
        source = LiteralSpout({each: given[each] for each in mine}, {each: columns[each] for each in mine})
        source.check(spark)
        further = tuple(further_of(each) for each in mine if each != name)
        found.append(LiteralComponent(name, source=source, further=further))
    return found


def columns_of(spark: SparkSession, stream: str, rows: Sequence[Row], ddl: str | None) -> StructType:
    """The columns of some rows: those of the DDL, or else those that the rows' values tell.

    Raises:
        SettingsError: the columns cannot be told, or the rows have other ones.
    """
    for number, row in enumerate(rows, start=1):
        if not isinstance(row, Mapping):
            raise SettingsError(
                f"Row {number} of {stream} is {row!r:.200}; give a dict, column name -> value."
            )
    names = list(dict.fromkeys(name for row in rows for name in row))
    if ddl is None:
        return StructType([_field(stream, name, [row.get(name) for row in rows]) for name in names])
    try:
        declared = spark.createDataFrame([], ddl).schema
    except PySparkException as error:
        raise SettingsError(
            f"The schema {ddl!r:.200} of {stream} is no DDL; write it as in 'id bigint, name string'."
        ) from error
    check_known(f"The schema of {stream} has no column", names, declared.names)
    return declared


def _field(stream: str, name: str, values: list[Any]) -> StructField:
    hint = f"Give the types of all columns of {stream} with schema=, as DDL: '{name} string, …'."
    try:
        kind = pa.array(values).type
    except (pa.ArrowException, TypeError, OverflowError) as error:
        raise SettingsError(f"The type of column {name} of {stream} is not clear: {error}. {hint}") from error
    if _is_unknown(kind):
        raise SettingsError(
            f"The type of column {name} of {stream} is not known, since its values are only None or empty. "
            f"{hint}"
        )
    return StructField(name, from_arrow_type(kind, prefer_timestamp_ntz=False))


def _is_unknown(kind: pa.DataType) -> bool:
    return pa.types.is_null(kind) or any(_is_unknown(kind.field(i).type) for i in range(kind.num_fields))


def check_known(what: str, names: Iterable[str], known: Collection[str]) -> None:
    """Refuse a name that is not known.

    Args:
        what: the beginning of the message's sentence, before the name.
        names: the names to check.
        known: the known names.

    Raises:
        SettingsError: a name is not known. The message has the closest known name, and all of them.
    """
    for name in names:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            meant = f"Did you mean {near[0]}? " if near else ""
            raise SettingsError(f"{what} {name!r}. {meant}There are: {', '.join(known) or 'none'}.")
