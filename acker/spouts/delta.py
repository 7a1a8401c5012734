"""A Delta table as a spout. Every row is a message, once, at its position."""

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from acker.core.delta import open_table, query
from acker.core.errors import SourceError, StoreError
from acker.core.paths import absolute
from acker.core.quoting import column_name, sql_name
from acker.spark.delta import read
from acker.spouts.base import Backlog, History, Range, check_reserved
from acker.spouts.delta_log import highest_row_id, oldest_commit

PARTITION = "0"  # a Delta table has one
_ROW_ID = "_metadata.row_id"
_INTEGERS = ("tinyint", "smallint", "int", "bigint")


@dataclass(frozen=True)
class DeltaSpout:
    """Rows of a Delta table.

    Args:
        path: path or URI of the table.
        key: an integer column that identifies a row and only grows, which becomes the position. Without
            one the position is the row id of Delta's row tracking, which the table must have enabled.
            With a key, replays read only the files that can hold it; row ids are not in Delta's
            statistics, so a replay by row id reads the whole table.
        start_version: where a new spout begins: rows up to the highest position that was there before this
            version are never read. A spout that has planned before goes on where it is.

    Raises:
        SourceError: `start_version` is no version.
    """

    path: str
    key: str | None = None
    start_version: int = 0

    def __post_init__(self) -> None:
        if type(self.start_version) is not int or self.start_version < 0:
            raise SourceError(
                f"start_version is {self.start_version!r}; give a version of the table, from 0."
            )

    def message_schema(self, spark: SparkSession) -> StructType:
        """See `Spout`."""
        return read(spark, absolute(self.path)).schema

    def next_range(self, spark: SparkSession, history: History, limit: int) -> Range | None:
        """See `Spout`. A range is (after, upto] of positions; the source's version spares a second look."""
        table = self._table()
        if history.newest is None and table.version() < self.start_version:
            return None
        last = history.newest or self._beginning()
        if last["upto"] == last["end"] and last["version"] == table.version():
            return None
        rows = self._rows(spark, table.version())
        after, offset = last["upto"], F.col("_source_offset")
        unread = rows if after is None else rows.where((offset > after) | offset.isNull())
        found = unread.agg(
            F.max(offset).alias("end"),
            F.count(offset).alias("rows"),
            F.count_if(offset.isNull()).alias("nulls"),
        ).first()
        assert found is not None
        if found["nulls"]:
            raise SourceError(
                f"{found['nulls']} rows of {absolute(self.path)} have no {self.key}, so they could not be "
                "told apart or replayed. Give them a key, or use row tracking instead of a key.",
                table=absolute(self.path),
            )
        if found["end"] is None:
            return None
        upto = found["end"]
        if found["rows"] > limit:
            first = (
                unread.select(offset).orderBy(offset).limit(limit).agg(F.max(offset).alias("upto")).first()
            )
            assert first is not None
            upto = first["upto"]
        return {"after": after, "upto": upto, "end": found["end"], "version": table.version()}

    def read_range(self, spark: SparkSession, planned: Range) -> DataFrame:
        """See `Spout`."""
        # At the version that was planned, so that a row deleted since does not vanish without a trace.
        rows = self._rows(spark, planned["version"]).where(F.col("_source_offset") <= planned["upto"])
        return rows if planned["after"] is None else rows.where(F.col("_source_offset") > planned["after"])

    def ends(self, planned: Range) -> dict[str, int]:
        """See `Spout`."""
        return {PARTITION: planned["upto"] + 1}

    def read_positions(self, spark: SparkSession, positions: pa.Table, history: History) -> DataFrame:
        """See `Spout`."""
        offsets = positions["source_offset"]
        wanted = spark.createDataFrame(pa.table({"_source_offset": offsets}))
        low, high = pc.min(offsets).as_py(), pc.max(offsets).as_py()
        rows = self._rows(spark).where(F.col("_source_offset").between(low, high))
        return rows.join(F.broadcast(wanted), "_source_offset", "left_semi")

    def backlog(self, history: History) -> Backlog | None:
        """See `HasBacklog`. With a key it counts rows; row ids only tell how many positions there may be."""
        table, left_out = self._table(), self._left_out(history)
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

    def _beginning(self) -> Range:
        """What a new spout goes on from: a range that ends before all that it is to read.

        Raises:
            SourceError: the table no longer tells what was there before `start_version`.
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
        """How many rows a spout that began at `start_version` never reads, where the table still tells."""
        planned = history.every()
        if not self.start_version or (planned and planned[0]["after"] is None):
            return {}
        before = min(self.start_version - 1, self._table().version())
        try:
            return {f"before version {self.start_version}": self._table(before).count()}
        except StoreError:
            return {}

    def _table(self, version: int | None = None) -> DeltaTable:
        path = absolute(self.path)
        table = open_table(path, version)
        if table is None:
            raise SourceError(f"There is no Delta table at {path}.", table=path)
        return table

    def _rows(self, spark: SparkSession, version: int | None = None) -> DataFrame:
        path = absolute(self.path)
        reader = spark.read.format("delta")
        frame = (reader if version is None else reader.option("versionAsOf", version)).load(path)
        check_reserved(path, frame.columns)
        return frame.select(
            F.lit(PARTITION).alias("_source_partition"), self._offset(frame).alias("_source_offset"), "*"
        )

    def _offset(self, frame: DataFrame) -> Column:
        path = absolute(self.path)
        if self.key is not None:
            types = dict(frame.dtypes)
            if types.get(self.key) not in _INTEGERS:
                found = f"is of type {types[self.key]}" if self.key in types else "is not there"
                raise SourceError(
                    f"The key {self.key} of {path} must be an integer column; it {found}.", table=path
                )
            return F.col(sql_name(self.key)).cast("bigint")
        table = open_table(path)
        enabled = table is not None and table.metadata().configuration.get("delta.enableRowTracking")
        if enabled != "true":
            raise SourceError(
                f"The rows of {path} have no stable position. Turn row tracking on with "
                f"`ALTER TABLE delta.`{path}` SET TBLPROPERTIES ('delta.enableRowTracking' = 'true')`, "
                "or name an integer column that identifies a row: DeltaSpout(path, key=...).",
                table=path,
            )
        return F.col(_ROW_ID)
