"""The ledger as clients read it: the newest fold, what is live in it, and each message's story."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from deltalake import DeltaTable
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from acker.errors import StoreError
from acker.schemas import LEDGER
from acker.tables import Store, last_number, query
from acker.timeouts import Turn

APP = "fold"

# The ledger now: the newest fold's live rows and every settled row. In both dialects, Spark's and
# DataFusion's; {fold} is the number of the newest fold.
NOW = "root_id IS NOT NULL AND (live_in IS NULL OR live_in = {fold})"


@dataclass(frozen=True)
class Fold:
    """The row that each fold writes of itself."""

    number: int
    events_version: int  # of the events table that it folded up to
    turn: Turn
    logged: dict[str, int]  # component -> the newest batch whose events it folded
    counts: dict[str, int] = field(
        default_factory=dict
    )  # attempts by state, `late` events, `replays_pending`
    folded_at: datetime | None = None
    ledger_version: int = 0  # a version of the ledger that holds the fold

    def pending(self) -> int:
        """Roots in flight."""
        return self.counts.get("pending", 0)


def newest_fold(store: Store) -> Fold | None:
    """The newest fold, or None before the first.

    Raises:
        StoreError: the ledger names a newest fold whose row is not there.
    """
    table = store.open(LEDGER)
    number = last_number(table, APP)
    if table is None or number == 0:
        return None
    return read_fold(table, number)


def read_fold(table: DeltaTable, number: int) -> Fold:
    """The row of one fold.

    Raises:
        StoreError: it is not there.
    """
    columns = 'fold, events_version, turn, "window", logged, counts, folded_at'
    rows = query(
        f"SELECT {columns} FROM ledger WHERE fold = {number} AND live_in IS NULL AND root_id IS NULL",
        ledger=table,
    )
    if len(rows) != 1:
        raise StoreError(
            f"The ledger {table.table_uri} has {len(rows)} rows for its newest fold, {number}, instead of "
            "one. It was restored or edited by hand; restore it to a version that holds the fold."
        )
    return _fold(rows[0], table.version())


def _fold(row: dict[str, Any], version: int) -> Fold:
    return Fold(
        number=row["fold"],
        events_version=row["events_version"],
        turn=Turn(row["turn"], row["window"]),
        logged=dict(row["logged"]),
        counts=dict(row["counts"]),
        folded_at=row["folded_at"],
        ledger_version=version,
    )


def live_rows(store: Store, spark: SparkSession, fold: Fold) -> DataFrame:
    """Pending and retrying rows of a fold, in Spark, at the version at which the fold was found."""
    return store.read(spark, LEDGER, fold.ledger_version).where(F.col("live_in") == fold.number)
