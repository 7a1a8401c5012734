"""The one way to open a run of a topology in this deployment, for commands and for a scheduler's tasks."""

from collections.abc import Callable
from typing import TYPE_CHECKING
from uuid import uuid4

from acker.batches.run import Run, Step, utc_now
from acker.core.store.lease import Lease
from acker.core.store.store import Store
from acker.operations.standing import announce
from acker.runtime.deployment import name_of, sightings_of
from acker.runtime.known_stores import remember
from acker.runtime.settings import Settings
from acker.spark.tasks import acker_tasks
from acker.topology.topology import Topology

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def lease_of(settings: Settings, store: Store) -> Lease:
    """The right of this deployment to work on a store."""
    return Lease(store, name_of(settings), utc_now, sightings=sightings_of(settings))


def open_run(
    topology: Topology,
    store: Store,
    settings: Settings,
    connect: "Callable[[], SparkSession]",
    on_step: Callable[[Step], None],
    announced: Callable[[str], None] | None,
    run_id: str = "",
) -> Run:
    """Take the lease of the topology's store, make the store where it is not there, and return a run on it.

    Args:
        connect: gives the session of the run and of the acker's tasks, always the same one.
        on_step: see `Run`.
        announced: called with a sentence where the store is new. None: nobody is told, and a store may be
            made beside another one that has published to the topology's targets.
        run_id: the run's id; empty: a new one.

    Raises:
        StoreError: another deployment works on the store, or there is no store and another one has published
            to the topology's targets.
    """
    is_new = announce(topology, store) if announced else None
    lease = lease_of(settings, store)
    lease.hold()
    store.create()
    remember(settings, store)
    if announced and is_new:
        announced(is_new)
    return Run(
        topology,
        store,
        connect,
        tasks=acker_tasks(settings.acker_tasks, settings.fold_rows, connect),
        hold=lease.hold,
        sightings=sightings_of(settings),
        on_step=on_step,
        run_id=run_id or uuid4().hex,
    )
