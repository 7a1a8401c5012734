"""Schemes: what becomes of a Kafka record's key and value as columns of a message."""

from dataclasses import dataclass
from typing import Protocol

from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from acker.core.quoting import sql_name

_CORRUPT = "_corrupt"
_SHOWN = 200  # characters of a value that a reason shows


class Scheme(Protocol):
    """What a record is as a message."""

    @property
    def columns(self) -> str:
        """DDL of what it makes."""

    def parsed(self, spark: SparkSession) -> tuple[Column, Column]:
        """A struct of the columns, and why the record cannot be read, null where it can.

        Both of the columns `key` and `value`, which are binary.
        """


@dataclass(frozen=True)
class Bytes:
    """The value as it is, in a column of type binary."""

    name: str = "value"

    @property
    def columns(self) -> str:
        """See `Scheme`."""
        return f"{sql_name(self.name)} binary"

    def parsed(self, spark: SparkSession) -> tuple[Column, Column]:
        """See `Scheme`."""
        return F.struct(F.col("value").alias(self.name)), F.lit(None).cast("string")


@dataclass(frozen=True)
class Text:
    """The value as text in UTF-8."""

    name: str = "value"

    @property
    def columns(self) -> str:
        """See `Scheme`."""
        return f"{sql_name(self.name)} string"

    def parsed(self, spark: SparkSession) -> tuple[Column, Column]:
        """See `Scheme`."""
        text, error = _text("value")
        return F.struct(text.alias(self.name)), error


@dataclass(frozen=True)
class KeyValue:
    """Key and value, each as text in UTF-8; a record may lack its key."""

    key: str = "key"
    value: str = "value"

    @property
    def columns(self) -> str:
        """See `Scheme`."""
        return f"{sql_name(self.key)} string, {sql_name(self.value)} string"

    def parsed(self, spark: SparkSession) -> tuple[Column, Column]:
        """See `Scheme`."""
        (key, bad_key), (value, bad_value) = _text("key"), _text("value")
        return F.struct(key.alias(self.key), value.alias(self.value)), F.coalesce(bad_key, bad_value)


@dataclass(frozen=True)
class Json:
    """The fields of the value's JSON object.

    Args:
        schema: their DDL, such as "id bigint, name string".
    """

    schema: str

    @property
    def columns(self) -> str:
        """See `Scheme`."""
        return self.schema

    def parsed(self, spark: SparkSession) -> tuple[Column, Column]:
        """See `Scheme`."""
        text, error = _text("value")
        options = {"columnNameOfCorruptRecord": _CORRUPT}
        whole = F.from_json(text, f"{self.schema}, {_CORRUPT} string", options)
        names = _schema(spark, self.schema).names
        shown = F.substring(text, 1, _SHOWN)
        bad = F.when(
            text.isNotNull() & (whole.isNull() | whole[_CORRUPT].isNotNull()),
            F.concat(F.lit("not valid JSON for the schema: "), shown),
        )
        return F.struct(*(whole[name].alias(name) for name in names)), F.coalesce(error, bad)


def _text(name: str) -> tuple[Column, Column]:
    """A column of bytes as text, and why it is none."""
    raw = F.col(name).cast("string")
    valid = F.is_valid_utf8(raw)
    return F.make_valid_utf8(raw), F.when(~valid, F.lit(f"the {name} is not valid UTF-8"))


def _schema(spark: SparkSession, ddl: str) -> StructType:
    return spark.createDataFrame([], ddl).schema
