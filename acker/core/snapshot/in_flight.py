"""Questions about messages in flight: the newest fold's live rows, and the inits that were logged since.

A message is in flight from the moment that its init is logged. A fold that has not seen the init has no row
of it, so both tables are asked.
"""

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Any

from acker.core.messages import MessageId, message_of
from acker.core.snapshot.ledger import NOW, Fold, unfolded
from acker.core.snapshot.snapshot import Snapshot
from acker.core.store.schemas import EVENTS, LEDGER
from acker.core.store.tables import query

_MESSAGE = "spout, source_partition, source_offset"


def in_flight(snapshot: Snapshot, spout: str) -> int:
    """How many messages of a spout are in flight: pending roots, and those whose init no fold has seen."""
    new = f"kind = 'init' AND ({unfolded(snapshot.fold, {spout: snapshot.logged(spout)})})"
    live = f"{_live(snapshot.fold)} AND state = 'pending' AND spout = '{spout}'"
    (row,) = query(
        f"SELECT (SELECT count(*) FROM events WHERE {new}) "
        f"+ (SELECT count(*) FROM ledger WHERE {live}) AS pending",
        events=snapshot.require(EVENTS),
        ledger=snapshot.require(LEDGER),
    )
    return int(row["pending"])


def lowest_live(
    snapshot: Snapshot, logged: Mapping[str, int]
) -> dict[tuple[str, str], tuple[int, int | None]]:
    """(spout, partition) with live messages -> their lowest offset, and the highest settled offset below it.

    Live are the newest fold's live rows, and messages emitted or lost in batches that no fold has seen.

    Args:
        logged: spout -> its newest logged batch.
    """
    rows = query(
        f"""
        WITH live AS (
            SELECT {_MESSAGE} FROM ledger WHERE {_live(snapshot.fold)}
            UNION ALL
            SELECT {_MESSAGE} FROM events
            WHERE kind IN ('init', 'lost') AND ({unfolded(snapshot.fold, logged)})),
        lowest AS (
            SELECT spout, source_partition, min(source_offset) AS lowest
            FROM live GROUP BY spout, source_partition),
        settled AS (
            SELECT spout AS s, source_partition AS p, source_offset AS o FROM ledger WHERE live_in IS NULL)
        SELECT spout, source_partition, lowest, max(o) AS settled
        FROM lowest LEFT JOIN settled ON spout = s AND source_partition = p AND o < lowest
        GROUP BY spout, source_partition, lowest
        """,
        ledger=snapshot.require(LEDGER),
        events=snapshot.require(EVENTS),
    )
    return {(row["spout"], row["source_partition"]): (row["lowest"], row["settled"]) for row in rows}


def failed_in_batches(
    snapshot: Snapshot, component: str, after: int, spouts: Collection[str], limit: int
) -> list[dict[str, Any]]:
    """The messages in flight that failed in a component's newest logged batches, by the reason's first line.

    Args:
        after: the number of a batch of the component. The batches after it count.
        spouts: names of the spouts of the messages.
        limit: at most so many reasons, the commonest first.

    Returns:
        A row for each reason: `reason`; the name of the message with the lowest position; `n`, the number of
        the messages; and, alike in each row, the number of all reasons as `kinds` and the sum of all `n` as
        `total`.
    """
    upto = snapshot.logged(component)
    emitted = {name: snapshot.logged(name) for name in spouts}
    message, names = f"root_id AS root, {_MESSAGE}", _MESSAGE.split(", ")
    sample = ", ".join(f"first_value({name} ORDER BY {_MESSAGE}) AS {name}" for name in names)
    return query(
        f"""WITH live AS (
            SELECT {message} FROM ledger WHERE {_live(snapshot.fold)} AND state = 'pending'
            UNION ALL SELECT {message} FROM events
            WHERE kind = 'init' AND ({unfolded(snapshot.fold, emitted)})),
        failed AS (SELECT DISTINCT root_id, split_part(reason, chr(10), 1) AS reason FROM events
            WHERE kind IN ('fail', 'reject') AND component = '{component}'
            AND batch > {after} AND batch <= {upto})
        SELECT reason, {sample}, count(*) AS n, count(*) OVER () AS kinds, sum(count(*)) OVER () AS total
        FROM failed JOIN live ON root_id = root
        GROUP BY reason ORDER BY n DESC, reason LIMIT {max(limit, 1)}""",
        events=snapshot.require(EVENTS),
        ledger=snapshot.require(LEDGER),
    )


def next_due(fold: Fold) -> datetime | None:
    """When the next of a fold's retrying messages is due, in UTC; None where none is retrying."""
    sql = f"SELECT min(retry_at) AS due FROM ledger WHERE {_live(fold)} AND state = 'retrying'"
    (row,) = query(sql, ledger=fold.ledger)
    due: datetime | None = row["due"]
    return due


def overdue_retries(fold: Fold, before: datetime) -> tuple[int, datetime | None]:
    """How many messages were due before a time and are not emitted, and since when the first is due."""
    (row,) = query(
        f"SELECT count(*) AS n, min(retry_at) AS since FROM ledger WHERE {_live(fold)} "
        f"AND state = 'retrying' AND retry_at < TIMESTAMP '{before.isoformat()}'",
        ledger=fold.ledger,
    )
    return row["n"], row["since"]


def unsettled_since(fold: Fold, before: datetime) -> tuple[int, datetime | None]:
    """How many live messages were emitted before a time, and when the first of them was."""
    (row,) = query(
        f"SELECT count(*) AS n, min(emitted_at) AS since FROM ledger WHERE {_live(fold)} "
        f"AND state IN ('pending', 'retrying') AND emitted_at < TIMESTAMP '{before.isoformat()}'",
        ledger=fold.ledger,
    )
    return row["n"], row["since"]


def rows_now(snapshot: Snapshot, where: str = "true", order: str = "") -> list[dict[str, Any]]:
    """Rows of the ledger as it is now: the newest fold's live ones and every settled one.

    Args:
        where: a SQL condition on them.
        order: SQL of ORDER BY, without these words.
    """
    ordered = f" ORDER BY {order}" if order else ""
    sql = f"SELECT * FROM ledger WHERE ({where}) AND {_now(snapshot)}{ordered}"
    return query(sql, ledger=snapshot.require(LEDGER))


def states_now(snapshot: Snapshot) -> dict[str, int]:
    """State -> how many rows of the ledger are in it now."""
    sql = f"SELECT state, count(*) AS n FROM ledger WHERE {_now(snapshot)} GROUP BY state"
    return {row["state"]: row["n"] for row in query(sql, ledger=snapshot.require(LEDGER))}


def newest_reads(snapshot: Snapshot, messages: Collection[MessageId]) -> dict[MessageId, int]:
    """Message -> the spout's newest batch that read it. A message that was never read is not there."""
    mine = " OR ".join(f"({message.condition()})" for message in messages)
    rows = query(
        f"""SELECT {_MESSAGE}, max(batch) AS newest FROM (
            SELECT {_MESSAGE}, batch FROM events WHERE kind = 'init' AND ({mine})
            UNION ALL
            SELECT {_MESSAGE}, batch FROM ledger WHERE state <> 'lost' AND batch IS NOT NULL AND ({mine}))
        GROUP BY {_MESSAGE}""",
        events=snapshot.require(EVENTS),
        ledger=snapshot.require(LEDGER),
    )
    return {message_of(row): row["newest"] for row in rows}


def _live(fold: Fold | None) -> str:
    return f"live_in = {fold.number if fold else 0}"


def _now(snapshot: Snapshot) -> str:
    return NOW.format(fold=snapshot.fold.number if snapshot.fold else 0)
