"""Partitions of Delta tables are folders, named for the values of their rows: which values have no name."""

from collections.abc import Collection
from functools import reduce
from operator import add
from urllib.parse import urlsplit

from deltalake import DeltaTable
from pyspark.sql import Column
from pyspark.sql import functions as F

from acker.core.quoting import sql_name
from acker.core.schemas import is_far
from acker.spark.delta import schema_of

_ESCAPED = "[\\x01-\\x1f\\x7f\"#%'*/:=?\\\\{\\[\\]^]"  # three bytes each in the name of a partition's folder
_MOST_BYTES = 255  # of a name on a disk
_MOST_KEY_BYTES = 800  # of the 1,024 of an object's name what is below the table, without that of the file


def unwritable(path: str, table: DeltaTable, known: Collection[str]) -> dict[str, Column]:
    """What is said of values that no folder can be named for, or that would be read as another value.

    Args:
        known: the columns of the rows, in lower case.
    """
    metadata = table.metadata()
    if metadata.configuration.get("delta.columnMapping.mode", "none") != "none":
        return {}  # whose folders have names of their own
    rules: dict[str, Column] = {}
    sizes = []
    for field in schema_of(table).fields:
        is_folder = field.name in metadata.partition_columns and field.name.lower() in known
        if not is_folder or field.dataType.typeName() not in ("string", "binary"):
            continue
        column = F.col(sql_name(field.name)).cast("string")
        if field.dataType.typeName() == "binary":
            rules[
                f"{field.name} has bytes that are no text, which no folder has in its name"
            ] = ~F.is_valid_utf8(column)
        size = F.octet_length(F.regexp_replace(column, _ESCAPED, "%XX")) + len(field.name.encode()) + 1
        sizes.append(F.coalesce(size, F.lit(0)))
        rules[f"{field.name} is empty, which as a partition would be null"] = column == ""
        rules[f"{field.name} has a character U+0000, which no folder has in its name"] = column.contains(
            "\x00"
        )
        if not is_far(path):
            rules[f"{field.name} is too long for the name of a folder"] = size > _MOST_BYTES
    if sizes and is_far(path):
        most = _MOST_KEY_BYTES - len(urlsplit(path).path.encode())
        rules["the values of its partition are too long for the name of an object"] = (
            reduce(add, sizes) > most
        )
    return rules
