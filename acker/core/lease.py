"""Who works on the store of a topology: one deployment at a time.

The store's own tables take each commit once, whoever makes it. A target that Spark writes in object storage
has no such guard against a second driver, and two schedules of one topology are a mistake anyway.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable

from acker.core.delta import commit_once, last_number, open_table
from acker.core.errors import StoreError
from acker.core.schemas import LOG_PROPERTIES, properties_at
from acker.core.store import Store

LEASE = "lease"
KEEPS_FILES = "backup"  # that of a backup; while somebody has it, files that only it needs stay
LASTS = timedelta(hours=1)  # longer than any one job of Spark should take
RENEWED_AFTER = timedelta(minutes=10)

_LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)
_APP = "lease"
_HOLDER, _UNTIL, _CLOSED = "acker.deployment", "acker.until", "acker.closed"  # in the note of a commit


@dataclass(frozen=True)
class Holding:
    """Who has a lease.

    Args:
        until: of nobody's the time has run out.
        closed: why nobody but the holder gets it, however long it takes, and what to do; "" where it is open.
    """

    holder: str = ""
    until: datetime = _LONG_AGO
    closed: str = ""


class Lease:
    """The right of a deployment to work on a store, which each of its processes takes and renews.

    It is a table without rows: the note of its newest commit says who has it until when.

    Args:
        store: of the topology.
        deployment: its name, or that of a command that works on the store as a whole.
        clock: gives the time, with a time zone.
        table: a store has more than one lease, for other rights.
    """

    def __init__(
        self, store: Store, deployment: str, clock: Callable[[], datetime], table: str = LEASE
    ) -> None:
        self._store, self._deployment, self._clock = store, deployment, clock
        self._path = store.path(table)
        self._good_until = _LONG_AGO  # no look is needed before

    def read(self) -> Holding:
        """Who has it now.

        Raises:
            StoreError: it cannot be read.
        """
        return _read(open_table(self._path))

    def hold(self) -> None:
        """Take it, or renew it where it was not renewed lately.

        Raises:
            StoreError: another deployment has it, or it cannot be read or written.
        """
        now = self._clock()
        while now >= self._good_until:
            table = open_table(self._path)
            found = _read(table)
            if found.holder != self._deployment and (found.closed or now < found.until):
                raise self._held_by(found)
            renewed = found.until - LASTS
            if found.holder == self._deployment and (found.closed or now - renewed < RENEWED_AFTER):
                self._good_until = now + RENEWED_AFTER if found.closed else renewed + RENEWED_AFTER
            elif self._commit(table, Holding(self._deployment, now + LASTS)):
                self._good_until = now + RENEWED_AFTER
            # Else another process was faster, of this deployment or of another.

    def close(self, why: str) -> None:
        """Take it from whoever has it, and keep it from all others until it is released.

        Args:
            why: a sentence, and one that says what to do.

        Raises:
            StoreError: it cannot be read or written.
        """
        while not self._commit(open_table(self._path), Holding(self._deployment, self._clock(), why)):
            pass

    def release(self) -> None:
        """Leave it to whoever asks next.

        Raises:
            StoreError: it cannot be read or written.
        """
        self._good_until = _LONG_AGO
        while not self._commit(open_table(self._path), Holding(self._deployment, self._clock())):
            pass

    def _commit(self, opened: DeltaTable | None, holding: Holding) -> bool:
        path = self._path

        def commit(table: DeltaTable | None, once: CommitProperties) -> None:
            if table is None:
                columns = pa.schema([("deployment", pa.string())])
                DeltaTable.create(
                    path, columns, configuration=properties_at(path, LOG_PROPERTIES), commit_properties=once
                )
            else:
                table.create_write_transaction([], "append", table.schema(), commit_properties=once)

        note = {_HOLDER: holding.holder, _UNTIL: holding.until.isoformat(), _CLOSED: holding.closed}
        return commit_once(opened or path, {_APP: last_number(opened, _APP) + 1}, commit, note)

    def _held_by(self, found: Holding) -> StoreError:
        where = self._store.path("").rstrip("/")
        return StoreError(
            found.closed
            or f"The deployment {found.holder} works on {where}, and two must not. It last "
            f"said so at {found.until - LASTS:%H:%M} UTC; unless it goes on, another may from "
            f"{found.until:%H:%M} UTC. Stop one of the two, or set PIPELINE_DEPLOYMENT={found.holder} here "
            "where both are one."
        )


def _read(table: DeltaTable | None) -> Holding:
    newest = table.history(1)[0] if table else {}
    if _UNTIL not in newest:
        return Holding()
    return Holding(newest[_HOLDER], datetime.fromisoformat(newest[_UNTIL]), newest.get(_CLOSED, ""))
