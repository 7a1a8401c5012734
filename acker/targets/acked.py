"""The acked roots of a store, each message's newest one, in passes of bounded size."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import polars as pl
from deltalake import DeltaTable

from acker.core.events import State
from acker.core.messages import MESSAGE, message_name
from acker.core.snapshot.ledger import settled_in
from acker.core.snapshot.streams import all_tuples
from acker.core.snapshot.trims import Trim
from acker.core.snapshot.verdict import Finding
from acker.core.store.parquet import collect
from acker.core.store.tables import files_of
from acker.targets.base import Evidence
from acker.targets.by_key import ByKey

ROOTS_OF_A_PASS = 1_000_000


@dataclass(frozen=True)
class Pass:
    """One pass of several: the roots whose ids leave `number` when they are divided by `count`."""

    number: int
    count: int

    def of(self, rows: pl.LazyFrame, column: str) -> pl.LazyFrame:
        """The rows whose roots belong to the pass."""
        return rows.filter(pl.col(column) % self.count == self.number)

    def condition(self, column: str) -> str:
        """The SQL condition on `column` that holds for the roots of the pass.

        A remainder in SQL has the sign of the dividend, which the condition allows for.
        """
        return f"(({column} % {self.count}) + {self.count}) % {self.count} = {self.number}"


class Acked:
    """The acked roots, each with its tuples.

    Args:
        streams: the tables that hold, or held, the tuples of the roots, by the names of their streams.
        position: the newest fold that counts.
        every_attempt: whether all acked attempts of a message count, and not the newest one alone.
        refused: roots (`root_id`) that were refused after their ack, so that nothing of them counts.
    """

    def __init__(
        self,
        ledger: DeltaTable,
        streams: Mapping[str, DeltaTable],
        position: int,
        every_attempt: bool = False,
        refused: pl.DataFrame | None = None,
    ) -> None:
        columns = ("root_id", *MESSAGE, "attempt", "batch", "fold")
        rows = settled_in(ledger, position).filter(pl.col("state") == State.ACKED).select(columns)
        self.earlier = pl.DataFrame(schema={"root_id": pl.Int64}) if every_attempt else _earlier(rows)
        self._rows = rows.join(self.earlier.lazy(), on="root_id", how="anti")
        if refused is not None and not refused.is_empty():
            self._rows = self._rows.join(refused.lazy(), on="root_id", how="anti")
        self._streams = streams
        none = pl.LazyFrame(schema={"_root_id": pl.Int64})
        tuples = [all_tuples(each, table).select("_root_id") for each, table in streams.items()]
        self._tuples = pl.concat([none, *tuples]).drop_nulls()

    @classmethod
    def of(cls, evidence: Evidence, every_attempt: bool = False) -> "Acked":
        """The roots whose tuples a target should hold."""
        refused = evidence.refused_here if every_attempt else evidence.refused
        return cls(evidence.ledger, evidence.streams, evidence.position, every_attempt, refused)

    def passes(self, *conditions: pl.Expr) -> list[Pass]:
        """Passes over the roots that fulfil all conditions."""
        count = max(1, -(-self.number(*conditions) // ROOTS_OF_A_PASS))
        return [Pass(number, count) for number in range(count)]

    def number(self, *conditions: pl.Expr) -> int:
        """How many roots fulfil all conditions."""
        return int(collect(self._rows.filter(*conditions).select(pl.len())).item())

    def roots(self, each: Pass, *conditions: pl.Expr) -> pl.DataFrame:
        """The roots of a pass that fulfil all conditions, as rows of the ledger, without their tuples."""
        return collect(each.of(self._rows.filter(*conditions), "root_id"), self._files)

    def with_tuples(self) -> Iterator[tuple[Pass, pl.DataFrame]]:
        """Each pass with its roots: root_id, the message's columns, attempt, batch, fold, tuples.

        `tuples` is the number of the root's tuples that the streams still hold.
        """
        for each in self.passes():
            tuples = (
                each.of(self._tuples, "_root_id").group_by("_root_id").agg(tuples=pl.len().cast(pl.Int64))
            )
            found = each.of(self._rows, "root_id").join(
                tuples, left_on="root_id", right_on="_root_id", how="left"
            )
            yield each, collect(found.with_columns(pl.col("tuples").fill_null(0)), self._files)

    def _files(self) -> Iterator[str]:
        return (file for table in self._streams.values() for file in files_of(table))

    def count(self, *conditions: pl.Expr) -> int:
        """How many tuples belong to roots that fulfil all conditions."""
        return sum(int(roots.filter(*conditions)["tuples"].sum()) for _, roots in self.with_tuples())

    def by_key(self, by: ByKey, types: Mapping[str, pl.Schema], *conditions: pl.Expr) -> list[pl.DataFrame]:
        """Rows of an aggregate over the tuples of roots that fulfil all conditions.

        Each pass over each stream gives a frame with one row per key. A key may have rows in several frames.

        Args:
            types: the types of the columns that the aggregate needs, by stream.
        """
        rows = self._rows.filter(*conditions).select(_root_id="root_id")
        found = []
        for each in self.passes():
            roots = collect(each.of(rows, "_root_id"), self._files).lazy()
            for name, table in self._streams.items():
                tuples = all_tuples(name, table, types[name]).join(roots, on="_root_id", how="semi")
                found.append(collect(by.over(tuples, types[name]), self._files))
        return found


def _earlier(acked: pl.LazyFrame) -> pl.DataFrame:
    """The acked attempts whose message was acked again later. Such messages are few."""
    again = collect(acked.filter(pl.col("attempt") > 1).select(MESSAGE).unique())
    if again.is_empty():
        return acked.clear().collect()
    attempts = collect(acked.join(again.lazy(), on=MESSAGE, how="semi"))
    return attempts.filter(pl.col("attempt") < pl.col("attempt").max().over(MESSAGE))


def is_gone(trim: Trim) -> pl.Expr:
    """Whether a trimming, or one before it, deleted the tuples of a root, by its spout and batch."""
    return pl.sql_expr(trim.is_gone())


def unacked(row: dict[str, Any], where: str) -> tuple[str, Finding]:
    """The kind and the finding of a published root that is no message's newest acked attempt.

    Args:
        row: the root, with the number of its published rows as `found`. The columns of its message are null
            where it is no earlier acked attempt.
        where: the place of the published rows, as the finding names it.
    """
    if row["spout"] is None:
        why = f"{row['found']} rows in {where} that no acked root vouches for"
        return "unexpected", Finding(f"root {row['root_id']}", why)
    return "duplicated", Finding(message_name(row), f"an earlier attempt is still in {where}")
