"""A topology with a spout and a target of a user's own. Tests copy it to a folder outside of the repository.

The spout reads stations, each a text file with one temperature a line. The target is a small Delta table.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import polars as pl
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from pyspark.sql import functions as F

from acker import ExponentialBackoff, Target, Topology, fail_when
from acker.spouts import Backlog


@dataclass(frozen=True)
class Stations:
    """A spout; a range has for each station the lines that were read before, and those that are read then."""

    folder: str

    def message_schema(self, spark):
        return spark.createDataFrame([], "celsius double").schema

    def next_range(self, spark, history, limit):
        known, planned = self._known(history), {}
        for name, lines in self._lines().items():
            after = known.get(name, 0)
            planned[name] = [after, min(len(lines), after + limit)]
        return planned if any(after < upto for after, upto in planned.values()) else None

    def read_range(self, spark, planned):
        return self._frame(spark, [(name, at) for name, ends in planned.items() for at in range(*ends)])

    def read_positions(self, spark, positions, history):
        columns = (positions[name].to_pylist() for name in ("source_partition", "source_offset"))
        return self._frame(spark, [*zip(*columns, strict=True)])

    def ends(self, planned):
        return {name: upto for name, (_, upto) in planned.items()}

    def backlog(self, history):
        known = self._known(history)
        return Backlog(
            {"readings": sum(len(lines) - known.get(name, 0) for name, lines in self._lines().items())}
        )

    def gone_of(self, positions, history):
        columns = (positions[name].to_pylist() for name in ("source_partition", "source_offset"))
        lines = self._lines()
        gone = [name for name, at in zip(*columns, strict=True) if at >= len(lines.get(name, ()))]
        return {"the station's file is shorter now": len(gone)} if gone else {}

    def _known(self, history):
        return self.ends(history.newest) if history.newest else {}

    def _lines(self):
        files = sorted(Path(self.folder).glob("*.txt"))
        return {file.stem: file.read_text().splitlines() for file in files}

    def _frame(self, spark, positions):
        lines = self._lines()
        rows = [(name, at, float(lines[name][at])) for name, at in positions if at < len(lines.get(name, ()))]
        return spark.createDataFrame(rows, "_source_partition string, _source_offset bigint, celsius double")


@dataclass(frozen=True)
class Rewritten(Target):
    """A Delta table that each fold writes anew, in one commit together with the fold's number."""

    path: str
    version: int | None = None

    has_roots = True

    @property
    def uri(self):
        return self.path

    @property
    def delta_path(self):
        return self.path

    def delta_table(self):
        is_there = DeltaTable.is_deltatable(self.path)
        return DeltaTable(self.path, version=self.version) if is_there else None

    def moved_to(self, path):
        return Rewritten(path)

    def pinned(self):
        table = self.delta_table()
        return self if table is None else replace(self, version=table.version())

    def position(self, app):
        table = self.delta_table()
        return (table.transaction_version(app) or 0) if table else 0

    def violations(self, spark, stream: str, rows, columns: Sequence[str]):
        return rows

    def apply(self, spark, changes):
        app, fold = changes.publisher.app, changes.fold
        if self.position(app) >= fold:
            return
        rows, table = pl.from_arrow(changes.added.toArrow()), self.delta_table()
        if table is not None:
            kept = pl.from_arrow(table.to_pyarrow_table())
            if changes.replaced_roots is not None:
                replaced = pl.from_arrow(changes.replaced_roots.toArrow())
                kept = kept.join(replaced, on="_root_id", how="anti")
            rows = pl.concat([kept, rows.select(kept.columns)])
        commit = CommitProperties(
            custom_metadata={"fold": str(fold)}, app_transactions=[Transaction(app, fold)]
        )
        write_deltalake(self.path, rows, mode="overwrite", commit_properties=commit)

    def audit(self, evidence) -> dict[str, list[Any]]:
        return {}

    def published_at(self, publisher, fold):
        for entry in self.delta_table().history():
            if entry.get("fold") == str(fold):
                return datetime.fromtimestamp(entry["timestamp"] / 1000, tz=UTC)
        return None


topology = Topology("weather", retry=ExponentialBackoff(initial_seconds=0, limit=1))
readings = topology.spout("readings", Stations("stations"))


@topology.bolt(readings)
def fahrenheit(tuples):
    why = fail_when(F.col("celsius") < -273.15, "below absolute zero")
    degrees = (F.col("celsius") * 1.8 + 32).alias("degrees")
    return tuples.select("anchor", "celsius", degrees, why.alias("_error"))


topology.publish(fahrenheit, to=Rewritten("degrees"))
