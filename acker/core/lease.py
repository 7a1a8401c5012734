"""Who works on the store of a topology: one deployment at a time.

The store's own tables take each commit once, whoever makes it. A target that Spark writes in object storage
has no such guard against a second driver, and two schedules of one topology are a mistake anyway.
"""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable

from acker.core.delta import commit_once, last_number, open_table
from acker.core.errors import StoreError
from acker.core.schemas import LOG_PROPERTIES, properties_at
from acker.core.store import Store

LEASE = "lease"
LASTS = timedelta(hours=1)  # longer than any one job of Spark should take
RENEWED_AFTER = timedelta(minutes=10)

_LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)
_APP = "lease"
_HOLDER, _UNTIL = "acker.deployment", "acker.until"  # in the note of a commit


class Lease:
    """The right of a deployment to work on a store, which each of its processes takes and renews.

    It is a table without rows: the note of its newest commit says who has it until when.

    Args:
        store: of the topology.
        deployment: its name.
        clock: gives the time, with a time zone.
    """

    def __init__(self, store: Store, deployment: str, clock: Callable[[], datetime]) -> None:
        self._store, self._deployment, self._clock = store, deployment, clock
        self._good_until = _LONG_AGO  # no look is needed before

    def hold(self) -> None:
        """Take it, or renew it where it was not renewed lately.

        Raises:
            StoreError: another deployment has it, or it cannot be read or written.
        """
        now = self._clock()
        while now >= self._good_until:
            table = open_table(self._store.path(LEASE))
            holder, until = _read(table)
            if holder != self._deployment and now < until:
                raise self._held_by(holder, until)
            renewed = until - LASTS
            if holder == self._deployment and now - renewed < RENEWED_AFTER:
                self._good_until = renewed + RENEWED_AFTER
            elif self._renew(table, now):  # else another process was faster, of this deployment or of another
                self._good_until = now + RENEWED_AFTER

    def _renew(self, opened: DeltaTable | None, now: datetime) -> bool:
        path = self._store.path(LEASE)

        def commit(table: DeltaTable | None, once: CommitProperties) -> None:
            if table is None:
                columns = pa.schema([("deployment", pa.string())])
                DeltaTable.create(
                    path, columns, configuration=properties_at(path, LOG_PROPERTIES), commit_properties=once
                )
            else:
                table.create_write_transaction([], "append", table.schema(), commit_properties=once)

        note = {_HOLDER: self._deployment, _UNTIL: (now + LASTS).isoformat()}
        return commit_once(opened or path, {_APP: last_number(opened, _APP) + 1}, commit, note)

    def _held_by(self, holder: str, until: datetime) -> StoreError:
        return StoreError(
            f"The deployment {holder} works on {self._store.path('').rstrip('/')}, and two must not. It last "
            f"said so at {until - LASTS:%H:%M} UTC; unless it goes on, another may from {until:%H:%M} UTC. "
            f"Stop one of the two, or set PIPELINE_DEPLOYMENT={holder} here where both are one."
        )


def _read(table: DeltaTable | None) -> tuple[str, datetime]:
    """Who has it, and until when; of nobody's the time has run out."""
    newest = table.history(1)[0] if table else {}
    until = datetime.fromisoformat(newest[_UNTIL]) if _UNTIL in newest else _LONG_AGO
    return newest.get(_HOLDER, ""), until
