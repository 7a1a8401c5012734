"""The verdict on a topology: its store and all that it has published."""

from dataclasses import asdict, replace
from typing import Any

from acker.core.audit import Audit, PublishedTable, audit
from acker.core.delta import Store, last_number, open_table
from acker.core.ledger import read_fold
from acker.core.schemas import LEDGER, component_of, stream
from acker.journal.journal import Journal
from acker.targets.publisher import COUNT, app_id, position
from acker.topology.topology import Topology


def audit_report(topology: Topology, store: Store) -> Audit:
    """The verdict on a topology's store and on its published tables."""
    published = []
    journal = Journal(store, topology.roles)
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
