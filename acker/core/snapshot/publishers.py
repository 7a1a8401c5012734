"""Where each publisher stands, as the store knows it: how far it is, and which target that was.

The target keeps the same, and is written first. So it may be ahead of what is known here, after a crash, and
is never behind. Of the table `publishers` a row says which target a publisher met. How far it has come there
is a transaction number of commits that have no rows.
"""

from dataclasses import dataclass
from datetime import datetime

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable

from acker.core.store.schemas import PUBLISHERS, SCHEMAS
from acker.core.store.store import Store
from acker.core.store.tables import append_all, commit_once, last_number, query_table


@dataclass(frozen=True)
class Meeting:
    """A publisher and a target that meet for the first time.

    Args:
        publisher: the transaction id under which it publishes.
        target_id: who the target is; "" where it does not tell.
        fold: the newest one that it holds of the publisher.
        why: how they met: `first`, `shared`, `known before` or `again`.
    """

    stream: str
    target: str
    target_id: str
    publisher: str
    fold: int
    why: str


@dataclass(frozen=True)
class Known:
    """What a store knows of a publisher.

    Args:
        fold: the newest one that it has published; 0 before the first.
        there: the same of the target that was asked about.
        is_met: whether they have met, so that others in the target are known of.
        is_shared: whether others may publish there too.
    """

    fold: int = 0
    there: int = 0
    is_met: bool = False
    is_shared: bool = False


def known_of(store: Store, publisher: str, target_id: str) -> Known:
    """What a store knows of a publisher in a target."""
    table = store.open(PUBLISHERS)
    met, shared = (last_number(table, f"{publisher} {what}") for what in ("met", "shared"))
    there = last_number(table, _there(publisher, target_id))
    return Known(last_number(table, publisher), there, bool(met), bool(shared))


def has_met(store: Store, target_id: str) -> bool:
    """Whether any publisher of a store has met a target."""
    table = store.open(PUBLISHERS)
    found = query_table("SELECT DISTINCT target_id FROM publishers", publishers=table) if table else None
    return found is not None and target_id in found["target_id"].to_pylist()


def meet(store: Store, meeting: Meeting, is_shared: bool, now: datetime) -> None:
    """Record that a publisher and a target have met, once.

    Raises:
        StoreError: it could not be recorded.
    """
    row = {**vars(meeting), "met_at": now}
    numbers = {**_numbers(meeting.publisher, meeting.target_id, meeting.fold), f"{meeting.publisher} met": 1}
    if is_shared:
        numbers[f"{meeting.publisher} shared"] = 1
    table = store.require(PUBLISHERS)
    new = {app: number for app, number in numbers.items() if last_number(table, app) < number}
    if new:
        append_all(table, pa.Table.from_pylist([row], SCHEMAS[PUBLISHERS].arrow()), new)


def has_published(store: Store, publisher: str, target_id: str, fold: int) -> None:
    """Record that a target has taken a fold in, which it has. A later one may be recorded already.

    Raises:
        StoreError: it could not be recorded.
    """

    def commit(table: DeltaTable | None, once: CommitProperties) -> None:
        assert table is not None
        table.create_write_transaction([], "append", table.schema(), commit_properties=once)

    commit_once(store.require(PUBLISHERS), _numbers(publisher, target_id, fold), commit)


def _numbers(publisher: str, target_id: str, fold: int) -> dict[str, int]:
    return {publisher: fold, _there(publisher, target_id): fold} if fold else {}


def _there(publisher: str, target_id: str) -> str:
    return f"{publisher} in {target_id}"
