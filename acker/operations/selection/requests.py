"""Requests for replays by hand: who asked for which messages, when and why.

The messages are recorded with the request, in the table `replays`, and are emitted later. So a person
approves the messages that were counted, although other messages may match the selection by then.
"""

import json
import uuid
from dataclasses import dataclass
from datetime import datetime

import polars as pl
import pyarrow as pa

from acker.core.errors import SettingsError, StoreError
from acker.core.quoting import check_text, sql_text
from acker.core.snapshot.replays import record_requested, recorded
from acker.core.store.schemas import REPLAY_REQUESTS, REPLAYS, SCHEMAS
from acker.core.store.store import Store
from acker.core.store.tables import RECOVERY_HINT, append_rows, query
from acker.operations.selection.selection import Selection


@dataclass(frozen=True)
class Request:
    """A replay by hand that was asked for.

    Args:
        request_id: the name of the request, for ever.
        selection: the selection that was asked for, as JSON.
        matched: how many messages the selection chose.
        requested_by, requested_at, why: the person who asked, the time, and the reason that was given.
    """

    request_id: str
    selection: str
    matched: int
    requested_by: str
    requested_at: datetime
    why: str

    @property
    def plan(self) -> str:
        """The value in the column `plan` of `replays` under which the request's messages are recorded.

        The value is made from `request_id` and `selection`. So it is the same if the request is made again.
        """
        return _plan(self.request_id, self.selection)


def _plan(request_id: str, selection: str) -> str:
    return uuid.uuid5(uuid.NAMESPACE_OID, f"{request_id} {selection}").hex


def record_request(
    store: Store,
    selection: Selection,
    messages: pl.DataFrame,
    why: str,
    requested_by: str,
    request_id: str,
    now: datetime,
) -> Request:
    """Record a request and its messages. A request that is made again stays as it was the first time.

    Args:
        messages: the messages that the selection chooses, with columns as in `EMISSIONS`, and `spout`.

    Raises:
        SettingsError: the request was made before with another selection, or a text is not one that the
            record can hold.
    """
    check_text("The why", why)
    check_text("The name", requested_by)
    described = json.dumps(selection.as_dict(), default=str)
    plan = _plan(request_id, described)
    record_requested(store, plan, request_id, messages)
    row = {
        "request_id": request_id,
        "requested_by": requested_by,
        "requested_at": now,
        "why": why,
        "selection": described,
        "matched": recorded(store, plan).height,  # of this call, or of the one that was first
    }
    rows = pa.Table.from_pylist([row], SCHEMAS[REPLAY_REQUESTS].arrow())
    append_rows(store.require(REPLAY_REQUESTS), rows, request_id, 1)
    found = read_request(store, request_id)
    if found.selection != described:
        raise SettingsError(
            f"The request {request_id} was made before with another selection. Ask again, as a new request."
        )
    return found


def read_request(store: Store, request_id: str) -> Request:
    """A request that was recorded.

    Raises:
        StoreError: the request was not recorded.
    """
    columns = "request_id, selection, matched, requested_by, requested_at, why"
    rows = query(
        f"SELECT {columns} FROM requests WHERE request_id = {sql_text(request_id)}",
        requests=store.require(REPLAY_REQUESTS),
    )
    if len(rows) != 1:
        raise StoreError(
            f"{store.path(REPLAY_REQUESTS)} has {len(rows)} rows for the request {request_id} instead of "
            f"one: it was not made, or the table was restored or edited by hand. Ask again. {RECOVERY_HINT}",
            table=store.path(REPLAY_REQUESTS),
        )
    return Request(**rows[0])


def requested(store: Store, request: Request) -> pl.DataFrame:
    """The messages of a request, with the attempt to come.

    Raises:
        StoreError: the messages are not those that were recorded.
    """
    found = recorded(store, request.plan)
    if found.height != request.matched:
        raise StoreError(
            f"{store.path(REPLAYS)} has {found.height:,} messages of the request {request.request_id}, which "
            f"are not the {request.matched:,} that were recorded: it was restored or edited by hand. "
            f"Ask again. {RECOVERY_HINT}",
            table=store.path(REPLAYS),
        )
    return found
