"""Topologies without Spark: spouts and bolts of Polars frames, which `deltalake` appends to the streams.

Only the rows of a batch are made and appended here. Planning, logging, folding and replaying are the
product's, as is the append, which happens once for each number of a batch.
"""

from dataclasses import dataclass, fields
from typing import Any

import polars as pl
from deltalake import DeltaTable, QueryBuilder

from acker.batches.run import Run
from acker.components.base import Component, Work
from acker.components.dataframe_bolt import DataFrameBolt
from acker.components.spout import SpoutComponent, history
from acker.core.events import Kind
from acker.core.snapshot.inputs import SourceRange
from acker.core.snapshot.replays import messages_of
from acker.core.store.ids import bucket, hash64
from acker.core.store.schemas import LEDGER, STREAM_PROPERTIES, stream
from acker.core.store.tables import append_rows, arrow_table, in_batches
from acker.topology.topology import Topology

POSITION = {"_source_partition": pl.String, "_source_offset": pl.Int64}
USERS = pl.exclude("^_.*$")  # columns


class NoSpark:
    """What a run has for a session where nothing may need Spark."""

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"Spark was asked for {name}")


class PolarsTopology(Topology):
    """A topology whose sources are `TableSource`s and whose bolts take and return Polars frames.

    A bolt's function is given one frame per input, with a column `anchor`, and returns one that keeps it. A
    column `_error` fails the messages of the rows in which it is not null.
    """

    def _add(self, component: Component) -> Component:
        kind = PolarsSpout if component.is_spout else PolarsBolt
        return super()._add(kind(**{each.name: getattr(component, each.name) for each in fields(component)}))


@dataclass(frozen=True)
class TableSource:
    """Rows of a Delta table as messages, whose column `id` is the position. A range lists positions.

    Args:
        partition: the column with the partition; None where there is one partition, "0".
    """

    path: str
    partition: str | None = None

    def next_range(self, spark, history, limit):
        known = [position for planned in history.every() for position in planned]
        fresh = [list(position) for position in self._messages().select(*POSITION).sort(*POSITION).rows()]
        return [position for position in fresh if position not in known][:limit] or None

    def ends(self, planned):
        return {partition: offset + 1 for partition, offset in planned}

    def read_range(self, spark, planned):
        return self._at(pl.DataFrame(planned, POSITION, orient="row"))

    def read_positions(self, spark, positions, history):
        return self._at(pl.DataFrame(positions).rename("_{}".format).select(*POSITION))

    def _at(self, positions):
        return self._messages().join(positions, on=list(POSITION), how="semi")

    def _messages(self):
        partition = pl.lit("0") if self.partition is None else pl.col(self.partition)
        return rows(DeltaTable(self.path)).select(
            partition.alias("_source_partition"), pl.col("id").alias("_source_offset"), pl.all()
        )


@dataclass(frozen=True, kw_only=True)
class PolarsSpout(SpoutComponent):
    """A spout whose source gives Polars frames."""

    def write(self, work: Work) -> None:
        is_new = isinstance(work.batch.input, SourceRange)
        found = self._new(work) if is_new else self._again(work)
        is_gone = pl.col("_is_there").is_null()
        root = _root_ids(f"{work.topology}/{self.name}", work.batch.number)
        made = found.select(
            pl.when(self._is_tracked() if is_new else True).then(root).alias("_root_id"),
            pl.when(is_gone).then(pl.lit(Kind.LOST.value)).alias("_kind"),
            pl.when(is_gone).then(pl.lit("the source no longer holds this message")).alias("_error"),
            *POSITION,
            "_attempt",
            "_replaces",
            USERS,
        )
        append(work, self, made)

    def _is_tracked(self) -> pl.Expr | bool:
        return pl.sql_expr(self.reliable) if isinstance(self.reliable, str) else self.reliable

    def _new(self, work: Work) -> pl.DataFrame:
        read = self.source.read_range(work.spark, work.batch.input.described)
        first = {"_attempt": pl.lit(1, pl.Int32), "_replaces": pl.lit(None, pl.Int64)}
        return read.with_columns(**first, _is_there=True)

    def _again(self, work: Work) -> pl.DataFrame:
        wanted = messages_of(work.journal.store, work.batch)
        read = self.source.read_positions(work.spark, wanted.to_arrow(), history(work.journal, self.name))
        there = read.with_columns(_is_there=True)
        return wanted.rename("_{}".format).join(there, on=list(POSITION), how="left")

    def no_tuples(self, work: Work, further: str) -> pl.DataFrame:
        return self.source.read_range(work.spark, []).select(pl.lit(None, pl.Int64).alias("anchor"), USERS)


@dataclass(frozen=True, kw_only=True)
class PolarsBolt(DataFrameBolt):
    """A bolt whose function takes and returns Polars frames."""

    def write(self, work: Work) -> None:
        found = self.function(*(tuples(work, name) for name in self.inputs))
        error = pl.col("_error") if "_error" in found.columns else pl.lit(None, pl.String)
        made = found.select(
            pl.col("anchor").alias("_root_id"),
            pl.when(error.is_not_null()).then(pl.lit(Kind.FAIL.value)).alias("_kind"),
            error.alias("_error"),
            pl.exclude("anchor", "_error"),
        )
        append(work, self, made)

    def no_tuples(self, work: Work, further: str) -> pl.DataFrame:
        return self.function(*(tuples(work, name).clear() for name in self.inputs))


def _root_ids(spout: str, batch: int) -> pl.Expr:
    """Ids whose lowest bits are a message's, the same for all attempts."""
    message, emission = (
        pl.concat_str(pl.lit(spout), *columns, separator="/").map_elements(hash64, pl.Int64)
        for columns in (POSITION, [*POSITION, pl.lit(str(batch)), "_attempt"])
    )
    return emission - bucket(emission) + bucket(message)


def rows(table: DeltaTable, where: str = "true") -> pl.DataFrame:
    """Rows of a Delta table."""
    found = QueryBuilder().register("t", table).execute(f"SELECT * FROM t WHERE {where}")
    return pl.from_arrow(arrow_table(found))


def tuples(work: Work, name: str) -> pl.DataFrame:
    """What a bolt's batch takes in of a stream: `anchor` and the user's columns."""
    table, taken = work.journal.open(stream(name)), in_batches(work.taken.get(name, []))
    if table is None:
        return work.components[name].no_tuples(work, "")
    found = rows(table, f"{taken} AND _kind IS NULL")
    return found.select(pl.col("_root_id").alias("anchor"), USERS)


def append(work: Work, component: Component, made: pl.DataFrame) -> None:
    """Append a batch's rows to its component's stream, once."""
    stamped = made.with_columns(_batch=pl.lit(work.batch.number, pl.Int64)).to_arrow()
    name, store = stream(component.name), work.journal.store
    table = store.open(name) or DeltaTable.create(
        store.path(name), stamped.schema, configuration=STREAM_PROPERTIES
    )
    append_rows(table, stamped, component.name, work.batch.number)


def acked(run: Run, component: str) -> list[tuple[Any, ...]]:
    """The user's columns of a component's tuples whose messages are acked: what it would have published."""
    ledger = rows(run.store.require(LEDGER), "live_in IS NULL AND state = 'acked'")
    roots = ledger.filter(~pl.col("root_id").is_in(ledger["replaces"].drop_nulls().implode()))
    found = rows(run.store.require(stream(component)), "_kind IS NULL")
    mine = found.join(roots.select(_root_id="root_id"), on="_root_id", how="semi")
    return sorted(mine.select(USERS).rows())
