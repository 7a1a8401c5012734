"""The tuples that a bolt holds back: which of them still belong to messages in flight, and where they lie.

They are its memory between batches. Those of a message that has settled are let go; nobody would ever publish
what became of them.
"""

import polars as pl

from acker.events import State
from acker.frames import PLACE, Rows, collect, scan
from acker.job import live_rows
from acker.ledger import Fold
from acker.schemas import HELD
from acker.tables import Store

_NONE = pl.DataFrame(schema={"_root_id": pl.Int64(), "_root_ids": pl.List(pl.Int64()), **PLACE})


def held_back(store: Store, component: str, batch: int, fold: Fold | None) -> pl.DataFrame:
    """What a component held back in a batch, of messages that were in flight in a fold or came after it.

    Returns:
        `_root_id` and `_root_ids` as in the stream; `stream`, `file`, `row` and `batch`, where the tuple
        lies; `since`, the component's batch that took it in first; `task`, the bolt's that holds it.
    """
    rows = Rows.of(store, component, [batch] if batch else [])
    if "_held" not in rows.columns:
        return _NONE
    held = scan(rows.files, rows.columns).filter(pl.sql_expr(f"{rows.where} AND _kind = '{HELD}'"))
    found = collect(held.select("_root_id", "_root_ids", pl.col("_held").struct.unnest()))
    if fold is None:
        return found
    # A fold that has seen the batch which took the tuple in has also seen the tuple's roots.
    known = found.with_row_index("n").filter(pl.col("since") <= fold.logged.get(component, 0))
    roots = pl.coalesce("_root_ids", pl.concat_list("_root_id"))
    each = known.select("n", roots.alias("root_id")).explode("root_id").drop_nulls()
    live = live_rows(store, fold).filter(pl.col("state") == State.PENDING).select("root_id")
    settled = each.join(collect(live), on="root_id", how="anti").select("n").unique()
    return found.with_row_index("n").join(settled, on="n", how="anti").drop("n")
