"""A folder of files as a spout: text, JSON lines, CSV or Parquet. Position = file and line or row."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from typing import Any, Literal

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from acker.core.arguments import checked
from acker.core.ddl import check_schema, columns_in
from acker.core.errors import SourceError
from acker.core.events import Kind
from acker.core.paths import absolute
from acker.spouts.base import Backlog, Changed, History, Range, Spout
from acker.spouts.files.columns import decoded, parquet_rows
from acker.spouts.files.globs import first_match, matches
from acker.spouts.files.growing import GrowingFolder, Part, part_rows
from acker.spouts.files.grown import Look, named, split_entries
from acker.spouts.files.lines import csv_lines, csv_rows, json_rows, split, text_rows
from acker.spouts.files.listing import IGNORED, Listing, list_folder, look_at, told
from acker.spouts.files.local_reads import LINES, lines_of
from acker.spouts.files.planning import Entry, parquet_entries, text_entries
from acker.spouts.files.reading import read_files, refused
from acker.spouts.files.walking import SourceFile
from acker.spouts.parsed.csv_fields import CsvFields
from acker.spouts.parsed.json_objects import JsonObjects
from acker.spouts.parsed.workers import columns_of, fields_of, zone_of

_AT_ONCE = 1_000  # new files that are looked into together


_CHANGED = "file changed or vanished"
Wanted = Callable[[DataFrame], DataFrame]

_LINES_OF_TEXT = pa.schema(
    {"_source_partition": pa.string(), "_source_offset": pa.int64(), "value": pa.string()}
)


@checked
@dataclass(frozen=True)
class FileSpout:
    """Lines of text, JSON or CSV files, or rows of Parquet files, in a folder and below it.

    A file is read once, when it is first seen, and must not change afterwards: the messages of a file that
    changed or vanished are `lost`. Files are taken in the order of their paths. A file that cannot be read,
    as it is packed in an unknown way or is no Parquet, is left out with the reason and stops no other. A
    replay of few messages of text or JSON reads their files without Spark.

    Args:
        folder: path or URI of the folder.
        format: "text" emits a column `value`, one line a message, without its end of line; "json" and "csv"
            the columns of `schema`, blank lines left out; "parquet" the files' own columns.
        schema: DDL of the JSON objects or of the fields of CSV, such as "id bigint, name string".
        glob: the pattern of the file names to take.
        ignore: names of files and folders that are left out all the same, as patterns like `glob`; by
            default those of files that programs leave beside data, or write before the data has its name.
        start: a path below the folder. Files whose paths sort before it are not read, whenever they come.
        header: whether each file of CSV begins with a line of the schema's names.
        delimiter: the character between fields of CSV. A field that holds it, or a quote, is in double
            quotes, with its own quotes doubled. A row is one line: one whose quotes go on in the next line
            fails, as the next one does.
        grows: whether files only grow, as logs do. A line that is appended to a file is read when it is
            whole. A file that does not hold its read lines any more has changed. Not for Parquet.
        null: a field of CSV that stands for null, as an empty one does, such as "NA".
        escape: a backslash, where it makes the quote or backslash after it a part of a CSV field. By default
            a backslash is a character like others.

    Raises:
        SourceError: the arguments do not fit together.
    """

    folder: str
    format: Literal["text", "json", "csv", "parquet"] = "text"
    schema: str | None = None
    glob: str = "*"
    ignore: tuple[str, ...] = field(default=IGNORED, repr=False)
    start: str = ""
    header: bool = True
    delimiter: str = ","
    grows: bool = False
    null: str = ""
    escape: Literal["\\"] | None = None
    _broken: Mapping[str, str] = field(default_factory=dict, repr=False, compare=False)  # path -> why

    def __post_init__(self) -> None:
        if (self.format in ("json", "csv")) != (self.schema is not None):
            raise SourceError(
                "FileSpout needs a schema for json and csv, such as 'id bigint', and for those alone."
            )
        own = (self.header, self.delimiter, self.null, self.escape)
        if self.format != "csv" and own != (True, ",", "", None):
            raise SourceError(
                "FileSpout takes header, delimiter, null and escape for csv alone; leave them out."
            )
        if len(self.delimiter) != 1 or self.delimiter in '"\r\n\0':
            raise SourceError(
                f"The delimiter {self.delimiter!r} cannot part fields: give one character that is neither a "
                "quote nor an end of line."
            )
        if self.grows and self.format == "parquet":
            raise SourceError("Files of Parquet cannot grow: leave grows out, and write new files.")
        if self.schema is not None:
            check_schema("schema of FileSpout", self.schema)
        matches("", self.glob)
        first_match("", self.ignore)

    def message_schema(self, spark: SparkSession) -> StructType:
        """See `Spout`. For Parquet the columns are those of the files that are there, none without files."""
        if self.format == "parquet":
            taken, _ = list_folder(self.folder, self.ignore).parted(self.glob, self.ignore, self.start)
            return parquet_entries(spark, self.folder, dict(islice(taken.items(), _AT_ONCE)), None)[1]
        return columns_of(spark, self.schema or "value string").toNullable()

    def message_columns(self) -> dict[str, str]:
        """See `TellsColumns`. The columns of Parquet files are not known."""
        return {} if self.format == "parquet" else columns_in(self.schema or "value string")

    def next_range(self, spark: SparkSession, history: History, limit: int) -> Range | None:
        """See `Spout`. A range lists files with their fingerprints and (after, upto] of lines or rows."""
        if self.grows:
            growing = self._look(_entries(history), history).next_files(limit)
            return {"files": growing} if growing else None
        newest = history.newest
        files: list[dict[str, Any]] = []
        room = limit
        for last in newest["files"] if newest else ():
            if last["upto"] < last["end"]:  # the range before this one ended within the file
                upto = min(last["end"], last["upto"] + room)
                files.append({**last, "after": last["upto"], "upto": upto})
                if upto < last["end"]:
                    return self._range(files, self._columns(spark, history))
                room -= upto - last["upto"]
        fresh = list(self._unread(history).items())
        if fresh and self.schema is not None:
            columns_of(spark, self.schema)  # which may have to be refused, before anything is read
        columns = self._columns(spark, history)
        # Looked into in slices, so that a huge folder is not counted whole before its first batch.
        for start in range(0, len(fresh), _AT_ONCE):
            some = dict(fresh[start : start + _AT_ONCE])
            if self.format == "parquet":
                found, columns = parquet_entries(spark, self.folder, some, columns)
            else:
                found = text_entries(spark, self.folder, some)
            for path, entry in found.items():
                if room <= 0 and entry["end"] > 0:
                    return self._range(files, columns)
                upto = min(entry["end"], room)
                files.append({"path": path, "mark": some[path].mark, "after": 0, "upto": upto, **entry})
                room -= upto
                if upto < entry["end"]:
                    return self._range(files, columns)
        return self._range(files, columns) if files else None

    def _range(self, files: list[dict[str, Any]], columns: StructType | None) -> Range:
        return {"files": files} | ({} if columns is None else {"columns": columns.jsonValue()})

    def read_range(self, spark: SparkSession, planned: Range) -> DataFrame:
        """See `Spout`."""
        files = [file for file in planned["files"] if file["upto"] > file["after"]]
        entries = {file["path"]: file for file in files}
        there = self._held(entries, entries)
        held = [file for file in files if file["path"] in there]
        gone = [file for file in files if file["path"] not in there]
        ranges = F.broadcast(_ranges(spark, held, {}).drop("_why"))
        within = (F.col("_source_offset") > F.col("_after")) & (F.col("_source_offset") <= F.col("_upto"))
        rows = self._rows(
            spark,
            there,
            entries,
            lambda lines: lines.join(ranges, "_source_partition").where(within).drop("_after", "_upto"),
            planned.get("columns"),
        )
        if not gone:
            return rows
        lost = _ranges(spark, gone, self._broken).select(
            "_source_partition",
            F.explode(F.sequence(F.col("_after") + 1, F.col("_upto"))).alias("_source_offset"),
            "_why",
        )
        return rows.unionByName(_lost(lost), allowMissingColumns=True)

    def message_counts(self, planned: Range) -> Mapping[str, int] | None:
        """See `CountsMessages`. None for JSON and CSV: plans count blank lines, which are no messages."""
        if self.format == "json" or self.format == "csv":
            return None
        return {file["path"]: file["upto"] - file["after"] for file in planned["files"]}

    def passing_over(
        self,
        partitions: Collection[str],
        read: Callable[[Spout], DataFrame],
        counts: Mapping[str, int] | None,
    ) -> "FileSpout | None":
        """See `PassesOver`. Of Parquet files a plan has read no more than their footers."""
        paths = [path for path in partitions if path not in self._broken]
        found = decoded(self.folder, paths) if self.format == "parquet" else dict.fromkeys(paths)
        broken = {path: why for path, why in found.items() if why}

        def of_some(some: Collection[str]) -> DataFrame:
            return read(replace(self, _broken={**self._broken, **dict.fromkeys(set(paths) - set(some), "")}))

        broken |= refused([path for path in found if path not in broken], of_some, counts)
        return replace(self, _broken={**self._broken, **broken}) if broken else None

    def ends(self, planned: Range) -> dict[str, int]:
        """See `Spout`."""
        files = planned["files"]
        return {file["path"]: file["upto"] + 1 for file in files if file["upto"] > file["after"]}

    def read_positions(self, spark: SparkSession, positions: pa.Table, history: History) -> DataFrame:
        """See `Spout`."""
        entries, wanted = _entries(history), pl.DataFrame(positions)
        held = self._held(set(wanted["source_partition"]), entries)
        found = self._held_rows(spark, positions, history, held)
        partition, broken = pl.col("source_partition"), {p: _why_lost(p, self._broken) for p in self._broken}
        why = partition.replace_strict(broken, default=_CHANGED, return_dtype=pl.String)
        gone = wanted.filter(~partition.is_in(list(held))).select(pl.all().name.prefix("_"), _why=why)
        if gone.is_empty():
            return found
        return found.unionByName(_lost(spark.createDataFrame(gone.to_arrow())), allowMissingColumns=True)

    def _held_rows(
        self, spark: SparkSession, positions: pa.Table, history: History, held: Mapping[str, SourceFile]
    ) -> DataFrame:
        """The messages at some positions, of files that still hold their read contents."""
        entries = _entries(history)
        few = lines_of(self.folder, held, positions) if self._is_plain(held, entries) else None
        if few is not None:
            lines = spark.createDataFrame(few, LINES)
            return self._messages(spark, lines.withColumn("value", F.col("value").cast("string")))
        names = {"source_partition": "_source_partition", "source_offset": "_source_offset"}
        wanted = F.broadcast(spark.createDataFrame(positions.rename_columns(names)))
        keys = ["_source_partition", "_source_offset"]
        columns = self._columns(spark, history)
        return self._rows(
            spark,
            held,
            entries,
            lambda lines: lines.join(wanted, keys, "left_semi"),
            columns and columns.jsonValue(),
        )

    def read_locally(self, positions: pa.Table, history: History) -> pa.Table | None:
        """See `ReadsLocally`. It reads lines of text in UTF-8, of files that have not changed."""
        entries, lines = _entries(history), None
        wanted = set(positions["source_partition"].to_pylist())
        held = self._held(wanted, entries)
        if self.format == "text" and held.keys() >= wanted and self._is_plain(held, entries):
            lines = lines_of(self.folder, held, positions)
        if lines is None:
            return None
        try:
            found = lines.cast(_LINES_OF_TEXT)
        except pa.ArrowInvalid:  # Spark says of which line
            return None
        return found.set_column(2, "value", pc.replace_substring_regex(found["value"], "\r\\z", ""))

    def gone_of(self, positions: pa.Table, history: History) -> Mapping[str, int]:
        """See `TellsGone`. Of files that grow it compares the ends of what was read."""
        counts = dict(pl.DataFrame(positions).group_by("source_partition").len().iter_rows())
        held = self._held(counts, _entries(history), is_quick=True)
        return {f"{_CHANGED}: {path}": count for path, count in counts.items() if path not in held}

    def _held(
        self, wanted: Iterable[str], entries: Mapping[str, Entry], is_quick: bool = False
    ) -> dict[str, SourceFile]:
        """Name in the plans -> the file, for each wanted file that still holds its read contents.

        Args:
            wanted: names in the plans.
            entries: the files' entries in the plans.
            is_quick: whether only the ends of the read contents are compared where files grow.
        """
        asked = set(wanted) & entries.keys() - self._broken.keys()
        fixed, growing = split_entries(entries[name] for name in sorted(asked) if "why" not in entries[name])
        there = look_at(self.folder, list(fixed))
        found = {path: there[path] for path in fixed if _is_unchanged(there, path, fixed[path]["mark"])}
        if growing:
            folder = GrowingFolder(self.folder)
            listed = partial(list_folder, self.folder, self.ignore)
            found |= folder.quickly(growing, listed()) if is_quick else folder.verified(growing, listed)
        return found

    def _look(self, entries: Mapping[str, Entry], history: History) -> Look:
        return Look(
            GrowingFolder(self.folder),
            list_folder(self.folder, self.ignore),
            entries,
            history.newest,
            lambda found, known: found.parted(self.glob, self.ignore, self.start, known),
        )

    def _is_plain(self, held: Mapping[str, SourceFile], entries: Mapping[str, Entry]) -> bool:
        """Whether some files have one message a line, and none is packed otherwise than its name tells."""
        return self.format in ("text", "json") and not any("packed" in entries[path] for path in held)

    def backlog(self, history: History) -> Backlog:
        """See `HasBacklog`. Files that were begun are counted in rows, others in bytes."""
        if self.grows:
            return self._look(_entries(history), history).backlog()
        found, entries = list_folder(self.folder, self.ignore), _entries(history)
        fresh, left_out = self._parted(found, entries)
        begun = [file for file in (history.newest or {"files": []})["files"] if file["upto"] < file["end"]]
        unread = {
            "files": len(fresh) + len(begun),
            "rows": sum(file["end"] - file["upto"] for file in begun),
            "bytes": sum(file.bytes for file in fresh.values()),
        }
        there = [found.files[file["path"]] for file in begun if file["path"] in found.files]
        oldest = min((file.changed_at for file in (*fresh.values(), *there)), default=None)
        unread = {unit: count for unit, count in unread.items() if count}
        read = [path for path, entry in entries.items() if "why" not in entry]
        changed, gone = self._changed(found, entries), named(found.missing(read))
        return Backlog(unread, oldest, dict(left_out), {}, changed, gone, found.is_empty)

    def _changed(self, found: Listing, entries: Mapping[str, Entry]) -> Changed | None:
        """The files that changed since they were read, and that the spout would read by their names."""
        marks = {path: entry["mark"] for path, entry in entries.items() if "why" not in entry}
        differing = replace(found, files=found.differing(marks), nameless=0, others={})
        changed, _ = differing.parted(self.glob, self.ignore, self.start)
        return named(changed)

    def _parted(
        self, found: Listing, entries: Mapping[str, Entry]
    ) -> tuple[dict[str, SourceFile], Counter[str]]:
        """The files that no range has named yet: those that are to be read, and why others are left out.

        A file that a range names as left out may be read once it has changed.
        """
        known: set[str] = set()
        unread: dict[str, list[str]] = {}
        for path, entry in entries.items():
            if "why" not in entry:
                known.add(path)
            elif _is_unchanged(found.files, path, entry["mark"]):
                known.add(path)
                unread.setdefault(entry["why"], []).append(path)
        taken, left_out = found.parted(self.glob, self.ignore, self.start, known)
        return taken, left_out + told(unread)

    def _unread(self, history: History) -> dict[str, SourceFile]:
        return self._parted(list_folder(self.folder, self.ignore), _entries(history))[0]

    def _columns(self, spark: SparkSession, history: History) -> StructType | None:
        """The columns of the planned Parquet files; None for other formats, and before the first plan."""
        newest = history.newest
        if self.format != "parquet" or newest is None:
            return None
        if "columns" in newest:
            return StructType.fromJson(newest["columns"])
        return self._own_columns(spark, _entries(history))  # of a version that did not note them

    def _own_columns(self, spark: SparkSession, entries: Mapping[str, Entry]) -> StructType:
        """The columns of some Parquet files, as far as these are unchanged."""
        found = look_at(self.folder, list(entries))
        held = {p: found[p] for p, entry in entries.items() if _is_unchanged(found, p, entry["mark"])}
        return parquet_entries(spark, self.folder, held, None)[1]

    @property
    def _root(self) -> str:
        return absolute(self.folder).rstrip("/")

    def _rows(
        self,
        spark: SparkSession,
        held: Mapping[str, SourceFile],
        entries: Mapping[str, Entry],
        wanted: Wanted = lambda rows: rows,
        columns: Any = None,
    ) -> DataFrame:
        """Messages of some files; an empty frame where there are no files.

        The empty frame has the same columns, but for Parquet only those of the position.

        Args:
            held: the files by their names in the plans.
            entries: the files' entries in the plans.
            wanted: the function that chooses among lines, before they are read as rows, or among rows of
                Parquet.
            columns: the columns of Parquet, as JSON.
        """
        parts = {name: file for name, file in held.items() if isinstance(file, Part)}
        files = {path: entries[path] for path in held if path not in parts}
        if self.format == "parquet":
            nothing = "_source_partition string, _source_offset bigint"
            nulls = {path: entry.get("nulls", ()) for path, entry in files.items()}
            if not files:
                return spark.createDataFrame([], nothing)
            schema = StructType.fromJson(columns) if columns else self._own_columns(spark, files)
            return wanted(parquet_rows(spark, self._root, nulls, schema))
        ways = {path: entry.get("packed", "") for path, entry in files.items()}
        if files:
            whole = read_files(spark, "text", self._root, ways, {"wholetext": "true"})
        else:
            whole = spark.createDataFrame([], "_source_partition string, value string")
        if parts:
            whole = whole.unionByName(part_rows(spark, self._root, parts))
        if self.format == "csv":
            parser = self._csv(spark)
            return csv_rows(wanted(csv_lines(whole, parser, self.header)), parser, self.header)
        return self._messages(spark, wanted(split(whole)))

    def _messages(self, spark: SparkSession, lines: DataFrame) -> DataFrame:
        if self.schema is None:
            return text_rows(lines)
        columns = columns_of(spark, self.schema)
        return json_rows(lines, JsonObjects(fields_of(columns, nested=True), zone_of(spark, columns)))

    def _csv(self, spark: SparkSession) -> CsvFields:
        columns = columns_of(spark, str(self.schema))
        fields, zone = fields_of(columns, nested=False), zone_of(spark, columns)
        return CsvFields(fields, zone, self.delimiter, self.null, self.escape is not None)


def _entries(history: History) -> dict[str, Entry]:
    """Name of a file in the plans -> its entry in the newest plan with it, in the order of these plans."""
    found: dict[str, Entry] = {}
    for planned in history.every():
        for file in planned["files"]:
            found.pop(file["path"], None)
            found[file["path"]] = file
    return found


def _is_unchanged(found: Mapping[str, SourceFile], path: str, mark: str | None) -> bool:
    return path in found and found[path].mark == mark


def _lost(positions: DataFrame) -> DataFrame:
    """A `lost` message for each position, with the reason and the file's name in `_error`.

    Args:
        positions: `_source_partition`, `_source_offset`, and `_why`, the reason.
    """
    why = F.concat(F.col("_why"), F.lit(": "), F.col("_source_partition"))
    return positions.withColumns({"_kind": F.lit(Kind.LOST.value), "_error": why}).drop("_why")


def _ranges(spark: SparkSession, files: list[dict[str, Any]], broken: Mapping[str, str]) -> DataFrame:
    rows = [(each["path"], each["after"], each["upto"], _why_lost(each["path"], broken)) for each in files]
    return spark.createDataFrame(rows, "_source_partition string, _after bigint, _upto bigint, _why string")


def _why_lost(path: str, broken: Mapping[str, str]) -> str:
    return f"file cannot be read, {broken[path]}" if path in broken else _CHANGED
