"""How far a store's streams were trimmed: one row per trimming, written before anything is deleted.

So whoever looks at a stream knows which of its rows may be gone, from the moment that they may be.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

import pyarrow as pa

from acker.schemas import SCHEMAS, TRIMS
from acker.tables import Store, append_rows, last_number, query

_APP = "trim"


@dataclass(frozen=True)
class Trim:
    """One trimming.

    Args:
        upto: component -> its newest batch whose rows are gone. Of a spout, also the newest batch whose
            messages may be gone from any stream.
        tuples: component whose tuples are added to published aggregates -> how many of those messages
            it emitted for the attempts that were acked.
    """

    number: int = 0
    upto: Mapping[str, int] = field(default_factory=dict)
    tuples: Mapping[str, int] = field(default_factory=dict)

    def is_gone(self, spout: str = "spout", batch: str = "batch") -> str:
        """A SQL condition on the columns that name a root's spout and the spout's batch."""
        gone = [f"({spout} = '{name}' AND {batch} <= {upto})" for name, upto in self.upto.items()]
        return f"({' OR '.join(gone)})" if gone else "false"


def newest_trim(store: Store) -> Trim:
    """The newest trimming; one of nothing before the first."""
    table = store.open(TRIMS)
    number = last_number(table, _APP)
    if table is None or number == 0:
        return Trim()
    (row,) = query(f'SELECT upto, tuples FROM trims WHERE "trim" = {number}', trims=table)
    return Trim(number, dict(row["upto"]), dict(row["tuples"]))


def append_trim(store: Store, trim: Trim, now: datetime) -> Trim:
    """Record a trimming, and return the one that has its number now: ours, or a faster client's."""
    row = {
        "trim": trim.number,
        "upto": list(trim.upto.items()),
        "tuples": list(trim.tuples.items()),
        "trimmed_at": now,
    }
    rows = pa.Table.from_pylist([row], SCHEMAS[TRIMS].arrow())
    append_rows(store.require(TRIMS), rows, _APP, trim.number)
    return newest_trim(store)
