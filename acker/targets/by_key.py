"""Running aggregates made again, by key: from the streams, and from the kept sums of trimmed tuples.

A trimming deletes tuples that a published row stands for. So it first adds these tuples up, and keeps one row
for each key in the table `trimmed/<stream>` of the store. The audit adds up the tuples that are left and the
kept rows, and compares each key. All of this runs without Spark.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import polars as pl
import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, write_deltalake

from acker.core.digests import frame_digests
from acker.core.store.commits import make_table
from acker.core.store.store import Store
from acker.core.store.tables import commit_once, open_table, query_table
from acker.targets.functions import Aggregate, Recomputed

COUNT = "_tuples"  # how many tuples a row stands for
TRIM = "_trim"  # the trimming with which they went, or a later one before the newest
KEY = "_key"  # the digest of a row's key
_APP = "trim"


def trimmed(stream: str) -> str:
    """The name of the store's table with the sums of tuples that were trimmed from a stream."""
    return f"trimmed/{stream}"


@dataclass(frozen=True)
class ByKey:
    """The rows of a running aggregate, as the audit makes them.

    Args:
        keys: the columns of the key.
        aggregates: column -> its aggregate; only those that can be computed again count.
    """

    keys: tuple[str, ...]
    aggregates: Mapping[str, Aggregate]

    @property
    def recomputed(self) -> dict[str, Recomputed]:
        """The aggregates that can be computed again."""
        return {name: each for name, each in self.aggregates.items() if isinstance(each, Recomputed)}

    @property
    def columns(self) -> list[str]:
        """All columns of the rows."""
        return [*self.keys, *self.recomputed, COUNT]

    def that_can_be_made(self, streams: Iterable[DeltaTable]) -> "ByKey | str":
        """A copy with only the aggregates that streams can make again; or the reason why none can."""
        fit = {name: each for name, each in self.aggregates.items() if name in self.recomputed}
        for table in streams:
            found = _schema(table)
            missing = sorted(self._used - found.keys())
            if missing:
                return f"a stream has no {', '.join(missing)}, which the table is made of"
            if any(found[key].is_nested() and "Datetime" in repr(found[key]) for key in self.keys):
                return "a key has times within a struct or an array, which are not compared"
            fit = {name: each for name, each in fit.items() if self.recomputed[name].fits(found)}
        return replace(self, aggregates=fit)

    @property
    def _used(self) -> set[str]:
        columns = (getattr(each, "column", None) for each in self.recomputed.values())
        return {*self.keys, *(name for name in columns if name is not None)}

    def types_in(self, table: DeltaTable) -> pl.Schema:
        """The columns of a stream that the key and the aggregates need, with their types."""
        return pl.Schema({name: kind for name, kind in _schema(table).items() if name in self._used})

    def name_of(self, row: Mapping[str, Any], ended: str = "") -> str:
        """A row's key, for people.

        Args:
            ended: the end of the names of the key's columns in the row.
        """
        return ", ".join(f"{name}={row[f'{name}{ended}']}" for name in self.keys)

    def over(self, tuples: pl.LazyFrame, types: pl.Schema) -> pl.LazyFrame:
        """The tuples aggregated to one row per key."""
        made = {name: each.over(types) for name, each in self.recomputed.items()}
        return tuples.group_by(self.keys).agg(**made, **{COUNT: pl.len().cast(pl.Int64)})

    def together(self, rows: Sequence[pl.DataFrame]) -> pl.DataFrame:
        """The rows, of which a key may have many, merged to one row per key."""
        every = pl.concat(rows, how="vertical_relaxed")
        kinds = every.schema
        made = {name: each.together(name, kinds[name]) for name, each in self.recomputed.items()}
        keys = {name: pl.col(name).first() for name in self.keys}
        by_digest = every.with_columns(pl.Series(KEY, frame_digests(every, self.keys))).group_by(KEY)
        return by_digest.agg(**keys, **made, **{COUNT: pl.col(COUNT).sum()}).select(self.columns)


def keep(store: Store, stream: str, by: ByKey, gone: pl.DataFrame, before: int, number: int) -> None:
    """Keep the sums of the tuples that a trimming deletes, in one commit that happens once.

    The sums of all trimmings before become one row per key. Nothing is kept where the table has sums of
    another key or of other aggregates.

    Args:
        gone: the sums of the deleted tuples, one row per key.
        before: the newest trimming that was counted. Sums of later ones are dropped.
        number: the number of this trimming.

    Raises:
        StoreError: the table of the sums cannot be written.
    """
    path = store.path(trimmed(stream))
    table = open_table(path)
    kept = None if table is None else rows_kept(table, by, before)
    if table is not None and kept is None:
        return  # it was kept for other aggregates
    new = gone.select(by.columns).with_columns(pl.lit(number, pl.Int64).alias(TRIM))
    if kept is not None:
        old = by.together([kept]).with_columns(pl.lit(before, pl.Int64).alias(TRIM))
        new = pl.concat([old, new], how="vertical_relaxed")
    rows = new.to_arrow()

    def commit(found: DeltaTable | None, once: CommitProperties) -> None:
        if found is None:
            make_table(path, rows, once)
            return
        write_deltalake(
            found,
            rows,
            mode="overwrite",
            schema_mode="overwrite",  # for sums have become wider since
            commit_properties=once,
        )

    commit_once(path, {_APP: number}, commit)


def rows_kept(table: DeltaTable, by: ByKey, upto: int) -> pl.DataFrame | None:
    """The sums that were kept of trimmed tuples; None where they are of another key or of other aggregates.

    Args:
        upto: the number of the newest trimming that counts.
    """
    found = _schema(table)
    if [name for name in found if name != TRIM] != by.columns:
        return None
    rows = pl.DataFrame(query_table(f"SELECT * FROM kept WHERE {TRIM} <= {upto}", kept=table))
    return rows.select(by.columns)


def rows_published(table: DeltaTable, by: ByKey) -> pl.DataFrame:
    """The rows of a published table that has the key and all the aggregates."""
    columns = ", ".join('"' + name.replace('"', '""') + '"' for name in by.columns)
    return pl.DataFrame(query_table(f"SELECT {columns} FROM published", published=table))


def _schema(table: DeltaTable) -> pl.Schema:
    return pl.DataFrame(pa.Table.from_batches([], pa.schema(table.schema().to_arrow()))).schema
