"""Questions about settled rows of the ledger: which messages and batches a fold acked, and its own row.

Settled rows are those of no live partition. `fold` is the number of the fold that settled a row.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import polars as pl
from deltalake import DeltaTable

from acker.core.events import State
from acker.core.snapshot.ledger import Fold
from acker.core.snapshot.snapshot import Snapshot
from acker.core.store.parquet import collect, columns_of, scan
from acker.core.store.schemas import LEDGER
from acker.core.store.tables import files_of, query

_SETTLED = "live_in IS NULL"
_OF_FOLDS = f"{_SETTLED} AND root_id IS NULL"  # the row that each fold writes of itself


def acked_in(fold: int) -> str:
    """A SQL condition on the rows of the ledger that a fold acked, on which files are skipped."""
    return f"fold = {fold} AND {_SETTLED} AND state = 'acked'"


def _acked_after(after: int, upto: int) -> str:
    return f"{_SETTLED} AND state = 'acked' AND fold > {after} AND fold <= {upto}"


def acked_batches(ledger: DeltaTable, after: int, upto: int) -> list[dict[str, Any]]:
    """The batches of spouts whose messages the folds in (after, upto] acked.

    Returns:
        Rows of `fold`, `spout`, `batch` and `old`; `old` is true where messages of the batch are replaced by
        those that the fold acked. Each row is there once.
    """
    acked = _acked_after(after, upto)
    (some,) = query(f"SELECT count(replaces) AS n FROM ledger WHERE {acked}", ledger=ledger)
    if not some["n"]:  # else history is looked at
        sql = f"SELECT DISTINCT fold, spout, batch, false AS old FROM ledger WHERE {acked}"
        return query(sql, ledger=ledger)
    return query(
        f"""
        WITH acked AS (SELECT fold, spout, batch, replaces FROM ledger WHERE {acked}),
        replaced AS (SELECT a.fold, old.spout, old.batch FROM acked a JOIN ledger old
            ON old.root_id = a.replaces AND old.state = 'acked' AND old.{_SETTLED})
        SELECT DISTINCT fold, spout, batch, false AS old FROM acked
        UNION ALL SELECT DISTINCT fold, spout, batch, true AS old FROM replaced
        """,
        ledger=ledger,
    )


def acked_roots(snapshot: Snapshot, first: int, last: int) -> pl.DataFrame:
    """The roots that the folds from a first to a last one acked: `fold` and `_root_id`."""
    ledger = snapshot.require(LEDGER)
    files = files_of(ledger, f"{_SETTLED} AND fold >= {first} AND fold <= {last}")
    rows = scan(files, columns_of(LEDGER)).filter(
        pl.col("live_in").is_null(),
        pl.col("state") == State.ACKED,
        pl.col("fold").is_between(first, last),
    )
    return collect(rows.select("fold", _root_id="root_id"), snapshot.files)


def acked_messages(ledger: DeltaTable, after: int, upto: int, is_gone: str) -> tuple[int, int]:
    """How many messages the folds in (after, upto] acked, and how many of these are gone from the streams.

    Args:
        is_gone: a SQL condition on `spout` and `batch`. A message is gone where it holds of all its rows.
    """
    (row,) = query(
        f"""SELECT count(*) AS n, count(*) FILTER (WHERE gone) AS gone FROM (
            SELECT spout, source_partition, source_offset, min(CAST({is_gone} AS INT)) = 1 AS gone FROM ledger
            WHERE {_acked_after(after, upto)}
            GROUP BY spout, source_partition, source_offset) AS messages""",
        ledger=ledger,
    )
    return row["n"], row["gone"]


def logged_by_fold(ledger: DeltaTable, first: int, last: int) -> dict[int, dict[str, int]]:
    """Fold from a first to a last one -> component -> the newest batch whose events it folded.

    A fold that has read refusals also has the newest commit that it read, under the key `REFUSALS_READ`.
    """
    rows = query(
        f"SELECT fold, logged FROM ledger WHERE {_OF_FOLDS} AND fold >= {first} AND fold <= {last} "
        "ORDER BY fold",
        ledger=ledger,
    )
    return {row["fold"]: dict(row["logged"]) for row in rows}


def newest_before(ledger: DeltaTable, before: datetime) -> int:
    """The number of the newest fold that was made before a time; 0 where none was."""
    (row,) = query(
        f"SELECT max(fold) AS fold FROM ledger WHERE {_OF_FOLDS} "
        f"AND folded_at < TIMESTAMP '{before.isoformat()}'",
        ledger=ledger,
    )
    return row["fold"] or 0


def first_folded_at(ledger: DeltaTable, after: int) -> datetime:
    """When the first of the folds after one was made, in UTC."""
    (row,) = query(
        f"SELECT min(folded_at) AS since FROM ledger WHERE root_id IS NULL AND fold > {after}", ledger=ledger
    )
    found: datetime = row["since"]
    return found


def first_batches_needed(fold: Fold, published: int) -> dict[str, int]:
    """Spout -> the first of its batches with a root that is in flight, unpublished, or to be replaced.

    Args:
        fold: the newest one.
        published: the newest fold that every target has.
    """
    new = f"(live_in = {fold.number} OR ({_SETTLED} AND fold > {published}))"
    rows = query(
        f"""
        WITH new AS (SELECT * FROM ledger WHERE root_id IS NOT NULL AND {new}),
        old AS (SELECT ledger.* FROM new JOIN ledger ON ledger.root_id = new.replaces
            WHERE ledger.state = 'acked' AND ledger.{_SETTLED}),
        both AS (SELECT spout, batch FROM new UNION ALL SELECT spout, batch FROM old)
        SELECT spout, min(batch) AS batch FROM both WHERE batch IS NOT NULL GROUP BY spout""",
        ledger=fold.ledger,
    )
    return {row["spout"]: row["batch"] for row in rows}


def ended_in(ledger: DeltaTable, after: int, upto: int) -> pl.LazyFrame:
    """Rows of all columns that the folds in (after, upto] settled."""
    folds = f"{_SETTLED} AND fold > {after} AND fold <= {upto}"
    return scan(files_of(ledger, folds), columns_of(LEDGER)).filter(pl.sql_expr(folds))


def nothing_passed(fold: Fold | None, after: int) -> bool:
    """Whether some first attempt failed in the folds since one, and no attempt was acked or is in flight.

    Acks count in the same folds. Attempts are in flight as of the newest fold.

    Args:
        fold: the newest fold; None before the first, and then the result is False.
        after: the number of a fold. The folds after it count.
    """
    if fold is None:
        return False
    (row,) = query(
        f"""SELECT count(*) FILTER (WHERE state IN ('acked', 'pending')) AS passed,
                count(*) FILTER (WHERE attempt = 1 AND state NOT IN ('acked', 'pending')) AS failed
            FROM ledger WHERE root_id IS NOT NULL AND state <> 'retrying'
            AND (live_in = {fold.number} OR ({_SETTLED} AND fold > {after}))""",
        ledger=fold.ledger,
    )
    return bool(row["failed"] and not row["passed"])


def written_by(fold: Fold, conditions: Mapping[str, str], columns: Sequence[str], sample: int) -> Any:
    """Count the rows of messages that a fold wrote, for each of some conditions, and take samples of them.

    Args:
        conditions: name -> a SQL condition on the ledger's columns and on `ended`. `ended` is the root of the
            row if the fold ended an attempt of that root, else null. A retrying row keeps the root of the
            attempt before, so such a row is new if it has `ended`.
        columns: the columns of the sampled rows, which are ordered by the first four.
        sample: the highest number of sampled rows for each condition.

    Returns:
        Name -> the number of rows that meet the condition; and the sampled rows, with the name of the
        condition as `name`.
    """
    told = f"""
        WITH rows AS (SELECT * FROM ledger WHERE fold = {fold.number} AND root_id IS NOT NULL),
        attempts AS (SELECT root_id AS ended FROM rows WHERE state IN ('failed', 'timed_out')),
        told AS (SELECT * FROM rows LEFT JOIN attempts ON root_id = ended)"""
    counted = ", ".join(f"count(*) FILTER (WHERE {sql}) AS {name}" for name, sql in conditions.items())
    (counts,) = query(f"{told} SELECT {counted} FROM told", ledger=fold.ledger)
    order = ", ".join(columns[:4])
    samples = " UNION ALL ".join(
        f"(SELECT '{name}' AS name, {', '.join(columns)} FROM told WHERE {sql} "
        f"ORDER BY {order} LIMIT {sample})"
        for name, sql in conditions.items()
        if counts[name]
    )
    rows = query(f"{told} SELECT * FROM ({samples}) ORDER BY {order}", ledger=fold.ledger) if samples else []
    return counts, rows
