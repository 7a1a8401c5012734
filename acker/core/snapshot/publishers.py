"""Positions of publishers, as the store knows them: the newest published fold of each, and its target.

The target keeps the same position, and is written first. So after a crash the target may be ahead of the
store, and it is never behind. A row of the table `publishers` says which target a publisher has met. The
publisher's position is a transaction number of this table. A commit that only raises the number has no rows.
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
        target_id: the id of the target; "" where it has none.
        fold: the newest fold that the target holds of the publisher.
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
    """The positions of a publisher, as a store knows them.

    Args:
        fold: the newest fold that the publisher has published in any target; 0 before the first.
        there: the newest fold that it has published in the given target; 0 before the first.
        is_met: whether the publisher has met a target, so that other publishers in the target are known.
        is_shared: whether other publishers may publish to the target too.
    """

    fold: int = 0
    there: int = 0
    is_met: bool = False
    is_shared: bool = False


def known_of(store: Store, publisher: str, target_id: str) -> Known:
    """The positions of a publisher in any target and in a given one, as a store knows them."""
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
        StoreError: the meeting could not be recorded.
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
    """Record that a target has taken a fold in, after it has. A later fold may be recorded already.

    Raises:
        StoreError: the fold could not be recorded.
    """

    def commit(table: DeltaTable | None, once: CommitProperties) -> None:
        assert table is not None
        table.create_write_transaction([], "append", table.schema(), commit_properties=once)

    commit_once(store.require(PUBLISHERS), _numbers(publisher, target_id, fold), commit)


def _numbers(publisher: str, target_id: str, fold: int) -> dict[str, int]:
    return {publisher: fold, _there(publisher, target_id): fold} if fold else {}


def _there(publisher: str, target_id: str) -> str:
    return f"{publisher} in {target_id}"
