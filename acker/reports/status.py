"""The report of `status`, read from Delta without Spark."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from datetime import datetime
from functools import partial
from typing import Any

from acker.batches.holds import newest_hold
from acker.components.base import Component
from acker.core.snapshot.in_flight import in_flight, states_now
from acker.core.snapshot.journal import Journal
from acker.core.snapshot.ledger import live_counts
from acker.core.snapshot.snapshot import Snapshot
from acker.core.store.schemas import LEDGER
from acker.core.store.store import Store
from acker.operations.offsets import partition_offsets
from acker.reports.held_back import told_held_back
from acker.reports.sources import SourceBacklog, source_backlogs
from acker.targets.base import published_fold
from acker.topology.topology import Publication, Topology


def status_report(topology: Topology, store: Store, now: datetime) -> dict[str, Any]:
    """The state of each component, the acker, each publisher, each partition and each source."""
    journal = Journal(store, topology.roles)
    with ThreadPoolExecutor() as pool:  # what waits for an object store waits together
        publications = pool.map(partial(_publication_status, journal), topology.publications.values())
        backlogs = pool.submit(source_backlogs, topology, journal)
        offsets = pool.submit(partition_offsets, topology, journal)
        acker = pool.submit(acker_status, journal, now)
        components = pool.map(partial(_component_status, journal), topology.order())
        pending = pool.map(partial(in_flight, journal), (spout.name for spout in topology.spouts))
    sources = backlogs.result()
    ends = {each.spout: each.ends for each in sources}
    return {
        "topology": topology.name,
        "store": store.uri,
        **acker.result(),
        "components": list(components),
        "in_flight": {spout.name: n for spout, n in zip(topology.spouts, pending, strict=True)},
        "max_pending": topology.max_pending,
        "published": list(publications),
        "positions": [
            {**asdict(each), "end": ends[each.spout].get(each.source_partition)} for each in offsets.result()
        ],
        "sources": [_source_status(each) for each in sources],
    }


def _source_status(source: SourceBacklog) -> dict[str, Any]:
    found = {name: value for name, value in asdict(source).items() if name != "ends"}
    for name, each in (("changed", source.changed), ("gone", source.gone)):
        if each is not None:
            found[name] |= {"says": str(each)}
    return found


def _publication_status(journal: Journal, publication: Publication) -> dict[str, Any]:
    fold = published_fold(journal, publication.target, publication.stream)
    return {"component": publication.stream, "to": publication.to, "fold": fold}


def acker_status(snapshot: Snapshot, now: datetime) -> dict[str, Any]:
    """The newest fold, when it was, the attempts in each state now, and how many messages are due.

    Raises:
        StoreError: there is no ledger.
    """
    snapshot.require(LEDGER)
    fold = snapshot.fold
    if fold is None:
        return {"fold": None, "folded_at": None, "states": {}, "due": 0}
    return {
        "fold": fold.number,
        "folded_at": fold.folded_at,
        "states": states_now(snapshot),
        "due": live_counts(fold, now).due,
    }


def _component_status(journal: Journal, component: Component) -> dict[str, Any]:
    planned, logged = journal.planned(component.name), journal.logged(component.name)
    newest = journal.read(component.name, logged) if logged else None
    hold = newest_hold(journal, component.name)
    waiting = {}
    for upstream in component.inputs:
        taken = newest.spans.end(upstream) if newest else 0
        waiting[upstream] = len(
            journal.numbers_for(upstream, component.name, taken, journal.logged(upstream))
        )
    return {
        "component": component.name,
        "planned": planned,
        "logged": logged,
        "unfinished": planned > logged,
        "waiting_batches": waiting,
        "planned_at": newest.planned_at if newest else None,
        "held": {**asdict(hold), "says": str(hold)} if hold else None,
        "held_back": told_held_back(journal, component),
    }
