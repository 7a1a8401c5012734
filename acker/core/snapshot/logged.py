"""Questions about `events`: when a batch was logged, and which events there are of a message or of roots."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from acker.core.snapshot.ledger import unfolded
from acker.core.snapshot.snapshot import Snapshot
from acker.core.store.schemas import EVENTS
from acker.core.store.tables import query


def logged_at(snapshot: Snapshot, component: str, batch: int) -> datetime | None:
    """When a batch was logged, in UTC; None where its events were trimmed."""
    return _earliest(snapshot, f"component = '{component}' AND batch = {batch}")


def unfolded_since(snapshot: Snapshot, logged: Mapping[str, int]) -> datetime | None:
    """Since when there are events that no fold has seen, in UTC; None where there are none.

    Args:
        logged: component -> its newest logged batch.
    """
    return _earliest(snapshot, f"kind = 'batch' AND ({unfolded(snapshot.fold, logged)})")


def _earliest(snapshot: Snapshot, where: str) -> datetime | None:
    sql = f"SELECT min(logged_at) AS since FROM events WHERE {where}"
    (row,) = query(sql, events=snapshot.require(EVENTS))
    since: datetime | None = row["since"]
    return since


def events_where(snapshot: Snapshot, where: str) -> list[dict[str, Any]]:
    """The events of which a SQL condition holds, all columns."""
    return query(f"SELECT * FROM events WHERE {where}", events=snapshot.require(EVENTS))


def events_of(snapshot: Snapshot, roots: Iterable[int]) -> list[dict[str, Any]]:
    """The events of some roots but for joins, in the order in which they were logged, all columns."""
    listed = ", ".join(str(root) for root in roots)
    return query(
        f"SELECT * FROM events WHERE root_id IN ({listed}) AND kind <> 'join' "
        "ORDER BY logged_at, kind <> 'init', component, batch, root_id",
        events=snapshot.require(EVENTS),
    )
