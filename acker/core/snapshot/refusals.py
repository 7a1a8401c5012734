"""Refusals: acked roots whose rows a published table would not take after the ack.

A publisher records refusals before it commits the rest of the fold. The next fold makes dead letters of their
messages, and with that fold every other table gives up their rows. So a table that has refused a root never
has it. Any other table may have the root until it has taken in that fold.
"""

from collections.abc import Collection, Mapping
from datetime import datetime

import polars as pl
from deltalake import DeltaTable

from acker.core.errors import StoreError
from acker.core.events import State
from acker.core.messages import MESSAGE
from acker.core.snapshot.ledger import Fold, refusals_read, settled_in
from acker.core.snapshot.snapshot import Snapshot
from acker.core.store.parquet import collect, columns_of, scan
from acker.core.store.schemas import LEDGER, REFUSALS, SCHEMAS
from acker.core.store.tables import RECOVERY_HINT, append_rows, files_of, last_number, path_of, query

_APP = "refusals"
_COLUMNS = columns_of(REFUSALS)


def last_refusal(table: DeltaTable | None) -> int:
    """The number of the newest commit of `refusals`; 0 where nothing was ever refused."""
    return last_number(table, _APP)


def recorded(snapshot: Snapshot) -> DeltaTable | None:
    """The table `refusals`, with all that the snapshot's fold has read; None where nothing was ever refused.

    Raises:
        StoreError: the table has fewer commits than the fold has read.
    """
    table = snapshot.open(REFUSALS)
    check_read(snapshot, table)
    return table


def check_read(snapshot: Snapshot, table: DeltaTable | None) -> None:
    """Stop where the table `refusals` has fewer commits than the snapshot's fold has read.

    Raises:
        StoreError: with both numbers.
    """
    read, there = snapshot.fold.refusals if snapshot.fold else 0, last_refusal(table)
    if there < read:
        path = snapshot.store.path(REFUSALS)
        raise StoreError(
            f"{path} has {there:,} commits, and a fold has read {read:,}: it was removed, or an older copy "
            f"was put in its place. Put its newest copy back. {RECOVERY_HINT}",
            table=path,
        )


def refusals(table: DeltaTable | None, after: int = 0, upto: int | None = None) -> pl.DataFrame:
    """Rows of `refusals` of the commits in (after, upto], in their order.

    Args:
        upto: None for the newest.

    Raises:
        StoreError: some of these commits have no row any more.
    """
    newest = last_refusal(table) if upto is None else upto
    if table is None or newest <= after:
        return pl.DataFrame(schema=_COLUMNS)
    rows = scan(files_of(table), _COLUMNS).filter(pl.col("refusal").is_between(after + 1, newest))
    found = collect(rows, lambda: files_of(table)).sort("refusal", "root_id")
    there, expected = found["refusal"].n_unique(), newest - after
    if there != expected:
        raise StoreError(
            f"{path_of(table)} has rows of {there:,} of the {expected:,} commits after {after:,}: it was "
            f"restored or edited by hand. Put its newest version back. {RECOVERY_HINT}",
            table=path_of(table),
        )
    return found


def unread_refusals(snapshot: Snapshot) -> int:
    """The number of refused roots whose refusal the newest fold has not read yet."""
    read = snapshot.fold.refusals if snapshot.fold else 0
    return refusals(recorded(snapshot), read)["root_id"].n_unique()


def record_refusals(
    snapshot: Snapshot, stream: str, target: str, fold: int, refused: pl.DataFrame, now: datetime
) -> bool:
    """Record the roots of a fold that a table refuses, and all roots that were acked together with them.

    Args:
        target: where the stream is published.
        refused: columns `root_id` and `reason`.

    Returns:
        False where another refusal was recorded since the snapshot. Then this call records none.
    """
    table = snapshot.require(REFUSALS)
    check_read(snapshot, table)
    number = last_refusal(table) + 1
    is_acked = (pl.col("state") == State.ACKED) & (pl.col("fold") == fold)
    acked = settled_in(snapshot.require(LEDGER), fold).filter(is_acked)
    found = _with_partners(collect(acked.join(refused.lazy(), on="root_id", suffix="_told")), acked)
    rows = found.with_columns(
        refusal=pl.lit(number),
        stream=pl.lit(stream),
        target=pl.lit(target),
        fold=pl.lit(fold),
        refused_at=pl.lit(now),
    ).select(pl.col(name).cast(kind) for name, kind in _COLUMNS.items())
    return append_rows(table, rows.to_arrow().cast(SCHEMAS[REFUSALS].arrow()), _APP, number)


def _with_partners(refused: pl.DataFrame, acked: pl.LazyFrame) -> pl.DataFrame:
    """Rows of refused roots, with their `reason`, and of roots that were acked together with them."""
    columns = ["root_id", *MESSAGE, "attempt", "batch", "joined", "emitted_at"]
    own = refused.select(*columns, reason="reason_told")
    groups = (
        own.drop_nulls("joined")
        .sort("root_id")
        .group_by("joined", maintain_order=True)
        .agg(reason=pl.format("joined with {}:{}:{}: {}", *MESSAGE, "reason").first())
    )
    if groups.is_empty():
        return own
    partners = (
        acked.select(columns).join(groups.lazy(), on="joined").join(own.lazy(), on="root_id", how="anti")
    )
    return pl.concat([own, collect(partners).select(own.columns)])


def refused_by(table: DeltaTable | None, stream: str) -> pl.DataFrame:
    """The roots (`root_id`) that the table of a stream has refused: they never enter it."""
    return refused_roots(table, [stream], None)


def read_by_fold(ledger: DeltaTable, after: int, upto: int) -> dict[int, tuple[int, int]]:
    """Fold in (after, upto] -> the commits of `refusals` that it was the first to read, as (first, last].

    There may be no such commits. Then both numbers are the newest commit that was read before.
    """
    rows = query(
        "SELECT fold, logged FROM ledger WHERE live_in IS NULL AND root_id IS NULL "
        f"AND fold >= {after} AND fold <= {upto} ORDER BY fold",
        ledger=ledger,
    )
    read: Mapping[int, int] = {row["fold"]: refusals_read(dict(row["logged"])) for row in rows}
    found, before = {}, read.get(after, 0)
    for fold, newest in read.items():
        found[fold] = (before, newest)
        before = newest
    found.pop(after, None)
    return found


def leaving(ledger: DeltaTable, table: DeltaTable | None, fold: int, read: tuple[int, int]) -> pl.DataFrame:
    """The roots that tables give up with the fold that was the first to read their refusal.

    Roots that a later attempt has replaced before are not among them, since they have left already.

    Args:
        read: see `read_by_fold`.

    Returns:
        root_id, spout, batch.
    """
    after, upto = read
    before = refusals(table, 0, after)
    new = refusals(table, after, upto).unique("root_id", keep="first")
    found = new.join(before, on="root_id", how="anti").select("root_id", "spout", "batch", "fold")
    if found.is_empty():
        return found.drop("fold")
    since = pl.col("fold") > found.select(pl.col("fold").min()).item()
    replacing = settled_in(ledger, fold - 1).filter(
        since & (pl.col("state") == State.ACKED) & pl.col("replaces").is_not_null()
    )
    replaced = collect(replacing.select(root_id="replaces"))
    return found.join(replaced, on="root_id", how="anti").drop("fold")


def refused_roots(table: DeltaTable | None, streams: Collection[str], fold: Fold | None) -> pl.DataFrame:
    """The acked roots (`root_id`) that the table of a stream must not hold as of a fold.

    These are the roots that the table has refused itself, and the roots whose refusal the fold, or one before
    it, has read.

    Args:
        streams: names of the streams that feed the table, or fed it.
        fold: the newest fold that the table holds; None where the table keeps roots that other tables refuse.
    """
    is_own = pl.col("stream").is_in(list(streams))
    is_read = pl.col("refusal") <= (fold.refusals if fold else 0)
    return refusals(table).filter(is_own | is_read).select("root_id").unique()
