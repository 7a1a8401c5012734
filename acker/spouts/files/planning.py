"""The entries of a plan for new files: how many lines or rows each file has, or why it is left out.

An entry has `end`, the number of lines or rows, and where they are needed: `packed`, how a file of text is
unpacked if its name does not tell; `nulls`, the columns of Parquet that have no type; and `why`, the reason
why nothing of the file is read. So one file that cannot be read stops no other.
"""

from collections.abc import Mapping
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from acker.core.paths import absolute
from acker.spouts.files.columns import footers, unite
from acker.spouts.files.packing import IN_SILENCE, broken, packings, way_of_name
from acker.spouts.files.reading import read_files, refused
from acker.spouts.files.walking import SourceFile

LARGEST_TEXT_BYTES = 1 << 30  # a text file is read whole by one task, so that its lines can be counted
_TOO_LARGE = f"larger than {LARGEST_TEXT_BYTES >> 30} GiB"

Entry = Mapping[str, Any]


def text_entries(spark: SparkSession, folder: str, files: Mapping[str, SourceFile]) -> dict[str, Entry]:
    """The entries of a plan for files of text, without those that cannot be opened at the moment.

    Args:
        folder: path or URI.
        files: the files by their paths below the folder, in their order.
    """
    found: dict[str, Entry] = {
        path: _left_out(_TOO_LARGE) for path, file in files.items() if file.bytes > LARGEST_TEXT_BYTES
    }
    ways: dict[str, str] = {}
    for path, packing in packings(folder, [path for path in files if path not in found]).items():
        if packing.why is None:
            ways[path] = packing.way
        else:
            found[path] = _left_out(packing.why)
    found |= _counted(spark, folder, ways)
    return {path: found[path] for path in files if path in found}


def parquet_entries(
    spark: SparkSession, folder: str, files: Mapping[str, SourceFile], before: StructType | None
) -> tuple[dict[str, Entry], StructType]:
    """The entries of a plan for files of Parquet, and the columns of all files that were planned so far.

    Args:
        before: the columns of the files that were planned before.
    """
    told = footers(folder, list(files))
    columns, why = unite(spark, absolute(folder).rstrip("/"), told, before)
    found: dict[str, Entry] = {}
    for path, footer in told.items():
        if path in why:
            found[path] = _left_out(why[path])
        else:
            found[path] = {"end": footer.rows} | ({"nulls": list(footer.nulls)} if footer.nulls else {})
    return found, columns


def _left_out(why: str) -> Entry:
    return {"end": 0, "why": why}


def _counted(spark: SparkSession, folder: str, ways: Mapping[str, str]) -> dict[str, Entry]:
    """The entries of a plan for files of text that can be unpacked, as far as their first bytes tell."""
    torn = broken(folder, {path: way for path, way in ways.items() if way in IN_SILENCE})
    whole = {path: way for path, way in ways.items() if path not in torn}
    try:
        counts = _counts(spark, folder, whole)
    except PySparkException:
        more = broken(folder, {path: way for path, way in whole.items() if way})
        left = [path for path in whole if path not in more]
        more |= refused(left, lambda paths: _lines(spark, folder, {path: whole[path] for path in paths}))
        if not more:
            raise
        torn |= more
        counts = _counts(spark, folder, {path: way for path, way in whole.items() if path not in torn})
    return counts | {path: _left_out(why) for path, why in torn.items()}


def _counts(spark: SparkSession, folder: str, ways: Mapping[str, str]) -> dict[str, Entry]:
    if not ways:
        return {}
    size = F.sum(F.octet_length("value") + 1)
    lines = _lines(spark, folder, ways)
    sizes = lines.groupBy("_source_partition").agg(F.count("*").alias("lines"), size.alias("bytes"))
    found: dict[str, Entry] = {path: {"end": 0} for path in ways}
    for row in sizes.collect():
        path = row["_source_partition"]
        large = row["bytes"] > LARGEST_TEXT_BYTES + 1
        found[path] = _left_out(f"unpacked {_TOO_LARGE}") if large else {"end": row["lines"]}
    renamed = _renamed(ways)
    return {
        path: {**entry, "packed": renamed[path]} if renamed[path] and "why" not in entry else entry
        for path, entry in found.items()
    }


def _lines(spark: SparkSession, folder: str, ways: Mapping[str, str]) -> DataFrame:
    return read_files(spark, "text", absolute(folder).rstrip("/"), _renamed(ways), {"lineSep": "\n"})


def _renamed(ways: Mapping[str, str]) -> dict[str, str]:
    """Path -> the way in which a file is packed, where its name does not tell; empty for other files."""
    return {path: way if way != way_of_name(path) else "" for path, way in ways.items()}
