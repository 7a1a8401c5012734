"""Schemes: the key and value of a Kafka record as columns of a message."""

import json
from dataclasses import dataclass
from typing import Protocol

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.avro.functions import from_avro

from acker.core.arguments import checked
from acker.core.ddl import check_schema, columns_in
from acker.core.errors import SourceError
from acker.kafka.registry import NoSuchSchema, Registry
from acker.spouts.base import check_reserved
from acker.spouts.parsed.json_objects import JsonObjects
from acker.spouts.parsed.workers import columns_of, fields_of, parsed, zone_of

_SHOWN_BYTES = 40
_FRAME_BYTES = 5  # before a value that names its schema: a zero and the schema's number
_ALL = 2**31 - 1
_MARK = bytes.fromhex("c3f1a96e5d0b47828e16fa3b90d2745c")  # behind a value, so that its end is seen
_MOST_SCHEMAS = 100  # for which the registry is asked in a batch: bytes that are no number could be any


class Scheme(Protocol):
    """The protocol of schemes: the key and value of a record as columns of a message."""

    def parsed(self, records: DataFrame) -> DataFrame:
        """Parse records into columns.

        Args:
            records: rows with `key` and `value`, which are binary, and columns that stay.

        Returns:
            The records with two more columns: `_fields`, a struct of the columns, and `_why`, the reason why
            a record cannot be read, or null.

        Raises:
            SourceError: the scheme has columns that no spout can have.
        """


@checked
@dataclass(frozen=True)
class Bytes:
    """The value as it is, in a column of type binary.

    Args:
        name: the name of the column.
    """

    name: str = "value"

    def parsed(self, records: DataFrame) -> DataFrame:
        """See `Scheme`."""
        return _with(records, F.struct(F.col("value").alias(self.name)), F.lit(None).cast("string"))


@checked
@dataclass(frozen=True)
class Text:
    """The value as text in UTF-8, in a column of type string.

    Args:
        name: the name of the column.
    """

    name: str = "value"

    def message_columns(self) -> dict[str, str]:
        """See `TellsColumns`."""
        return {self.name: "string"}

    def parsed(self, records: DataFrame) -> DataFrame:
        """See `Scheme`."""
        text, error = _text("value")
        return _with(records, F.struct(text.alias(self.name)), error)


@checked
@dataclass(frozen=True)
class KeyValue:
    """Key and value, each as text in UTF-8; a record may lack its key.

    Args:
        key: the name of the key's column.
        value: the name of the value's column.
    """

    key: str = "key"
    value: str = "value"

    def parsed(self, records: DataFrame) -> DataFrame:
        """See `Scheme`."""
        (key, bad_key), (value, bad_value) = _text("key"), _text("value")
        pair = F.struct(key.alias(self.key), value.alias(self.value))
        return _with(records, pair, F.coalesce(bad_key, bad_value))


@checked
@dataclass(frozen=True)
class Json:
    """The fields of the value's JSON object.

    Args:
        schema: the DDL of the fields, such as "id bigint, name string".
    """

    schema: str

    def __post_init__(self) -> None:
        check_schema("schema of Json", self.schema)

    def message_columns(self) -> dict[str, str]:
        """See `TellsColumns`."""
        return columns_in(self.schema)

    def parsed(self, records: DataFrame) -> DataFrame:
        """See `Scheme`."""
        spark = records.sparkSession
        columns = columns_of(spark, self.schema)
        parser = JsonObjects(fields_of(columns, nested=True), zone_of(spark, columns))
        text, error = _text("value")
        texts = records.withColumns({"value": F.when(error.isNull(), text), "_bad": error})
        return parsed(texts, parser).withColumn("_why", F.coalesce("_bad", "_why")).drop("_bad")


@checked
@dataclass(frozen=True)
class Avro:
    """The fields of the value's Avro record.

    Args:
        schema: a record as JSON, whose fields are the columns. Without a registry values are written with it.
        registry: the address of a schema registry, such as "http://registry:8081". Then a value names the
            schema that it is written with, as Confluent's clients do, and `schema` has the fields to read.
        connection: in place of the address: the name of a connection, which may also hold a login.

    Raises:
        SourceError: the arguments do not fit together, or `schema` is no record with names of columns.
    """

    schema: str
    registry: str | None = None
    connection: str | None = None

    def __post_init__(self) -> None:
        if self.registry is not None and self.connection is not None:
            raise SourceError("Avro needs a registry or a connection, and not both.")
        try:
            kind = json.loads(self.schema)["type"]
        except (ValueError, TypeError, KeyError):
            kind = None
        if kind != "record":
            raise SourceError("The schema of Avro is no record as JSON: its fields are to be the columns.")
        check_reserved("The schema of Avro", [field["name"] for field in json.loads(self.schema)["fields"]])

    def parsed(self, records: DataFrame) -> DataFrame:
        """See `Scheme`. With a registry the records are read once more, for the schemas that they name."""
        if self.registry is None and self.connection is None:
            return _with(records, *self._plain(F.col("value")))
        number = F.conv(F.hex(F.substring("value", 2, 4)), 16, 10).cast("bigint")
        framed = F.col("value").startswith(F.lit(b"\x00")) & (F.octet_length("value") >= _FRAME_BYTES)
        counted = records.where(framed).groupBy(number.alias("number")).count()
        nothing, _ = self._plain(F.lit(None).cast("binary"))
        whole = F.when(~framed, nothing)
        bad = F.when(~framed, "the value does not name a schema of a registry")
        registry = self._registry()
        for row in counted.orderBy(F.desc("count"), "number").limit(_MOST_SCHEMAS).collect():
            try:
                writer = registry.schema(row["number"])
                found, wrong = self._plain(F.substring("value", _FRAME_BYTES + 1, _ALL), writer)
            except NoSuchSchema as error:
                found, wrong = nothing, F.lit(str(error))
            is_it = number == row["number"]
            whole, bad = whole.when(is_it, found), bad.when(is_it, wrong)
        left = F.concat(F.lit("the batch names too many schemas to look up "), number.cast("string"))
        why = F.when(F.col("value").isNotNull(), bad.otherwise(left))
        return _with(records, whole.otherwise(nothing), why)

    def _registry(self) -> Registry:
        return Registry(self.registry) if self.registry is not None else Registry.named(str(self.connection))

    def _plain(self, value: Column, writer: str | None = None) -> tuple[Column, Column]:
        options = {"mode": "PERMISSIVE", "avroSchema": _within(self.schema)}
        marked = F.concat(value, F.lit(_MARK))
        whole = from_avro(marked, _within(writer or self.schema), options)
        datum = F.when(whole["mark"] == F.lit(_MARK), whole["datum"])
        why = F.concat(F.lit("not valid Avro for the schema: "), F.hex(F.substring(value, 1, _SHOWN_BYTES)))
        return datum, F.when(value.isNotNull() & datum.isNull(), why)


def _within(schema: str) -> str:
    """The schema of a record with two fields: `datum`, a value of `schema`, and `mark`, the bytes behind it.

    Spark reads a bad value as a record of nulls, which a good value may be as well. Here the field `datum` is
    null for a bad value, and for no good one. Spark also leaves bytes behind a value unread; then the mark is
    not where it should be.
    """
    mark = {"type": "fixed", "name": "_mark", "size": len(_MARK)}
    fields = [{"name": "datum", "type": json.loads(schema)}, {"name": "mark", "type": mark}]
    return json.dumps({"type": "record", "name": "_within", "fields": fields})


def _with(records: DataFrame, fields: Column, why: Column) -> DataFrame:
    return records.withColumns({"_fields": fields, "_why": why})


def _text(name: str) -> tuple[Column, Column]:
    """A column of bytes as text, and the reason why the bytes are no text, or null."""
    raw = F.col(name).cast("string")
    valid = F.is_valid_utf8(raw)
    return F.make_valid_utf8(raw), F.when(~valid, F.lit(f"the {name} is not valid UTF-8"))
