"""How far a store's streams were trimmed: two rows per trimming, both written before anything is deleted.

The first row says how far the trimming will go. So whoever reads a stream knows which of its rows may be
gone, from the moment that they may be. The second row adds the numbers of tuples that go, once nothing can be
planned any more that needs them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

import pyarrow as pa

from acker.core.store.schemas import SCHEMAS, TRIMS
from acker.core.store.store import Store
from acker.core.store.tables import append_rows, query

_APP = "trim"


@dataclass(frozen=True)
class Trim:
    """One trimming.

    Args:
        upto: component -> its newest batch whose rows are gone. Of a spout, also the newest batch whose
            messages may be gone from any stream.
        tuples: stream that feeds, or has fed, a target without roots, such as an aggregate or a topic ->
            the number of its acked and untracked tuples that this trimming and all before it delete; None
            where the trimming is only announced.
    """

    number: int = 0
    upto: Mapping[str, int] = field(default_factory=dict)
    tuples: Mapping[str, int] | None = field(default_factory=dict)

    def is_gone(self, spout: str = "spout", batch: str = "batch") -> str:
        """A SQL condition for roots that are gone, on the columns of a root's spout and the spout's batch."""
        gone = [f"({spout} = '{name}' AND {batch} <= {upto})" for name, upto in self.upto.items()]
        return f"({' OR '.join(gone)})" if gone else "false"


def newest_trim(store: Store) -> Trim:
    """The newest trimming, which may be only announced; an empty one before the first."""
    return _newest(store, "true")


def counted_trim(store: Store) -> Trim:
    """The newest trimming whose tuples were counted; an empty one before the first."""
    return _newest(store, "tuples IS NOT NULL")


def _newest(store: Store, where: str) -> Trim:
    table = store.open(TRIMS)
    if table is None:
        return Trim()
    sql = f'SELECT "trim", upto, tuples FROM trims WHERE {where} ORDER BY "trim" DESC LIMIT 1'
    for row in query(sql, trims=table):
        return Trim(row["trim"], dict(row["upto"]), None if row["tuples"] is None else dict(row["tuples"]))
    return Trim()


def append_trim(store: Store, trim: Trim, now: datetime) -> Trim:
    """Record a trimming, unless its number is taken, and return the newest trimming.

    The newest trimming is this one, or that of a faster client.
    """
    row = {
        "trim": trim.number,
        "upto": list(trim.upto.items()),
        "tuples": None if trim.tuples is None else list(trim.tuples.items()),
        "trimmed_at": now,
    }
    rows = pa.Table.from_pylist([row], SCHEMAS[TRIMS].arrow())
    append_rows(store.require(TRIMS), rows, _APP, trim.number)
    return newest_trim(store)
