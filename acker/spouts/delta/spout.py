"""A Delta table as a spout. Every row is a message, once, at its position."""

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from acker.core.arguments import checked
from acker.core.errors import SourceError, StoreError
from acker.core.paths import absolute
from acker.core.quoting import column_name, sql_name
from acker.core.store.tables import files_of, open_table, query, query_table
from acker.spark.delta import read, read_files, schema_of
from acker.spouts.base import Backlog, History, Range, check_reserved
from acker.spouts.delta.local import has_at_most, rows_by_id, rows_by_key
from acker.spouts.delta.log import highest_row_id, oldest_commit
from acker.spouts.delta.same import check_same, signs_of
from acker.spouts.delta.vanished import as_planned, counted, lost_rows

MOST_LOOKED_AT = 10_000_000  # rows of a table of which all keys are compared
PARTITION = "0"  # a Delta table has one
_OFFSET = "_source_offset"
_ROW_ID = "_metadata.row_id"
_INTEGERS = ("tinyint", "smallint", "int", "bigint")


@checked
@dataclass(frozen=True)
class DeltaSpout:
    """Rows of a Delta table.

    A table is plain if its files hold its columns and rows as they are. So it has no partition columns, no
    column mapping and no deletion vectors. A replay of a few rows of a plain table reads them without Spark.

    Args:
        path: path or URI of the table.
        key: an integer column that identifies a row and only grows, which becomes the position. Without
            one the position is the row id of Delta's row tracking, which the table must have enabled.
            With a key, replays read only the files that can hold it; row ids are not in Delta's
            statistics, so a replay by row id looks into all files.
        start_version: where a new spout begins: rows up to the highest position that was there before this
            version are never read. A spout that has planned before goes on where it is.

    Raises:
        SourceError: `start_version` is negative.
    """

    path: str
    key: str | None = None
    start_version: int = 0

    def __post_init__(self) -> None:
        if self.start_version < 0:
            raise SourceError(
                f"start_version is {self.start_version!r}; give a version of the table, from 0."
            )

    def message_schema(self, spark: SparkSession) -> StructType:
        """See `Spout`."""
        table = self._table()
        return schema_of(table) if _is_plain(table) else read(spark, absolute(self.path)).schema

    def message_columns(self) -> dict[str, str]:
        """See `TellsColumns`. The columns of a table at a URI, not on a local disk, are not looked up."""
        if "://" in self.path:
            return {}
        try:
            table = open_table(absolute(self.path), is_read_only=True)
        except StoreError:
            return {}
        fields = table.schema().fields if table is not None else []
        return {field.name: str(getattr(field.type, "type", "struct")) for field in fields}

    def next_range(self, spark: SparkSession, history: History, limit: int) -> Range | None:
        """See `Spout`. A range has the positions (after, upto] and the version of the table.

        A version whose rows were all planned is not searched again.
        """
        table = self._same_table(history.newest)
        if history.newest is None and table.version() < self.start_version:
            return None
        last = history.newest or self._beginning()
        if last["upto"] == last["end"] and last["version"] == table.version():
            return None
        after, path = last["upto"], absolute(self.path)
        if self.key is not None and _is_plain(table):
            check_reserved(path, (field.name for field in table.schema().fields))
            self._check_key(schema_of(table))
            unread = _unread(table, column_name(self.key), after, limit)
        else:
            told = self._told(table, last, limit) if self.key is None else None
            unread = told or _unread_by_spark(self._rows(spark, table), after, limit)
        if unread.nulls:
            raise SourceError(
                f"{unread.nulls} rows of {path} have no {self.key}, so they could not be told apart or "
                "replayed. Give them a key, or use row tracking instead of a key.",
                table=path,
            )
        if unread.end is None:
            return None
        planned = {"after": after, "upto": unread.upto, "end": unread.end, "version": table.version()}
        planned |= signs_of(table)
        return planned | ({} if unread.rows is None else {"rows": unread.rows, "first": unread.first})

    def read_range(self, spark: SparkSession, planned: Range) -> DataFrame:
        """See `Spout`."""
        newest, where = self._same_table(planned), _between(planned["after"], planned["upto"])
        # At the version that was planned, so that a row deleted since does not vanish without a trace.
        table = as_planned(newest, planned["version"], self._of_key(where) if _is_plain(newest) else None)
        rows = self._rows(spark, table or newest, where)
        if table is not None:
            return rows
        there = rows.select(_OFFSET).toArrow()[_OFFSET]
        lost = lost_rows(counted(planned, absolute(self.path) if self.key is None else None), there)
        if lost is None:
            return rows
        lost = lost.add_column(0, "_source_partition", pa.repeat(PARTITION, lost.num_rows))
        return rows.unionByName(spark.createDataFrame(lost), allowMissingColumns=True)

    def ends(self, planned: Range) -> dict[str, int]:
        """See `Spout`."""
        return {PARTITION: planned["upto"] + 1}

    def read_positions(self, spark: SparkSession, positions: pa.Table, history: History) -> DataFrame:
        """See `Spout`."""
        self._same_table(history.newest)
        offsets = positions["source_offset"]
        wanted = spark.createDataFrame(pa.table({"_source_offset": offsets}))
        low, high = pc.min(offsets).as_py(), pc.max(offsets).as_py()
        rows = self._rows(spark, where=f"{_OFFSET} BETWEEN {low} AND {high}")
        return rows.join(F.broadcast(wanted), "_source_offset", "left_semi")

    def read_locally(self, positions: pa.Table, history: History) -> pa.Table | None:
        """See `ReadsLocally`."""
        table, wanted = self._same_table(history.newest), positions["source_offset"].combine_chunks()
        if not _is_plain(table):
            return None
        check_reserved(absolute(self.path), (field.name for field in table.schema().fields))
        if self.key is None:
            found = rows_by_id(table, wanted) if _tracks_rows(table) else None
        else:
            self._check_key(schema_of(table))
            low, high = pc.min(wanted).as_py(), pc.max(wanted).as_py()
            where = f"{column_name(self.key)} BETWEEN {low} AND {high}"
            found = rows_by_key(table, self.key, wanted, where)
        if found is None:
            return None
        return found.add_column(0, "_source_partition", pa.repeat(PARTITION, found.num_rows))

    def gone_of(self, positions: pa.Table, history: History) -> dict[str, int] | None:
        """See `TellsGone`. None where positions are row ids, or the table is long or not plain."""
        table, offsets = self._same_table(history.newest), positions["source_offset"]
        if self.key is None or not _is_plain(table) or not has_at_most(table, MOST_LOOKED_AT):
            return None
        self._check_key(schema_of(table))
        low, high = pc.min(offsets).as_py(), pc.max(offsets).as_py()
        key = column_name(self.key)
        there = query_table(f"SELECT {key} FROM source WHERE {key} BETWEEN {low} AND {high}", source=table)
        keys = there.column(0).cast(pa.int64()).combine_chunks()
        lost = len(offsets) - pc.sum(pc.is_in(offsets, value_set=keys)).as_py()
        return {self.gone: lost} if lost else {}

    @property
    def gone(self) -> str:
        """See `NamesGone`."""
        return f"the row is no longer in {absolute(self.path)}"

    def backlog(self, history: History) -> Backlog | None:
        """See `HasBacklog`. With a key it counts rows; row ids only tell how many positions there may be."""
        table, left_out = self._same_table(history.newest), self._left_out(history)
        if history.newest is None and table.version() < self.start_version:
            return Backlog({}, left_out=left_out)
        last = history.newest or self._beginning()
        # Versions above this one can hold what is unread.
        since = last["version"] - (last["upto"] != last["end"])
        if since == table.version():
            return Backlog({}, left_out=left_out)
        if self.key is not None:
            where = "true" if last["upto"] is None else f"{column_name(self.key)} > {last['upto']}"
            unread = {"rows": query(f"SELECT count(*) AS n FROM source WHERE {where}", source=table)[0]["n"]}
        else:
            try:
                highest = highest_row_id(absolute(self.path), last["version"], table.version())
            except FileNotFoundError:
                return None
            read, end = (-1 if last[name] is None else last[name] for name in ("upto", "end"))
            unread = {"positions": (end if highest is None else highest) - read}
        if not any(unread.values()):
            return Backlog({}, left_out=left_out)
        return Backlog(unread, oldest_commit(table, since), left_out)

    def _told(self, table: DeltaTable, last: Range, limit: int) -> "_Unread | None":
        """The unread rows by the row ids that the log says were given; None where rows have to be counted."""
        if not _tracks_rows(table):
            return None
        path = absolute(self.path)
        try:
            given = highest_row_id(path, last["version"], table.version())
            columns = [field.name for field in table.schema().fields]
        except (FileNotFoundError, DeltaError):  # the second: of a type that `deltalake` does not know
            return None
        check_reserved(path, columns)
        after, end = (-1 if position is None else position for position in (last["upto"], last["end"]))
        if given is None and last["version"] < 0:
            return None
        end = end if given is None else given
        if end <= after:
            return _Unread(None, None, 0)
        return _Unread(end, end, 0) if end - after <= limit else None

    def _beginning(self) -> Range:
        """The range from which a new spout goes on: it ends before all rows that the spout is to read.

        Raises:
            SourceError: the table no longer tells which rows were there before `start_version`.
        """
        before = self.start_version - 1
        if before < 0:
            return {"upto": None, "end": None, "version": -1}
        path = absolute(self.path)
        try:
            if self.key is None:
                highest = highest_row_id(path, -1, before)
            else:
                column = f"max({column_name(self.key)})"
                (found,) = query(f"SELECT {column} AS highest FROM source", source=self._table(before))
                highest = found["highest"]
        except (StoreError, FileNotFoundError) as error:
            raise SourceError(
                f"{path} does not tell any more what was there before version {self.start_version}: "
                f"version {before} cannot be read. Give a later start_version.",
                table=path,
            ) from error
        return {"upto": highest, "end": highest, "version": before}

    def _left_out(self, history: History) -> dict[str, int]:
        """Reason -> the number of rows before `start_version`, which the spout never reads.

        The dict is empty where the spout leaves out no rows, or the table does not tell any more.
        """
        if not self.start_version:
            return {}
        planned = history.every()
        if planned and planned[0]["after"] is None:
            return {}
        before = min(self.start_version - 1, self._table().version())
        try:
            return {f"before version {self.start_version}": self._table(before).count()}
        except StoreError:
            return {}

    def _of_key(self, where: str) -> str | None:
        """The condition `where` on `_source_offset` as a condition on the key; None where there is no key.

        Files are skipped on this condition.
        """
        return None if self.key is None else where.replace(_OFFSET, column_name(self.key))

    def _table(self, version: int | None = None) -> DeltaTable:
        path = absolute(self.path)
        table = open_table(path, version, is_read_only=True)
        if table is None:
            raise SourceError(f"There is no Delta table at {path}.", table=path)
        return table

    def _same_table(self, planned: Range | None) -> DeltaTable:
        """The table at its newest version, having checked that a range was planned of this very table."""
        table = self._table()
        check_same(table, planned, by_key=self.key is not None)
        return table

    def _rows(self, spark: SparkSession, table: DeltaTable | None = None, where: str = "true") -> DataFrame:
        """Rows of the table, as it stands or as a version of it, with their positions.

        Args:
            table: the version; None: as it stands.
            where: a condition on `_source_offset` in SQL.
        """
        path, plain = absolute(self.path), table or self._table()
        if self.key is not None and _is_plain(plain):
            # Spark would look into the log and for the files, which takes it longer than to read them.
            frame = read_files(spark, plain, files_of(plain, self._of_key(where)))
        else:
            reader = spark.read.format("delta")
            frame = (reader if table is None else reader.option("versionAsOf", table.version())).load(path)
        check_reserved(path, frame.columns)
        found = frame.select(
            F.lit(PARTITION).alias("_source_partition"), self._offset(frame).alias(_OFFSET), "*"
        )
        return found.where(where)

    def _offset(self, frame: DataFrame) -> Column:
        path = absolute(self.path)
        if self.key is not None:
            self._check_key(frame.schema)
            return F.col(sql_name(self.key)).cast("bigint")
        table = open_table(path, is_read_only=True)
        if table is None or not _tracks_rows(table):
            raise SourceError(
                f"The rows of {path} have no stable position. Turn row tracking on with "
                f"`ALTER TABLE delta.`{path}` SET TBLPROPERTIES ('delta.enableRowTracking' = 'true')`, "
                "or name an integer column that identifies a row: DeltaSpout(path, key=...).",
                table=path,
            )
        return F.col(_ROW_ID)

    def _check_key(self, schema: StructType) -> None:
        types = {field.name: field.dataType.simpleString() for field in schema.fields}
        if types.get(self.key or "") not in _INTEGERS:
            found = f"is of type {types[self.key]}" if self.key in types else "is not there"
            path = absolute(self.path)
            raise SourceError(
                f"The key {self.key} of {path} must be an integer column; it {found}.", table=path
            )


@dataclass(frozen=True)
class _Unread:
    """The rows that a source holds beyond a position.

    Args:
        end: the highest position; None where there are no rows.
        upto: the highest position that a batch takes.
        nulls: the number of rows without a position, in all of the source.
        first: the lowest position.
        rows: how many rows a batch takes; None where they were not counted.
    """

    end: int | None
    upto: int | None
    nulls: int
    first: int | None = None
    rows: int | None = None


def _between(after: int | None, upto: int) -> str:
    """The condition in SQL that `_source_offset` is in (after, upto]."""
    return f"{_OFFSET} <= {upto}" + ("" if after is None else f" AND {_OFFSET} > {after}")


def _is_plain(table: DeltaTable) -> bool:
    """Whether a table's files hold its columns and rows as they are."""
    protocol = table.protocol()
    if protocol.min_reader_version > 1 and set(protocol.reader_features or ()) != {"timestampNtz"}:
        return False
    return not table.metadata().partition_columns


def _tracks_rows(table: DeltaTable) -> bool:
    return table.metadata().configuration.get("delta.enableRowTracking") == "true"


def _unread(table: DeltaTable, key: str, after: int | None, limit: int) -> _Unread:
    is_new = "true" if after is None else f"({key} > {after} OR {key} IS NULL)"
    counts = (
        f'min({key}) AS "first", max({key}) AS "end", count({key}) AS n, count(*) - count({key}) AS nulls'
    )
    (found,) = query(f"SELECT {counts} FROM source WHERE {is_new}", source=table)
    upto = found["end"]
    if found["n"] > limit:
        first = f"SELECT {key} FROM source WHERE {is_new} ORDER BY {key} LIMIT {limit}"
        (upto,) = query(f"SELECT max({key}) AS upto FROM ({first})", source=table)[0].values()
    return _Unread(found["end"], upto, found["nulls"], found["first"], min(found["n"], limit))


def _unread_by_spark(rows: DataFrame, after: int | None, limit: int) -> _Unread:
    offset = F.col("_source_offset")
    unread = rows if after is None else rows.where((offset > after) | offset.isNull())
    found = unread.agg(
        F.min(offset).alias("first"),
        F.max(offset).alias("end"),
        F.count(offset).alias("rows"),
        F.count_if(offset.isNull()).alias("nulls"),
    ).first()
    assert found is not None
    upto = found["end"]
    if found["rows"] > limit:
        first = unread.select(offset).orderBy(offset).limit(limit).agg(F.max(offset).alias("upto")).first()
        assert first is not None
        upto = first["upto"]
    return _Unread(found["end"], upto, found["nulls"], found["first"], min(found["rows"], limit))
