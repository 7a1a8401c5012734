"""Values that no partition of a Delta table can have, since partitions are folders named for them."""

from collections.abc import Collection
from functools import reduce
from operator import add
from urllib.parse import urlsplit

from deltalake import DeltaTable
from pyspark.sql import Column
from pyspark.sql import functions as F

from acker.core.quoting import sql_name
from acker.core.store.schemas import is_object_store
from acker.spark.delta import schema_of

_ESCAPED = "[\\x01-\\x1f\\x7f\"#%'*/:=?\\\\{\\[\\]^]"  # three bytes each in the name of a partition's folder
_MOST_BYTES = 255  # of a name on a disk
_NULL = "__HIVE_DEFAULT_PARTITION__"  # the name of a folder of nulls
_FIRST_MICROS = -62_135_596_800_000_000  # of the year 1; the text of a partition has years without their era
_MOST_KEY_BYTES = 800  # of the 1,024 of an object's name what is below the table, without that of the file


def unwritable(path: str, table: DeltaTable, known: Collection[str]) -> dict[str, Column]:
    """Text of each rule for the values of partitions -> whether a row breaks it.

    A value breaks a rule where it can name no folder or object, or would be read back as another value.

    Args:
        path: path or URI of the table. A disk and an object store have different limits.
        known: the columns of the rows, in lower case.
    """
    metadata = table.metadata()
    rules: dict[str, Column] = {}
    sizes = []
    partitions = [
        field
        for field in schema_of(table).fields
        if field.name in metadata.partition_columns and field.name.lower() in known
    ]
    # The folders of mapped columns have names of their own, yet their values go through such names as well.
    is_mapped = metadata.configuration.get("delta.columnMapping.mode", "none") != "none"
    for field in partitions:
        column, kind = F.col(sql_name(field.name)), field.dataType.typeName()
        if kind in ("timestamp", "timestamp_ntz"):
            first = F.timestamp_micros(F.lit(_FIRST_MICROS)).cast(field.dataType)
            rules[f"{field.name} is before the year 1, which as a partition would be another year"] = (
                column < first
            )
        if kind not in ("string", "binary"):
            continue
        column = column.cast("string")
        if kind == "binary":
            rules[
                f"{field.name} has bytes that are no text, which no folder has in its name"
            ] = ~F.is_valid_utf8(column)
        rules[f"{field.name} is empty, which as a partition would be null"] = column == ""
        rules[f"{field.name} is {_NULL}, which as a partition would be null"] = column == _NULL
        if is_mapped:
            continue
        size = F.octet_length(F.regexp_replace(column, _ESCAPED, "%XX")) + len(field.name.encode()) + 1
        sizes.append(F.coalesce(size, F.lit(0)))
        rules[f"{field.name} has a character U+0000, which no folder has in its name"] = column.contains(
            "\x00"
        )
        if not is_object_store(path):
            rules[f"{field.name} is too long for the name of a folder"] = size > _MOST_BYTES
    if sizes and is_object_store(path):
        most = _MOST_KEY_BYTES - len(urlsplit(path).path.encode())
        rules["the values of its partition are too long for the name of an object"] = (
            reduce(add, sizes) > most
        )
    return rules
