"""Restore and move: a copy of a store that goes on in another place, as a store of its own.

While the copy is unfinished nobody works on it, since its lease is closed. The copy gets an id of its own
before the lease is opened. So it may go on beside the original. A target may have folds of both, and neither
takes those of the other for its own.
"""

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime

from deltalake import DeltaTable

from acker.core.errors import StoreError
from acker.core.names import called
from acker.core.snapshot.ledger import newest_in
from acker.core.store.identity import become_another, identity_of
from acker.core.store.lease import Holding, Lease, minutes
from acker.core.store.schemas import FORMAT, LEDGER
from acker.core.store.sightings import Sightings
from acker.core.store.store import Store
from acker.core.store.tables import open_table
from acker.operations.maintenance.backup import (
    Manifest,
    check_apart,
    copy_all,
    open_all,
    paths_in,
    published_in,
    published_tables,
    store_in,
)
from acker.topology.topology import Topology

Clock = Callable[[], datetime]

_MOVE = "a move to "  # before where to


def restore(topology: Topology, store: Store, backup: str, clock: Clock) -> tuple[Manifest, Lease]:
    """Copy a backup to where a topology has its store and its published tables.

    A restore that was interrupted goes on.

    Args:
        store: the store to make, where nothing is yet.

    Returns:
        The manifest of the backup, and the closed lease, which the caller releases once the copy is judged.

    Raises:
        StoreError: there is no such backup, it is of another topology or of another version, or something is
            where the copy belongs.
    """
    found = Manifest.read(backup)
    if found.topology != topology.name:
        raise StoreError(f"{backup} is a backup of {found.topology}, not of {topology.name}.")
    if found.format != FORMAT:
        then = ", and run `acker migrate` with this one then" if found.format < FORMAT else ""
        raise StoreError(
            f"{backup} was made by acker {found.acker}, whose stores have format {found.format}; this one "
            f"knows {FORMAT}. Restore it with that version{then}."
        )
    paths = published_tables(topology)
    strange = [name for name in found.published if name not in paths]
    if strange:
        raise StoreError(
            f"{backup} has what {', '.join(strange)} published to Delta tables, and {topology.name} does not "
            "do so any more. Restore it with the topology of then, and change that afterwards."
        )
    lease = Lease(store, f"a restore of {backup}", clock)
    again = f"Run `acker restore {called(topology.name)} {backup}` again."
    why = f"{store.path('')} is an unfinished restore. {again}"
    tables = {paths[name]: _there(published_in(backup, name)) for name in found.published}
    kept = {name: _there(store_in(backup, topology).path(name)) for name in found.tables}
    _settle(store, kept, tables, lease, why)
    return found, lease


def move(
    topology: Topology,
    store: Store,
    to: str,
    clock: Clock,
    is_stopped: bool,
    sightings: Sightings | None = None,
) -> tuple[Store, Callable[[], None]]:
    """Copy a store to another place, and close the old one. Published tables stay where they are.

    Args:
        to: path or URI that `PIPELINE_STORE` is to name.
        is_stopped: whether an operator is certain that nobody works on the store any more. Else the move is
            refused until the lease of whoever worked on the store has run out.
        sightings: this machine's notes of the store's lease.

    Returns:
        The copy, and a function that opens the copy and closes the old store for good. The caller calls that
        function once the copy is judged.

    Raises:
        StoreError: there is no store, somebody works on it, it was moved before or is closed for another
            reason, or something is where the copy belongs.
    """
    there, where = Store(to, topology.name), store.path("").rstrip("/")
    check_apart(topology, store, to, (there.path(""),))
    old, new = (Lease(each, f"{_MOVE}{to}", clock, sightings=sightings) for each in (store, there))
    moved = f"{where} was moved. Set PIPELINE_STORE={to}."
    again = f"Run `acker move {called(topology.name)} {to}` again."

    def finish() -> None:
        new.release()
        old.close(moved)

    found = old.read()
    is_begun = found.closed != "" and found.holder == f"{_MOVE}{to}" and found.closed != moved
    if found.closed and not (is_begun or _is_left(found, topology, clock)):
        raise StoreError(found.closed)
    if (left := old.left(found)) and not (is_begun or is_stopped):
        raise StoreError(
            f"The deployment {found.holder} works on {where}, or did so a short while ago. Stop its DAGs and "
            f"commands. Then say --stopped, or run the command again in {minutes(left)}."
        )
    store.require(LEDGER)
    if open_table(there.path(LEDGER)) is not None and not new.read().closed:
        if not is_begun:
            raise _taken(there.path(LEDGER))
        return there, finish  # all but the last step was done
    why = f"{there.path('').rstrip('/')} is an unfinished move. {again}"
    _claim(paths_in(there, open_all(topology, store)[1]), new, why)  # before the old one refuses all work
    old.close(f"{where} is being moved to {to}. {again} Or move it to another place.")
    _, own = open_all(topology, store)
    _settle(there, own, {}, new, why)
    return there, finish


def _there(path: str) -> DeltaTable:
    table = open_table(path)
    if table is None:
        raise StoreError(f"The backup is not whole: there is no table {path}.", table=path)
    return table


def _settle(
    store: Store, own: Mapping[str, DeltaTable], published: Mapping[str, DeltaTable], lease: Lease, why: str
) -> None:
    """Copy tables to the place of a new store, or go on with such a copy, and give the copy an id of its own.

    If the copy has its own id already, nothing is copied.

    Args:
        store: the new store.
        own: the tables of the old store, by their names.
        published: the published tables, by the paths or URIs of their copies.
        lease: the lease of the new store, which is closed before anything is copied.
        why: the reason for which the new store is closed.

    Raises:
        StoreError: a table is there already and no such copy was begun, or a table cannot be copied.
    """
    tables = {**published, **paths_in(store, own)}
    _claim(tables, lease, why)
    copied, ledger = identity_of(own[LEDGER]), open_table(store.path(LEDGER))
    if ledger is None or identity_of(ledger) == copied:
        copy_all(tables, lambda: None)
        ledger = store.require(LEDGER)
        fold = newest_in(ledger)
        become_another(ledger, copied, fold.number if fold else 0)


def _claim(tables: Iterable[str], lease: Lease, why: str) -> None:
    """Close the store that a copy is to make, in an empty place or where the copy was begun.

    If the store is closed for the same reason already, the copy was begun before and goes on. Else none of
    the tables may be there.

    Args:
        tables: the paths of the tables that the copy makes.
        lease: the lease of the store that the copy makes.
        why: the reason for which the store is closed.

    Raises:
        StoreError: a table is there already, and no such copy was begun.
    """
    if lease.read().closed != why:
        for path in tables:
            if open_table(path) is not None:
                raise _taken(path)
    lease.close(why)


def _is_left(found: Holding, topology: Topology, clock: Clock) -> bool:
    """Whether a store is closed by an unfinished move, and that move has not made a store that is open.

    Args:
        found: the lease of the store that was to be moved.
    """
    to = found.holder.removeprefix(_MOVE)
    if to == found.holder or " was moved. " in found.closed:
        return False
    there = Store(to, topology.name)
    return there.open(LEDGER) is None or bool(Lease(there, "", clock).read().closed)


def _taken(path: str) -> StoreError:
    return StoreError(
        f"{path} is there already, and nothing is overwritten. Move it away, or set PIPELINE_HOME and "
        "PIPELINE_STORE to another place.",
        table=path,
    )
