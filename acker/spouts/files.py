"""A folder of files as a spout: text, JSON lines or Parquet. Position = file and line or row."""

from dataclasses import dataclass
from typing import Any, Literal

import pyarrow as pa
from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from acker.core.errors import SourceError
from acker.core.events import Kind
from acker.core.paths import absolute, without_pattern
from acker.spouts.base import History, Range, check_reserved

LARGEST_TEXT_BYTES = 1 << 30  # a text file is read whole by one task, so that its lines can be counted
_CORRUPT = "_corrupt"


@dataclass(frozen=True)
class FileSpout:
    """Lines of text or JSON files, or rows of Parquet files, in a folder and below it.

    A file is read once, when it is first seen, and must not change afterwards: messages of one that
    changed or vanished are `lost`. Files are taken in the order of their names.

    Args:
        folder: path or URI.
        format: "text" emits a column `value`, one line a message, without its end of line; "json" the
            columns of `schema`, blank lines left out; "parquet" the files' own columns.
        schema: DDL of the JSON objects, such as "id bigint, name string".
        glob: which file names to take.
    """

    folder: str
    format: Literal["text", "json", "parquet"] = "text"
    schema: str | None = None
    glob: str = "*"

    def __post_init__(self) -> None:
        if self.format not in ("text", "json", "parquet"):
            raise SourceError(f"FileSpout reads text, json or parquet, not {self.format!r}.")
        if (self.format == "json") != (self.schema is not None):
            raise SourceError("FileSpout needs a schema for json, such as 'id bigint', and for json alone.")

    def message_schema(self, spark: SparkSession) -> StructType:
        """See `Spout`. Of Parquet files the columns of those that are there, none before the first."""
        if self.format == "parquet":
            paths = sorted(self._listing(spark))
            return self._read(spark, paths).schema if paths else StructType()
        return spark.createDataFrame([], self.schema or "value string").schema

    def next_range(self, spark: SparkSession, history: History, limit: int) -> Range | None:
        """See `Spout`. A range lists files with their fingerprints and (after, upto] of lines or rows."""
        newest = history.newest
        files: list[dict[str, Any]] = []
        room = limit
        for last in newest["files"] if newest else ():
            if last["upto"] < last["end"]:  # the range before this one ended within the file
                upto = min(last["end"], last["upto"] + room)
                files.append({**last, "after": last["upto"], "upto": upto})
                if upto < last["end"]:
                    return {"files": files}
                room -= upto - last["upto"]
        known = {file["path"] for planned in history.every() for file in planned["files"]}
        fresh = sorted((path, mark) for path, mark in self._listing(spark).items() if path not in known)
        # Counted in slices, so that a huge folder is not counted whole before its first batch.
        for start in range(0, len(fresh), 1_000):
            counts = self._count(spark, [path for path, _ in fresh[start : start + 1_000]])
            for path, mark in fresh[start : start + 1_000]:
                end = counts.get(path, 0)
                if room <= 0 and end > 0:
                    return {"files": files}
                upto = min(end, room)
                files.append({"path": path, "mark": mark, "after": 0, "upto": upto, "end": end})
                room -= upto
                if upto < end:
                    return {"files": files}
        return {"files": files} if files else None

    def read_range(self, spark: SparkSession, planned: Range) -> DataFrame:
        """See `Spout`."""
        files = [file for file in planned["files"] if file["upto"] > file["after"]]
        listing = self._listing(spark)
        held = [file for file in files if listing.get(file["path"]) == file["mark"]]
        gone = [file for file in files if listing.get(file["path"]) != file["mark"]]
        rows = self._rows(spark, [file["path"] for file in held])
        ranges = _ranges(spark, held)
        rows = rows.join(F.broadcast(ranges), "_source_partition").where(
            (F.col("_source_offset") > F.col("_after")) & (F.col("_source_offset") <= F.col("_upto"))
        )
        rows = rows.drop("_after", "_upto")
        if not gone:
            return rows
        lost = _ranges(spark, gone).select(
            "_source_partition",
            F.explode(F.sequence(F.col("_after") + 1, F.col("_upto"))).alias("_source_offset"),
            F.lit(Kind.LOST.value).alias("_kind"),
            F.concat(F.lit("file changed or vanished: "), F.col("_source_partition")).alias("_error"),
        )
        return rows.unionByName(lost, allowMissingColumns=True)

    def ends(self, planned: Range) -> dict[str, int]:
        """See `Spout`."""
        files = planned["files"]
        return {file["path"]: file["upto"] + 1 for file in files if file["upto"] > file["after"]}

    def read_positions(self, spark: SparkSession, positions: pa.Table, history: History) -> DataFrame:
        """See `Spout`."""
        wanted = spark.createDataFrame(
            positions.rename_columns(
                {"source_partition": "_source_partition", "source_offset": "_source_offset"}
            )
        )
        marks = {file["path"]: file["mark"] for planned in history.every() for file in planned["files"]}
        listing = self._listing(spark)
        paths = set(positions["source_partition"].to_pylist())
        held = sorted(path for path in paths if path in listing and listing[path] == marks.get(path))
        rows = self._rows(spark, held)
        return rows.join(F.broadcast(wanted), ["_source_partition", "_source_offset"], "left_semi")

    def _listing(self, spark: SparkSession) -> dict[str, str]:
        """File (relative to the folder) -> its fingerprint: length and time of change."""
        try:
            files = (
                spark.read.format("binaryFile")
                .option("recursiveFileLookup", "true")
                .option("pathGlobFilter", self.glob)
                .load(absolute(self.folder))
                .select("path", "length", F.unix_millis("modificationTime").alias("millis"))
                .toArrow()
                .to_pylist()
            )
        except AnalysisException as error:
            raise SourceError(
                f"The folder {absolute(self.folder)} cannot be read: it is not there."
            ) from error
        large = [f["path"] for f in files if f["length"] > LARGEST_TEXT_BYTES and self.format != "parquet"]
        if large:
            raise SourceError(
                f"{large[0]} is larger than {LARGEST_TEXT_BYTES >> 30} GiB, the most that a text file may "
                "have; split it, or write Parquet."
            )
        return {self._relative(f["path"]): f"{f['length']}:{f['millis']}" for f in files}

    def _relative(self, path: str) -> str:
        root = absolute(self.folder).rstrip("/") + "/"
        bare = path.removeprefix("file://").removeprefix("file:")
        return bare.removeprefix(root)

    def _read(self, spark: SparkSession, paths: list[str], **options: str) -> DataFrame:
        root = absolute(self.folder).rstrip("/")
        # Brackets and stars in a file's own name would be read as patterns.
        escaped = [f"{root}/{without_pattern(path)}" for path in paths]
        form = "parquet" if self.format == "parquet" else "text"
        frame = spark.read.format(form).options(**options).load(escaped)
        check_reserved(root, frame.columns)
        return frame

    def _file(self) -> Column:
        """The file's name relative to the folder; Spark hands it out as an encoded URI."""
        root = absolute(self.folder).rstrip("/") + "/"
        path = F.regexp_replace(
            F.url_decode(F.regexp_replace(F.col("_metadata.file_path"), r"\+", "%2B")), "^file:(//)?", ""
        )
        return F.substring(path, len(root) + 1, 1 << 30)

    def _count(self, spark: SparkSession, paths: list[str]) -> dict[str, int]:
        options = {} if self.format == "parquet" else {"lineSep": "\n"}
        counts = self._read(spark, paths, **options).groupBy(self._file().alias("path")).count()
        return {row["path"]: row["count"] for row in counts.collect()}

    def _rows(self, spark: SparkSession, paths: list[str]) -> DataFrame:
        """All messages of some files; an empty frame of the same columns where there are none."""
        if self.format == "parquet":
            return self._parquet_rows(spark, paths)
        if paths:
            whole = self._read(spark, paths, wholetext="true").select(
                self._file().alias("_source_partition"), "value"
            )
        else:
            whole = spark.createDataFrame([], "_source_partition string, value string")
        lines = whole.select("_source_partition", F.posexplode(_lines()).alias("_line", "value")).select(
            "_source_partition",
            (F.col("_line") + 1).cast("bigint").alias("_source_offset"),
            F.when(F.endswith("value", F.lit("\r")), F.expr("left(value, length(value) - 1)"))
            .otherwise(F.col("value"))
            .alias("value"),
        )
        return self._json_rows(lines) if self.format == "json" else _text_rows(lines)

    def _json_rows(self, lines: DataFrame) -> DataFrame:
        # The schema is the user's own DDL; the extra field catches what does not parse.
        parsed = F.from_json(
            "value", f"{self.schema}, {_CORRUPT} string", {"columnNameOfCorruptRecord": _CORRUPT}
        )
        rows = _text_rows(lines.where(F.trim("value") != "")).withColumn("parsed", parsed)
        bad = F.col("_kind").isNull() & F.col(f"parsed.{_CORRUPT}").isNotNull()
        rows = rows.withColumns(
            {
                "_kind": F.when(bad, Kind.FAIL.value).otherwise(F.col("_kind")),
                "_error": F.when(
                    bad, F.concat(F.lit("not valid JSON for the schema: "), F.substring("value", 1, 200))
                ).otherwise(F.col("_error")),
            }
        )
        return rows.select("_source_partition", "_source_offset", "_kind", "_error", "parsed.*").drop(
            _CORRUPT
        )

    def _parquet_rows(self, spark: SparkSession, paths: list[str]) -> DataFrame:
        if not paths:
            return spark.createDataFrame([], "_source_partition string, _source_offset bigint")
        frame = self._read(spark, paths)
        return frame.select(
            self._file().alias("_source_partition"),
            (F.col("_metadata.row_index") + 1).alias("_source_offset"),
            "*",
        )


def _lines() -> Column:
    """The lines of `value`, byte by byte.

    Spark splits a string as Java does, which puts U+FFFD where bytes are not UTF-8. In Latin-1 every byte is
    a character, so such a file is split as Latin-1.
    """
    latin = F.split(F.decode(F.col("value").cast("binary"), "ISO-8859-1"), "\n")
    as_they_were = F.transform(latin, lambda line: F.encode(line, "ISO-8859-1").cast("string"))
    return F.when(F.is_valid_utf8("value"), F.split("value", "\n")).otherwise(as_they_were)


def _text_rows(lines: DataFrame) -> DataFrame:
    valid = F.is_valid_utf8("value")
    return lines.select(
        "_source_partition",
        "_source_offset",
        F.when(~valid, Kind.FAIL.value).alias("_kind"),
        F.when(~valid, "not valid UTF-8").alias("_error"),
        F.make_valid_utf8("value").alias("value"),
    )


def _ranges(spark: SparkSession, files: list[dict[str, Any]]) -> DataFrame:
    rows = [(file["path"], file["after"], file["upto"]) for file in files]
    return spark.createDataFrame(rows, "_source_partition string, _after bigint, _upto bigint")
