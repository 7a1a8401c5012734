"""Checks whether the tables still hold all rows that were committed to them, as they were."""

from collections.abc import Collection, Sequence

import polars as pl
from deltalake import DeltaTable

from acker.core.errors import StoreError
from acker.core.events import Kind
from acker.core.snapshot.ledger import Fold
from acker.core.snapshot.snapshot import Snapshot
from acker.core.snapshot.streams import rows_by_batch
from acker.core.snapshot.trims import newest_trim
from acker.core.store.checksums import checksum_of_events, checksum_of_ledger
from acker.core.store.parquet import collect, columns_of, scan
from acker.core.store.schemas import EVENTS, LEDGER, stream
from acker.core.store.store import Store
from acker.core.store.tables import RECOVERY_HINT, files_of, last_number, path_of, query

_BATCH = ["component", "batch"]


def check_batches(
    table: DeltaTable, batches: pl.DataFrame, events: pl.LazyFrame, logged: Collection[tuple[str, int]]
) -> None:
    """Stop where the events of some batches are not those that were logged.

    Args:
        table: `events`.
        batches: the events of kind `batch`. Each batch has one, with the checksum of its other events.
        events: the other events.
        logged: (component, batch) of all batches that must be there. Events of other batches must not be
            there.

    Raises:
        StoreError: with the first such batch.
    """
    expected = pl.DataFrame(sorted(logged), {"component": pl.String, "batch": pl.Int64}, orient="row")
    own = batches.group_by(_BATCH).agg(pl.col("ack_val").first(), pl.len())
    there = collect(events.group_by(_BATCH).agg(checksum_of_events().alias("checksum")))
    each = expected.with_columns(pl.lit(True).alias("expected"))
    for found in (own, there):
        each = each.join(found, on=_BATCH, how="full", coalesce=True, nulls_equal=True)
    sound = pl.col("expected") & (pl.col("len") == 1) & (pl.col("ack_val") == pl.col("checksum").fill_null(0))
    broken = each.filter(~sound.fill_null(False)).sort(_BATCH)
    for component, batch in broken.select(_BATCH).rows()[:1]:
        more = f" and {broken.height - 1:,} more batches" if broken.height > 1 else ""
        raise StoreError(
            f"{table.table_uri} does not hold what was logged for batch {batch} of {component}{more}: rows "
            "are missing, doubled or edited. Restore it to a version that holds it, or move its folder "
            f"away, and the next run logs all batches again. {RECOVERY_HINT}",
            component=component,
            batch=batch,
            table=path_of(table),
        )


def broken_fold(store: Store, fold: int) -> StoreError:
    """The error about a fold whose rows are not those that it wrote."""
    return StoreError(
        f"{store.path(LEDGER)} does not hold the rows that fold {fold} wrote: some are missing, doubled or "
        f"edited. Restore it to a version that holds them. {RECOVERY_HINT}",
        table=store.path(LEDGER),
    )


def check_tables(snapshot: Snapshot, components: Collection[str]) -> None:
    """Stop where rows of `events` or of the ledger are not those that were committed. All rows are read.

    A batch that a fold has seen may lack all of its events, since a trimming deletes them.

    Args:
        components: all components that ever planned a batch.

    Raises:
        StoreError: with the first such batch or fold.
    """
    events, fold = snapshot.require(EVENTS), snapshot.fold
    folded = fold.logged if fold else {}
    logged = {name: last_number(events, name) for name in {*components, *folded}}
    for name, last in folded.items():
        if logged[name] < last:
            raise StoreError(
                f"{events.table_uri} has batches of {name} up to {logged[name]}, and a fold has seen {last}: "
                f"it was put back to an older version. The next run logs the others again. {RECOVERY_HINT}",
                component=name,
                table=snapshot.store.path(EVENTS),
            )
    rows = scan(files_of(events), columns_of(EVENTS))
    is_batch = pl.col("kind").eq_missing(pl.lit(Kind.BATCH))
    batches = collect(rows.filter(is_batch))
    new = {(name, n) for name, last in logged.items() for n in range(folded.get(name, 0) + 1, last + 1)}
    check_batches(events, batches, rows.filter(~is_batch), new | set(batches.select(_BATCH).rows()))
    if fold is not None:
        _check_folds(snapshot.store, fold)


def _check_folds(store: Store, fold: Fold) -> None:
    ledger = fold.ledger

    def rows(where: str) -> pl.LazyFrame:  # of a partition, whose column is in no file
        return scan(files_of(ledger, where), columns_of(LEDGER))

    of_roots, checksum = pl.col("root_id").is_not_null(), checksum_of_ledger().alias("checksum")
    settled = rows("live_in IS NULL").filter(pl.col("fold") <= fold.number)
    own = collect(settled.filter(~of_roots).select("fold", "ack_val"))
    checksums = collect(settled.filter(of_roots).group_by("fold").agg(checksum))
    live = collect(rows(f"live_in = {fold.number}").select(checksum))
    folds = pl.DataFrame({"fold": range(1, fold.number + 1)}, {"fold": pl.Int64})
    each = folds.join(own, on="fold", how="left").join(checksums, on="fold", how="left").sort("fold")
    sound = (pl.col("ack_val") == pl.col("checksum").fill_null(0)).fill_null(False) & ~pl.col(
        "fold"
    ).is_duplicated()
    broken = each.filter(~sound)["fold"].to_list()
    if not broken and live.item() != fold.live_seal:
        broken = [fold.number]
    for number in broken[:1]:
        raise broken_fold(store, number)


def missing_rows(snapshot: Snapshot, component: str, where: str = "true") -> dict[int, tuple[int, int]]:
    """Batch -> the number of rows in its stream and the number when it was logged, where these differ.

    Batches that were trimmed, whose events are gone, or that had no rows when they were logged are not looked
    at. A batch without rows may have been given up, and a process that was at work on it may still write it.

    Args:
        where: a SQL condition on the batches' rows of kind `batch` in `events`.
    """
    kept = newest_trim(snapshot.store).upto.get(component, 0)
    logged = query(
        f"SELECT batch, emitted FROM events WHERE kind = '{Kind.BATCH}' AND component = '{component}' "
        f"AND emitted > 0 AND batch > {kept} AND {where} ORDER BY batch",
        events=snapshot.require(EVENTS),
    )
    there = rows_by_batch(snapshot, component)
    found = {row["batch"]: (there.get(row["batch"], 0), row["emitted"]) for row in logged}
    return {batch: rows for batch, rows in found.items() if rows[0] != rows[1]}


def check_missing(snapshot: Snapshot, component: str, batches: Sequence[int]) -> None:
    """Stop where some batches of a stream have other numbers of rows than when they were logged.

    Raises:
        StoreError: with the first such batch.
    """
    if not batches:
        return
    among = f"batch BETWEEN {min(batches)} AND {max(batches)}"
    found = missing_rows(snapshot, component, among)
    for batch in sorted(found.keys() & set(batches)):
        there, logged = found[batch]
        path = snapshot.store.path(stream(component))
        raise StoreError(
            f"{path} has {there} rows of batch {batch} instead of {logged}: it was restored or edited by "
            f"hand. Nothing is published of it before it has them again. {RECOVERY_HINT}",
            component=component,
            batch=batch,
            table=path,
        )
