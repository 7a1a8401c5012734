"""Leases: the right to work on the store of a topology, which one deployment has at a time.

The store's own tables take each commit once, whoever makes it. A target that Spark writes in object storage
has no such guard against a second driver, and two schedules of one topology are a mistake anyway.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable

from acker.core.errors import StoreError
from acker.core.store.schemas import LOG_PROPERTIES, properties_at
from acker.core.store.sightings import Moment, Sightings
from acker.core.store.store import Store
from acker.core.store.tables import commit_once, history, last_number, open_table

LEASE = "lease"
KEEPS_FILES = "backup"  # that of a backup; while somebody has it, files that only it needs stay
COMPACTS = "compacts"  # that of a compaction, of which there must not be two
LASTS = timedelta(hours=1)  # longer than any one job of Spark should take
RENEWED_AFTER = timedelta(minutes=10)

_LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)
_NONE = timedelta(0)
_APP = "lease"
# In the note of a commit.
_HOLDER, _UNTIL, _LASTS, _CLOSED = "acker.deployment", "acker.until", "acker.lasts", "acker.closed"


@dataclass(frozen=True)
class Holding:
    """The holder of a lease, and the terms of the lease.

    Args:
        until: when the lease runs out by the calendar of whoever wrote it. Others do not go by that calendar.
        lasts: for how long others must see the lease unchanged before they take it; zero: anybody may take it
            at once.
        closed: the reason why nobody but the holder gets the lease, however long others wait, with the
            remedy; "" where the lease is open.
        number: of the commit.
    """

    holder: str = ""
    until: datetime = _LONG_AGO
    lasts: timedelta = _NONE
    closed: str = ""
    number: int = 0

    @property
    def mark(self) -> str:
        """A text that differs for each commit of the lease."""
        return f"{self.number} {self.holder} {self.until.isoformat()}"


class Lease:
    """The right of a deployment to work on a store, which each of its processes takes and renews.

    A lease is a table without rows: the note of its newest commit says who has the lease and for how long.
    Nobody compares the calendars of two machines. Whoever wants a lease that another has must have seen it
    unchanged for as long as it lasts, by a clock of its own machine that nobody sets.

    Args:
        store: of the topology.
        deployment: name of the deployment, or of a command that works on the store as a whole.
        clock: gives the time, with a time zone.
        table: name of the lease's table. A store has further leases for other rights.
        sightings: the marks of leases that this machine has seen.
    """

    def __init__(
        self,
        store: Store,
        deployment: str,
        clock: Callable[[], datetime],
        table: str = LEASE,
        sightings: Sightings | None = None,
    ) -> None:
        self._store, self._deployment, self._clock = store, deployment, clock
        self._path = store.path(table)
        self._sightings = sightings or Sightings()
        self._seen: Moment | None = None  # when it was this deployment's, so that no look is needed yet

    def read(self) -> Holding:
        """The lease as it is now.

        Raises:
            StoreError: the lease cannot be read.
        """
        return _read(open_table(self._path))

    def left(self, found: Holding) -> timedelta:
        """The time for which this deployment must still see a lease unchanged, before it may take it.

        The time is zero if the lease is this deployment's, or was released. It is also zero for a lease that
        another has closed, although this deployment may not take it. A lease that this machine has not seen
        before is noted as seen now.

        Args:
            found: the lease, as it was read.
        """
        if found.holder == self._deployment or found.lasts <= _NONE:
            return _NONE
        now = self._now()
        first = self._sightings.first(self._path, found.mark)
        if first is None:
            self._sightings.note(self._path, found.mark, now)
            return found.lasts
        return max(found.lasts - timedelta(seconds=now.steady - first.steady), _NONE)

    def hold(self) -> None:
        """Take the lease, or renew it where it was not renewed lately.

        Raises:
            StoreError: another deployment has the lease, or the lease cannot be read or written.
        """
        lately = RENEWED_AFTER.total_seconds()
        while self._seen is None or not self._seen.is_within(lately, self._now()):
            now, table = self._now(), open_table(self._path)
            found = _read(table)
            if found.holder != self._deployment and (found.closed or self.left(found) > _NONE):
                raise self._held_by(found)
            is_ours = found.holder == self._deployment
            first = self._sightings.first(self._path, found.mark) if found.lasts > _NONE else None
            if is_ours and found.closed:
                self._seen = now
            elif is_ours and first and first.is_within(lately, now):
                self._seen = first
            elif self._commit(table, LASTS):
                self._seen = now
            # Else another process was faster, of this deployment or of another.

    def close(self, why: str) -> None:
        """Take the lease from whoever has it, and keep it from all others until it is released.

        Args:
            why: a sentence with the reason, and one with the remedy.

        Raises:
            StoreError: the lease cannot be read or written.
        """
        while not self._commit(open_table(self._path), _NONE, why):
            pass

    def release(self) -> None:
        """Leave the lease to whoever asks next.

        Raises:
            StoreError: the lease cannot be read or written.
        """
        self._seen = None
        while not self._commit(open_table(self._path), _NONE):
            pass

    def _now(self) -> Moment:
        return Moment(self._sightings.steady(), self._clock().timestamp())

    def _commit(self, opened: DeltaTable | None, lasts: timedelta, closed: str = "") -> bool:
        path, number = self._path, last_number(opened, _APP) + 1

        def commit(table: DeltaTable | None, once: CommitProperties) -> None:
            if table is None:
                columns = pa.schema([("deployment", pa.string())])
                DeltaTable.create(
                    path, columns, configuration=properties_at(path, LOG_PROPERTIES), commit_properties=once
                )
            else:
                table.create_write_transaction([], "append", table.schema(), commit_properties=once)

        new = Holding(self._deployment, self._clock() + lasts, lasts, closed, number)
        self._sightings.note(path, new.mark, self._now())  # before anybody else can see it
        note = {_HOLDER: new.holder, _UNTIL: new.until.isoformat(), _CLOSED: closed}
        note[_LASTS] = str(lasts.total_seconds())
        return commit_once(opened or path, {_APP: number}, commit, note)

    def _held_by(self, found: Holding) -> StoreError:
        where = self._store.path("").rstrip("/")
        return StoreError(
            found.closed
            or f"The deployment {found.holder} works on {where}, and two must not. It last said so at "
            f"{found.until - found.lasts:%H:%M} UTC by its clock. Stop one of the two, or set "
            f"PIPELINE_DEPLOYMENT={found.holder} here where both are one. Where it has ended, run the "
            f"command again in {minutes(self.left(found))}."
        )


def minutes(time: timedelta) -> str:
    """A time in whole minutes, rounded up, as text."""
    number = math.ceil(time / timedelta(minutes=1))
    return f"{number} minute{'' if number == 1 else 's'}"


def _read(table: DeltaTable | None) -> Holding:
    newest = next(iter(history(table, 1)), {}) if table else {}
    if table is None or _UNTIL not in newest:
        return Holding()
    until = datetime.fromisoformat(newest[_UNTIL])
    if _LASTS in newest:
        lasts = timedelta(seconds=float(newest[_LASTS]))
    else:  # of an older version, which released a lease by a time that had come
        written = datetime.fromtimestamp(newest["timestamp"] / 1000, UTC)
        lasts = LASTS if until > written + RENEWED_AFTER else _NONE
    return Holding(newest[_HOLDER], until, lasts, newest.get(_CLOSED, ""), last_number(table, _APP))
