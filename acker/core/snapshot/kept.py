"""Records of the rows that a trimming deletes from a published stream: their numbers and digests.

A trimming adds up the digests of the rows that it will delete, by the fold that acked them, before any row is
deleted. So a published table can be checked although the stream has its rows no more. A replay takes
published rows back that were trimmed. Before it does, the publisher adds a record of these rows with the
other sign.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import polars as pl
import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, write_deltalake

from acker.core.snapshot.trims import Trim, counted_trim
from acker.core.store.commits import make_table
from acker.core.store.schemas import TRIMS
from acker.core.store.store import Store
from acker.core.store.tables import commit_once, last_number, query, query_table

_TRIMMING, _PUBLISHER = "trim", "taken"  # whose numbers are in the table's log
KEPT = pa.schema(
    {
        "trim": pa.int64(),  # the trimming with which they went; of taken ones the newest then
        "fold": pa.int64(),  # that acked them; null of rows of no message
        "taken_by": pa.int64(),  # the fold whose replays took them back; null of what a trimming took
        "messages": pa.int64(),
        "rows": pa.int64(),
        "digest": pa.int64(),  # the sum of theirs; null where nobody knows
    }
)


GONE = pl.Schema({"fold": pl.Int64, "messages": pl.Int64, "rows": pl.Int64, "digest": pl.Int64})


def kept(stream: str) -> str:
    """The name of the table that has the records of trimmed rows of a stream that is published row by row."""
    return f"kept/{stream}"


@dataclass(frozen=True)
class Kept:
    """Records of trimmed rows, as far as a store has them.

    Args:
        since: the trimming after which all trimmed rows have records. Rows that were trimmed before have
            none.
        rows: the records, with the columns of `KEPT`.
    """

    since: Trim = field(default_factory=Trim)
    rows: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(pa.Table.from_batches([], KEPT)))


def kept_rows(store: Store, streams: Sequence[str], counted: Trim, position: int) -> Kept:
    """The records of rows that were trimmed from some streams.

    Args:
        counted: the newest trimming that counts.
        position: the newest fold whose replays count.
    """
    rows = [_rows_of(store, name, counted) for name in streams]
    trims = _counted_trims(store, counted)
    # A trimming of which no stream keeps anything was that of an older version, or of a time when none of
    # them was published row by row.
    known = {number for each in rows for number in each.filter(pl.col("taken_by").is_null())["trim"]}
    unknown = trims.keys() - known
    since = trims[max(unknown)] if unknown else Trim()
    # What was kept for a trimming that was cut short before it was counted is kept once more for the next.
    is_known = (pl.col("trim") > since.number) & pl.col("trim").is_in([*trims])
    counts = pl.col("taken_by").is_null() | (pl.col("taken_by") <= position)
    return Kept(since, pl.concat(rows).filter(is_known, counts))


def _rows_of(store: Store, name: str, counted: Trim) -> pl.DataFrame:
    table = store.open(kept(name))
    if table is None:
        return Kept().rows
    return pl.DataFrame(query_table(f'SELECT * FROM kept WHERE "trim" <= {counted.number}', kept=table))


def _counted_trims(store: Store, counted: Trim) -> dict[int, Trim]:
    """Number -> trimming, for all trimmings up to a given one whose tuples were counted."""
    table = store.open(TRIMS)
    if table is None:
        return {}
    sql = f'SELECT "trim", upto FROM trims WHERE tuples IS NOT NULL AND "trim" <= {counted.number}'
    return {row["trim"]: Trim(row["trim"], dict(row["upto"])) for row in query(sql, trims=table)}


def keep_rows(store: Store, stream: str, gone: pl.DataFrame, number: int) -> None:
    """Record the rows that a trimming deletes, in place of records of an earlier try that was never counted.

    Args:
        gone: columns fold, messages, rows and digest.
        number: of the trimming.

    Raises:
        StoreError: the records cannot be written.
    """
    columns = {"trim": pl.lit(number, pl.Int64), "taken_by": pl.lit(None, pl.Int64)}
    rows = gone.with_columns(**columns)
    if not _append(store, stream, rows, _TRIMMING, number) and counted_trim(store).number < number:
        where = f'"trim" = {number} AND taken_by IS NULL'  # a replay may have replaced some of it since then
        table = store.require(kept(stream))
        write_deltalake(table, _arrow(rows), mode="overwrite", predicate=where)


def nothing_gone() -> pl.DataFrame:
    """The records of a trimming that deletes no rows of a stream."""
    return pl.DataFrame([(None, 0, 0, 0)], GONE, orient="row")


def has_taken(store: Store, streams: Sequence[str], fold: int) -> bool:
    """Whether the rows that a fold's replays take back are recorded, or no trimmed rows are recorded at all.

    Args:
        streams: first the published stream, then the streams that fed its table before.
    """
    tables = [store.open(kept(name)) for name in streams]
    return all(table is None for table in tables) or last_number(tables[0], _PUBLISHER) >= fold


def take_rows(store: Store, stream: str, taken: pl.DataFrame, trim: int, fold: int) -> None:
    """Record the trimmed rows that a fold's replays take back, once, before they are taken.

    Args:
        taken: columns fold, messages, rows and digest.
        trim: the newest trimming that was counted.
    """
    of_taken = [-pl.col(name) for name in ("messages", "rows", "digest")]
    rows = taken.with_columns(*of_taken, trim=pl.lit(trim, pl.Int64), taken_by=pl.lit(fold, pl.Int64))
    _append(store, stream, rows, _PUBLISHER, fold)


def _arrow(rows: pl.DataFrame) -> pa.Table:
    return rows.select(KEPT.names).to_arrow().cast(KEPT)


def _append(store: Store, stream: str, rows: pl.DataFrame, app: str, number: int) -> bool:
    """Append records of a stream's trimmed rows to their table, once per (app, number).

    The table is made where it is missing.

    Returns:
        Whether this call's commit went in, and not another's.
    """
    path, added = store.path(kept(stream)), _arrow(rows)

    def commit(found: DeltaTable | None, once: CommitProperties) -> None:
        if found is None:
            make_table(path, added, once)
        else:
            write_deltalake(found, added, mode="append", commit_properties=once)

    return commit_once(path, {app: number}, commit)
