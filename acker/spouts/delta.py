"""A Delta table as a spout. Every row is a message, once, at its position."""

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from acker.core.delta import open_table, query
from acker.core.errors import SourceError
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
    """

    path: str
    key: str | None = None

    def message_schema(self, spark: SparkSession) -> StructType:
        """See `Spout`."""
        return read(spark, absolute(self.path)).schema

    def next_range(self, spark: SparkSession, history: History, limit: int) -> Range | None:
        """See `Spout`. A range is (after, upto] of positions; the source's version spares a second look."""
        table = self._table()
        last = history.newest or {"upto": None, "end": None, "version": -1}
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
        table, last = self._table(), history.newest or {"upto": None, "end": None, "version": -1}
        # Versions above this one can hold what is unread.
        since = last["version"] - (last["upto"] != last["end"])
        if since == table.version():
            return Backlog({})
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
        return Backlog(unread, oldest_commit(table, since)) if any(unread.values()) else Backlog({})

    def _table(self) -> DeltaTable:
        path = absolute(self.path)
        table = open_table(path)
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
