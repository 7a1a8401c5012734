"""Backups: one version of each table of a store and of what it has published, in a folder of their own.

All work goes on meanwhile. A table that refers to another one is opened before it: streams before `batches`,
and `batches` before the messages of replays. The ledger and `events` decide, so they must stand still until
all tables are open: else plans might rest on rows that the copy does not have, and all are opened anew. A
step that was only half done is done again by the copy's next run.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from copy import copy
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from deltalake import DeltaTable

from acker.core.errors import StoreError
from acker.core.names import called
from acker.core.paths import absolute, check_usable, is_within
from acker.core.snapshot.journal import Journal
from acker.core.snapshot.kept import kept
from acker.core.snapshot.trims import counted_trim, newest_trim
from acker.core.store.copies import Copied, copy_data, copy_file, copy_log, files_at
from acker.core.store.lease import KEEPS_FILES, Lease, minutes
from acker.core.store.schemas import (
    ACKNOWLEDGEMENTS,
    BATCHES,
    EVENTS,
    FORMAT,
    HOLDS,
    LEDGER,
    PUBLISHERS,
    REFUSALS,
    REPLAY_REQUESTS,
    REPLAY_STEPS,
    REPLAYS,
    TRIMS,
    stream,
)
from acker.core.store.sightings import Sightings
from acker.core.store.store import Store
from acker.core.store.tables import sentence_of
from acker.operations.maintenance.upkeep import noted_if_raised
from acker.spouts import DeltaSpout, FileSpout
from acker.targets.by_key import trimmed
from acker.topology.topology import Topology

MANIFEST = "manifest.json"

_DECIDING = (LEDGER, EVENTS)
_TRIES = 20


@dataclass(frozen=True)
class Manifest:
    """The manifest of a backup: its tables, and their origin.

    Args:
        format: the format of the store's own tables.
        acker: the version of the code that made the backup.
        taken_at: when the tables were opened, in ISO format, UTC.
        store: path or URI of the store.
        fold: the newest fold in the backup; 0 before the first.
        tables: the copied tables of the store, by their names.
        published: the copied published tables, by stream.
        elsewhere: stream -> the place where it is published, only for streams whose published rows are not in
            the backup, such as those of a Kafka topic.
        verdict: the verdict of the audit of the copy.
    """

    format: int
    acker: str
    topology: str
    taken_at: str
    store: str
    fold: int
    tables: Mapping[str, Copied] = field(default_factory=dict)
    published: Mapping[str, Copied] = field(default_factory=dict)
    elsewhere: Mapping[str, str] = field(default_factory=dict)
    verdict: str = ""

    @classmethod
    def read(cls, backup: str) -> "Manifest":
        """The manifest of a finished backup.

        Raises:
            StoreError: there is no finished backup.
        """
        try:
            with files_at(backup).open_input_stream(MANIFEST) as file:
                found = json.loads(file.read())
            for part in ("tables", "published"):
                found[part] = {name: Copied(**each) for name, each in found[part].items()}
            return cls(**found)
        except (OSError, ValueError, TypeError, LookupError, AttributeError) as error:
            raise StoreError(
                f"There is no finished backup in {backup}: {sentence_of(error)} `acker backup` writes "
                f"{MANIFEST} there when all else is there."
            ) from error

    def write(self, backup: str) -> None:
        """Write the manifest, which says that a backup is finished.

        Raises:
            StoreError: the manifest cannot be written.
        """
        try:
            with TemporaryDirectory() as folder:  # a file is copied whole or not at all
                draft = Path(folder, MANIFEST)
                draft.write_text(json.dumps(asdict(self), indent=2))
                copy_file(draft.stat().st_size, MANIFEST, files_at(folder), files_at(backup, make=True))
        except OSError as error:
            raise StoreError(f"{backup}/{MANIFEST} could not be written: {sentence_of(error)}") from error


def store_in(backup: str, topology: Topology) -> Store:
    """The store in a backup."""
    return Store(f"{backup}/store", topology.name)


def published_in(backup: str, stream: str) -> str:
    """Path or URI of a published table in a backup."""
    return f"{backup}/published/{stream}"


def published_tables(topology: Topology) -> dict[str, str]:
    """Stream -> path or URI of the Delta table that it is published to."""
    targets = {name: each.target for name, each in topology.publications.items()}
    return {name: target.delta_path for name, target in targets.items() if target.delta_path is not None}


def topology_in(backup: str, topology: Topology) -> Topology:
    """A copy of the topology that publishes to the tables of a backup, and to nothing else."""
    changed = copy(topology)
    changed.publications = {
        name: replace(each, target=each.target.moved_to(published_in(backup, name)))
        for name, each in topology.publications.items()
        if each.target.delta_path is not None
    }
    return changed


def back_up(
    topology: Topology,
    store: Store,
    to: str,
    clock: Callable[[], datetime],
    sightings: Sightings | None = None,
) -> Manifest:
    """Copy a store and its published tables, and return the manifest of the backup.

    Nobody may rely on the backup before `Manifest.write`. A backup that was interrupted goes on with the
    tables that it has copied. The table `upkeep` gets the fault of a backup that raises once its folder was
    accepted.

    Args:
        to: path or URI of a folder without a finished backup.
        sightings: this machine's notes of other backups at work.

    Raises:
        StoreError: the folder has a finished backup or overlaps with a place in use, another backup runs, or
            something cannot be read or written.
    """
    check_apart(topology, store, to, (store_in(to, topology).path(""), f"{to}/published"))
    _check_unfinished(to)
    store.require(LEDGER)  # before the lease, which would be a first table of it
    keeps = Lease(store, to, clock, KEEPS_FILES, sightings)
    _check_alone(keeps)
    keeps.hold()
    with noted_if_raised(store, "backup"):
        return _copied(topology, store, to, clock, keeps)


def _copied(
    topology: Topology, store: Store, to: str, clock: Callable[[], datetime], keeps: Lease
) -> Manifest:
    try:
        taken_at = clock()
        published, own = open_all(topology, store)
        Lease(store_in(to, topology), f"a backup to {to}", clock).close(
            f"{to} is a backup, and nobody works on it. `acker restore {called(topology.name)} {to}` makes a "
            "store of its own from it, in another place."
        )
        paths = {published_in(to, name): table for name, table in published.items()}
        copied = copy_all({**paths, **paths_in(store_in(to, topology), own)}, keeps.hold)
    finally:
        with suppress(StoreError):  # else others wait for as long as it lasts
            keeps.release()
    there = Journal(store_in(to, topology), topology.roles)
    return Manifest(
        format=FORMAT,
        acker=version("acker"),
        topology=topology.name,
        taken_at=taken_at.isoformat(),
        store=store.path("").rstrip("/"),
        fold=there.fold.number if there.fold else 0,
        tables={name: copied[store_in(to, topology).path(name)] for name in own},
        published={name: copied[published_in(to, name)] for name in published},
        elsewhere={
            name: each.to for name, each in topology.publications.items() if each.target.delta_path is None
        },
    )


def check_apart(topology: Topology, store: Store, to: str, parts: Iterable[str]) -> None:
    """Stop before a copy goes where a spout would read it, or where it would be deleted with something else.

    Args:
        to: path or URI of the folder that is asked for.
        parts: the folders in `to` that the copy fills.

    Raises:
        StoreError: the folder overlaps with a place in use; the error says what to do.
    """
    used = {"the store": store.path("").rstrip("/"), "where the stores of all topologies are": store.uri}
    used |= {f"the table of {name}": path for name, path in published_tables(topology).items()}
    for spout in topology.spouts:
        if isinstance(spout.source, FileSpout | DeltaSpout):
            source = spout.source
            place = source.folder if isinstance(source, FileSpout) else source.path
            used[f"what spout {spout.name} reads"] = absolute(place)
    check_usable(to)
    for what, folder in used.items():
        if is_within(to, folder) or any(is_within(folder, part) for part in parts):
            raise StoreError(
                f"{to} cannot hold a copy, since {folder} is {what}, and one would be in the other. Name a "
                "folder beside it."
            )


def _check_unfinished(to: str) -> None:
    try:
        found = Manifest.read(to)
    except StoreError:
        return
    raise StoreError(f"{to} has a backup of {found.topology} of {found.taken_at}. Name another folder.")


def _check_alone(keeps: Lease) -> None:
    found = keeps.read()
    if left := keeps.left(found):
        raise StoreError(
            f"A backup to {found.holder} is being made. Wait until it is done. If it was killed, run that "
            f"one again, or this one in {minutes(left)}."
        )


def open_all(topology: Topology, store: Store) -> tuple[dict[str, DeltaTable], dict[str, DeltaTable]]:
    """The published tables by stream, and those of the store by name, in versions that fit together.

    Raises:
        StoreError: there is no store yet, or a table cannot be read.
    """
    for _ in range(_TRIES):
        before = newest_trim(store)
        publishers = store.open(PUBLISHERS)  # which knows of no fold that its target lacks
        targets = {name: each.target.pinned() for name, each in topology.publications.items()}
        tables = {name: each.delta_table() for name, each in targets.items()}
        published = {name: table for name, table in tables.items() if table is not None}
        own = {name: table for name in _names(topology, store) if (table := store.open(name)) is not None}
        if publishers is not None:
            own[PUBLISHERS] = publishers
        # After a trimming rows may be gone that these published tables do not have yet.
        if newest_trim(store) == before and _stands_still(store, own):
            store.require(BATCHES)
            return published, own
    raise StoreError(
        f"{store.path('').rstrip('/')} does not stand still for the moment that it takes to open its tables. "
        "Run the command again."
    )


def _stands_still(store: Store, own: Mapping[str, DeltaTable]) -> bool:
    def version(table: DeltaTable | None) -> int | None:
        return None if table is None else table.version()

    return all(version(store.open(name)) == version(own.get(name)) for name in _DECIDING)


def _names(topology: Topology, store: Store) -> Iterator[str]:
    yield from (*_DECIDING, ACKNOWLEDGEMENTS)
    yield from map(stream, Journal(store, topology.roles).components())
    yield from (HOLDS, BATCHES, REPLAY_STEPS, REPLAY_REQUESTS, REPLAYS, REFUSALS, TRIMS)
    yield from map(trimmed, counted_trim(store).tuples or ())
    yield from map(
        kept, dict.fromkeys([*topology.publications, *Journal(store, topology.roles).components()])
    )


def paths_in(store: Store, tables: Mapping[str, DeltaTable]) -> dict[str, DeltaTable]:
    """The tables by the paths that they get in another store."""
    return {store.path(name): table for name, table in tables.items()}


def copy_all(tables: Mapping[str, DeltaTable], hold: Callable[[], None]) -> dict[str, Copied]:
    """Copy tables, each to its path or URI, and return the description of each copy.

    Args:
        hold: called again and again, to keep a lease.

    Raises:
        StoreError: a table cannot be copied.
    """
    for to, table in tables.items():
        hold()
        copy_log(table, to)
    return {to: copy_data(table, to, hold) for to, table in tables.items()}


def as_json(manifest: Manifest) -> dict[str, Any]:
    """A manifest as JSON's types."""
    return asdict(manifest)
