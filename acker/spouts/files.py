"""A folder of files as a spout: text, JSON lines, CSV or Parquet. Position = file and line or row."""

from collections import Counter
from collections.abc import Container, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from acker.core.errors import SourceError
from acker.core.events import Kind
from acker.core.paths import absolute
from acker.spouts.base import Backlog, Changed, History, Range
from acker.spouts.few import LINES, lines_of
from acker.spouts.globs import first_match, matches
from acker.spouts.lines import csv_rows, json_rows, split, text_rows
from acker.spouts.listing import IGNORED, Listing, SourceFile, list_folder, look_at
from acker.spouts.reading import read_files

LARGEST_TEXT_BYTES = 1 << 30  # a text file is read whole by one task, so that its lines can be counted

_EXAMPLES = 3  # names of files that a sentence has

_LINES_OF_TEXT = pa.schema(
    {"_source_partition": pa.string(), "_source_offset": pa.int64(), "value": pa.string()}
)


@dataclass(frozen=True)
class FileSpout:
    """Lines of text, JSON or CSV files, or rows of Parquet files, in a folder and below it.

    A file is read once, when it is first seen, and must not change afterwards: messages of one that
    changed or vanished are `lost`. Files are taken in the order of their names. A replay of few messages of
    text or JSON reads their files without Spark.

    Args:
        folder: path or URI.
        format: "text" emits a column `value`, one line a message, without its end of line; "json" and "csv"
            the columns of `schema`, blank lines left out; "parquet" the files' own columns.
        schema: DDL of the JSON objects or of the fields of CSV, such as "id bigint, name string".
        glob: which file names to take.
        ignore: names of files and folders that are left out all the same, as patterns like `glob`; by
            default what programs leave beside data, or write before it has its name.
        start: a path below the folder. Files whose paths sort before it are not read, whenever they come.
        header: whether each file of CSV begins with a line of the schema's names.
        delimiter: the character between fields of CSV. A field that holds it, or a quote, is in double
            quotes, with its own quotes doubled. A row is one line: one whose quotes go on in the next line
            fails, as the next one does.

    Raises:
        SourceError: what is given does not fit together.
    """

    folder: str
    format: Literal["text", "json", "csv", "parquet"] = "text"
    schema: str | None = None
    glob: str = "*"
    ignore: tuple[str, ...] = field(default=IGNORED, repr=False)
    start: str = ""
    header: bool = True
    delimiter: str = ","

    def __post_init__(self) -> None:
        if self.format not in ("text", "json", "csv", "parquet"):
            raise SourceError(f"FileSpout reads text, json, csv or parquet, not {self.format!r}.")
        if (self.format in ("json", "csv")) != (self.schema is not None):
            raise SourceError(
                "FileSpout needs a schema for json and csv, such as 'id bigint', and for those alone."
            )
        if self.format != "csv" and not (self.header and self.delimiter == ","):
            raise SourceError("FileSpout takes header and delimiter for csv alone; leave them out.")
        if len(self.delimiter) != 1 or self.delimiter in '"\r\n\0':
            raise SourceError(
                f"The delimiter {self.delimiter!r} cannot part fields: give one character that is neither a "
                "quote nor an end of line."
            )
        matches("", self.glob)
        first_match("", self.ignore)

    def message_schema(self, spark: SparkSession) -> StructType:
        """See `Spout`. Of Parquet files the columns of those that are there, none before the first."""
        if self.format == "parquet":
            paths = list(list_folder(self.folder).parted(self.glob, self.ignore, self.start)[0])
            rows = self._rows(spark, paths)
            return rows.drop("_source_partition", "_source_offset").schema
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
        fresh = list(self._unread(history).items())
        # Counted in slices, so that a huge folder is not counted whole before its first batch.
        for start in range(0, len(fresh), 1_000):
            counts = self._count(spark, [path for path, _ in fresh[start : start + 1_000]])
            for path, file in fresh[start : start + 1_000]:
                end = counts.get(path, 0)
                if room <= 0 and end > 0:
                    return {"files": files}
                upto = min(end, room)
                files.append({"path": path, "mark": file.mark, "after": 0, "upto": upto, "end": end})
                room -= upto
                if upto < end:
                    return {"files": files}
        return {"files": files} if files else None

    def read_range(self, spark: SparkSession, planned: Range) -> DataFrame:
        """See `Spout`."""
        files = [file for file in planned["files"] if file["upto"] > file["after"]]
        found = look_at(self.folder, [file["path"] for file in files])
        held = [file for file in files if _is_unchanged(found, file["path"], file["mark"])]
        gone = [file for file in files if not _is_unchanged(found, file["path"], file["mark"])]
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
        held = self._held(positions, history)
        few = lines_of(self.folder, held, positions) if self.format in ("text", "json") else None
        if few is not None:
            lines = spark.createDataFrame(few, LINES)
            return self._of_lines(lines.withColumn("value", F.col("value").cast("string")))
        names = {"source_partition": "_source_partition", "source_offset": "_source_offset"}
        wanted = spark.createDataFrame(positions.rename_columns(names))
        rows = self._rows(spark, list(held))
        return rows.join(F.broadcast(wanted), ["_source_partition", "_source_offset"], "left_semi")

    def read_few(self, positions: pa.Table, history: History) -> pa.Table | None:
        """See `ReadsFew`. Lines of text that are UTF-8."""
        lines = None
        if self.format == "text":
            lines = lines_of(self.folder, self._held(positions, history), positions)
        if lines is None:
            return None
        try:
            found = lines.cast(_LINES_OF_TEXT)
        except pa.ArrowInvalid:  # Spark says of which line
            return None
        return found.set_column(2, "value", pc.replace_substring_regex(found["value"], "\r\\z", ""))

    def _held(self, positions: pa.Table, history: History) -> dict[str, SourceFile]:
        """The files of some positions that are as they were when they were planned, by their paths."""
        marks = _marks(history)
        paths = sorted(set(positions["source_partition"].to_pylist()))
        found = look_at(self.folder, paths)
        return {path: found[path] for path in paths if _is_unchanged(found, path, marks.get(path))}

    def backlog(self, history: History) -> Backlog:
        """See `HasBacklog`. Of files that were begun it knows the rows, of others the bytes."""
        found, marks = list_folder(self.folder), _marks(history)
        fresh, left_out = self._parted(found, marks)
        begun = [file for file in (history.newest or {"files": []})["files"] if file["upto"] < file["end"]]
        unread = {
            "files": len(fresh) + len(begun),
            "rows": sum(file["end"] - file["upto"] for file in begun),
            "bytes": sum(file.bytes for file in fresh.values()),
        }
        there = [found.files[file["path"]] for file in begun if file["path"] in found.files]
        oldest = min((file.changed_at for file in (*fresh.values(), *there)), default=None)
        unread = {unit: count for unit, count in unread.items() if count}
        return Backlog(unread, oldest, dict(left_out), changed=self._changed(found, marks))

    def _changed(self, found: Listing, marks: Mapping[str, str]) -> Changed | None:
        """The files that are others than when they were read, and that the spout would read if it could."""
        differing = replace(found, files=found.differing(marks), nameless=0)
        changed, _ = differing.parted(self.glob, self.ignore, self.start)
        return Changed(len(changed), tuple(sorted(changed)[:_EXAMPLES])) if changed else None

    def _parted(self, found: Listing, known: Container[str]) -> tuple[dict[str, SourceFile], Counter[str]]:
        """The files that no range has named yet: those that are to be read, and why others are left out."""
        return found.without(known).parted(self.glob, self.ignore, self.start)

    def _unread(self, history: History) -> dict[str, SourceFile]:
        taken, _ = self._parted(list_folder(self.folder), _marks(history))
        large = [path for path, file in taken.items() if file.bytes > LARGEST_TEXT_BYTES]
        if large and self.format != "parquet":
            raise SourceError(
                f"{large[0]} is larger than {LARGEST_TEXT_BYTES >> 30} GiB, the most that a text file may "
                "have; split it, or write Parquet."
            )
        return taken

    @property
    def _root(self) -> str:
        return absolute(self.folder).rstrip("/")

    def _read(self, spark: SparkSession, paths: list[str], **options: str) -> DataFrame:
        return read_files(
            spark, "parquet" if self.format == "parquet" else "text", self._root, paths, options
        )

    def _count(self, spark: SparkSession, paths: list[str]) -> dict[str, int]:
        options = {} if self.format == "parquet" else {"lineSep": "\n"}
        counts = self._read(spark, paths, **options).groupBy("_source_partition").count()
        return {row["_source_partition"]: row["count"] for row in counts.collect()}

    def _rows(self, spark: SparkSession, paths: list[str]) -> DataFrame:
        """All messages of some files; an empty frame of the same columns where there are none."""
        if self.format == "parquet":
            nothing = "_source_partition string, _source_offset bigint"
            return self._read(spark, paths) if paths else spark.createDataFrame([], nothing)
        if paths:
            whole = self._read(spark, paths, wholetext="true")
        else:
            whole = spark.createDataFrame([], "_source_partition string, value string")
        if self.format == "csv" and self.schema is not None:
            names = self.message_schema(spark).names if self.header else None
            return csv_rows(whole, self.schema, names, self.delimiter)
        return self._of_lines(split(whole))

    def _of_lines(self, lines: DataFrame) -> DataFrame:
        return text_rows(lines) if self.schema is None else json_rows(lines, self.schema)


def _marks(history: History) -> dict[str, str]:
    """The files that a spout has planned, each with its mark as it was then."""
    return {file["path"]: file["mark"] for planned in history.every() for file in planned["files"]}


def _is_unchanged(found: Mapping[str, SourceFile], path: str, mark: str | None) -> bool:
    return path in found and found[path].mark == mark


def _ranges(spark: SparkSession, files: list[dict[str, Any]]) -> DataFrame:
    rows = [(file["path"], file["after"], file["upto"]) for file in files]
    return spark.createDataFrame(rows, "_source_partition string, _after bigint, _upto bigint")
