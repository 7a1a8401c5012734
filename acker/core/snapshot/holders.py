"""The rich bolts that hold back tuples of messages which time out. The ledger names these bolts."""

from collections.abc import Mapping, Sequence

import polars as pl

from acker.core.events import State
from acker.core.snapshot.snapshot import Snapshot
from acker.core.snapshot.streams import Rows, by_each_root
from acker.core.store.parquet import collect
from acker.core.store.schemas import HELD

HELD_BY = ": neither acked nor failed by "  # in the reason of a time-out, before the names of bolts
HOLDERS = pl.Schema({"root_id": pl.Int64, "component": pl.String})


def holders(snapshot: Snapshot, bolts: Sequence[str], logged: Mapping[str, int]) -> pl.LazyFrame:
    """Roots of the tuples that bolts hold back, each with its bolt, as `HOLDERS`.

    Args:
        bolts: names of the bolts that may hold tuples back.
        logged: component -> its newest logged batch.
    """
    parts = [pl.LazyFrame(schema=HOLDERS)]
    for bolt in bolts:
        newest = logged.get(bolt, 0)
        rows = Rows.of(snapshot, bolt, [newest] if newest else [])
        if "_held" in rows.columns:
            held = by_each_root(rows.scan().filter(pl.col("_kind") == HELD))
            parts.append(held.select(root_id="_root_id", component=pl.lit(bolt)).drop_nulls())
    return pl.concat(parts)


def with_holders(rows: pl.DataFrame, held: pl.LazyFrame) -> pl.DataFrame:
    """Rows of the ledger, in which a row that timed out names the bolts that hold its tuples back.

    The names of all these bolts are added to `reason`; the first of them is the `component`.

    Args:
        held: `holders`, read only where a row timed out.
    """
    late = rows.filter(pl.col("state") == State.TIMED_OUT).select("root_id")
    if late.is_empty():
        return rows
    mine = collect(held.join(late.lazy(), on="root_id", how="semi").unique())
    if mine.is_empty():
        return rows
    component = pl.col("component")
    if mine["component"].n_unique() == 1:  # as mostly, and then grouping is dear
        found = mine.select("root_id", first=component, names=component)
    else:
        found = (
            mine.sort("component")
            .group_by("root_id")
            .agg(first=component.first(), names=component.str.join(", "))
        )
    by = pl.format(HELD_BY + "{}", "names").fill_null("")
    joined = rows.join(found, on="root_id", how="left", maintain_order="left")
    return joined.with_columns(
        reason=pl.concat_str("reason", by), component=pl.coalesce("first", "component")
    ).drop("first", "names")
