"""The verdict on a topology: its store and all that it has published."""

from dataclasses import asdict, replace
from typing import Any

from acker.core.audit import Audit, Finding, audit, missing_from
from acker.core.integrity import check_tables
from acker.core.store import Store
from acker.journal.journal import Journal
from acker.operations.evidence import evidence_of
from acker.reports.sources import changed, left_out, source_backlogs, unknown
from acker.targets.standing import standing_of
from acker.topology.topology import Topology


def audit_report(topology: Topology, store: Store) -> Audit:
    """The verdict on a topology's store and on its published tables.

    Raises:
        StoreError: the store has no ledger yet, cannot be read, or does not hold what was committed to it.
    """
    # Targets before the store: then the ledger knows of every fold that they hold.
    targets = {name: each.target.pinned() for name, each in topology.publications.items()}
    journal = Journal(store, topology.roles)
    journal.check_batches()
    check_tables(journal, journal.components())
    found: dict[str, list[Finding]] = {"lost": [], "unexpected": [], "duplicated": []}
    positions = [journal.fold.number if journal.fold else 0]
    for name, target in targets.items():
        upto = standing_of(journal, target, name).fold
        evidence = evidence_of(topology, journal, name, target, upto)
        if evidence is None:
            continue
        positions.append(evidence.position)
        for kind, each in target.audit(evidence).items():
            found[kind].extend(each)
        found["lost"].extend(missing_from(journal, name))
    judged = audit(journal, [spout.name for spout in topology.spouts], found, min(positions))
    sources = source_backlogs(topology, journal)
    differing = {spout: str(each) for spout, each in changed(sources).items()}
    return replace(judged, left_out=left_out(sources), changed=differing, unknown=unknown(sources))


def audit_json(result: Audit) -> dict[str, Any]:
    """An audit as JSON's types."""
    return {**asdict(result), "verdict": result.verdict}
