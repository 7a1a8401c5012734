"""Lines of text files as messages: as they are, or as JSON objects.

A message's offset is the number of its line in the file, from 1. A line that cannot be read is a failed
message with its reason.
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from acker.core.events import Kind

_CORRUPT = "_corrupt"
_SHOWN = 200  # characters of a line that a reason shows


def text_rows(whole: DataFrame) -> DataFrame:
    """A message for each line: `value`, without its end of line.

    Args:
        whole: files, with `_source_partition` and `value`, all of the file's text.
    """
    lines = whole.select("_source_partition", F.posexplode(_lines()).alias("_line", "value")).select(
        "_source_partition",
        (F.col("_line") + 1).cast("bigint").alias("_source_offset"),
        F.when(F.endswith("value", F.lit("\r")), F.expr("left(value, length(value) - 1)"))
        .otherwise(F.col("value"))
        .alias("value"),
    )
    valid = F.is_valid_utf8("value")
    return lines.select(
        "_source_partition",
        "_source_offset",
        F.when(~valid, Kind.FAIL.value).alias("_kind"),
        F.when(~valid, "not valid UTF-8").alias("_error"),
        F.make_valid_utf8("value").alias("value"),
    )


def json_rows(whole: DataFrame, schema: str) -> DataFrame:
    """A message for each line that is not blank: the columns of its JSON object.

    Args:
        whole: as of `text_rows`.
        schema: DDL of the objects.
    """
    parsed = F.from_json("value", f"{schema}, {_CORRUPT} string", {"columnNameOfCorruptRecord": _CORRUPT})
    return _parsed(text_rows(whole), parsed, "JSON")


def _parsed(rows: DataFrame, parsed: Column, form: str) -> DataFrame:
    """Messages with the fields of `parsed`, of which a further one holds a line that does not parse."""
    rows = rows.where(F.trim("value") != "").withColumn("parsed", parsed)
    why = F.concat(F.lit(f"not valid {form} for the schema: "), F.substring("value", 1, _SHOWN))
    rows = _failed(rows, F.col(f"parsed.{_CORRUPT}").isNotNull(), why)
    return rows.select("_source_partition", "_source_offset", "_kind", "_error", "parsed.*").drop(_CORRUPT)


def _failed(rows: DataFrame, bad: Column, why: Column) -> DataFrame:
    """The messages, of which those that are bad fail, unless they failed before."""
    newly = F.col("_kind").isNull() & bad
    return rows.withColumns(
        {
            "_kind": F.when(newly, Kind.FAIL.value).otherwise(F.col("_kind")),
            "_error": F.when(newly, why).otherwise(F.col("_error")),
        }
    )


def _lines() -> Column:
    """The lines of `value`, byte by byte.

    Spark splits a string as Java does, which puts U+FFFD where bytes are not UTF-8. In Latin-1 every byte is
    a character, so such a file is split as Latin-1.
    """
    latin = F.split(F.decode(F.col("value").cast("binary"), "ISO-8859-1"), "\n")
    as_they_were = F.transform(latin, lambda line: F.encode(line, "ISO-8859-1").cast("string"))
    return F.when(F.is_valid_utf8("value"), F.split("value", "\n")).otherwise(as_they_were)
