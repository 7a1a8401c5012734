"""What `audit`, `status` and `trace` say, read from Delta without Spark."""

from dataclasses import asdict, replace
from datetime import datetime
from typing import Any

from acker.audit import Audit, PublishedTable, audit
from acker.ledger import NOW, Fold, live_counts, newest_fold, read_fold
from acker.schemas import LEDGER, component_of, stream
from acker.tables import Store, last_number, open_table, query
from pipeline.components import Component
from pipeline.journal import Journal
from pipeline.positions import positions
from pipeline.publisher import COUNT, app_id, position
from pipeline.topology import Topology


def audit_report(topology: Topology, store: Store) -> Audit:
    """The verdict on a topology's store and on its published tables."""
    published = []
    journal = Journal(store)
    journal.refuse_broken()
    components = [name for name in journal.components() if name not in topology.publications]
    for publication in topology.publications.values():
        table = open_table(publication.to)
        # A component that was renamed, say, has published to the table before.
        before = {
            name: last_number(table, app_id(store, replace(publication, component=name)))
            for name in components
        }
        former = {name: store.require(stream(name)) for name, position in before.items() if position}
        upto = position(store, publication)
        fold = read_fold(store.require(LEDGER), upto) if upto else None
        published.append(
            PublishedTable(
                component=publication.component,
                table=table,
                stream=store.open(stream(publication.component)),
                position=max([upto, *before.values()]),
                folded=fold.logged.get(component_of(publication.component), 0) if fold else 0,
                counted=COUNT if publication.by else None,
                former=former,
            )
        )
    return audit(store, [spout.name for spout in topology.spouts], published, journal.components())


def audit_json(result: Audit) -> dict[str, Any]:
    """An audit as JSON's types."""
    return {**asdict(result), "verdict": result.verdict}


def status_report(topology: Topology, store: Store, now: datetime) -> dict[str, Any]:
    """Where each component, the acker, each publisher and each partition of a spout stand."""
    fold = newest_fold(store)
    journal = Journal(store)
    publications = [
        {
            "component": publication.component,
            "to": publication.to,
            "fold": position(store, publication),
        }
        for publication in topology.publications.values()
    ]
    return {
        "topology": topology.name,
        "store": store.uri,
        **acker_status(store, fold, now),
        "components": [_component_status(journal, component) for component in topology.order()],
        "published": publications,
        "positions": [asdict(position) for position in positions(topology, store, fold)],
    }


def acker_status(store: Store, fold: Fold | None, now: datetime) -> dict[str, Any]:
    """The newest fold, when it was, the attempts in each state now, and how many messages are due.

    Raises:
        StoreError: there is no ledger.
    """
    ledger = store.require(LEDGER, fold.ledger_version if fold else None)
    if fold is None:
        return {"fold": None, "folded_at": None, "states": {}, "due": 0}
    rows = query(
        f"SELECT state, count(*) AS n FROM ledger WHERE {NOW.format(fold=fold.number)} GROUP BY state",
        ledger=ledger,
    )
    return {
        "fold": fold.number,
        "folded_at": fold.folded_at,
        "states": {row["state"]: row["n"] for row in rows},
        "due": live_counts(store, fold, now).due,
    }


def _component_status(journal: Journal, component: Component) -> dict[str, Any]:
    planned, logged = journal.newest_number(component.name), journal.logged(component.name)
    newest = journal.read(component.name, logged) if logged else None
    waiting = {}
    for upstream in component.inputs:
        taken = newest.taken(upstream) if newest else 0
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
    }
