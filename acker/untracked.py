"""Tuples that belong to no message: emitted without an anchor, or for a message that is not tracked."""

import polars as pl

from acker.frames import Rows, collect, scan
from acker.schemas import of_stream
from acker.tables import Store


def untracked(store: Store, name: str, after: int, upto: int) -> dict[int, int]:
    """Batch in (after, upto] of a stream -> how many untracked tuples it has, if any."""
    rows = Rows.of(store, name, range(after + 1, upto + 1))
    mine = f"{rows.where} AND _kind IS NULL AND _root_id IS NULL AND {of_stream(name, rows.columns)}"
    found = scan(rows.files, rows.columns).filter(pl.sql_expr(mine)).group_by("_batch").len()
    return dict(collect(found).rows())
