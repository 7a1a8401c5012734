"""The verdict on a topology: its store and all that it has published."""

from dataclasses import asdict, replace
from typing import Any

from acker.core.audit import Audit, Finding, audit, missing_from
from acker.core.integrity import check_tables
from acker.core.ledger import read_fold
from acker.core.schemas import LEDGER, component_of, stream
from acker.core.store import Store
from acker.core.trims import counted_trim, newest_trim
from acker.journal.journal import Journal
from acker.operations.publish import former_streams, published_upto
from acker.reports.sources import changed, left_out, source_backlogs, unknown
from acker.targets.base import Evidence, Target, published_fold
from acker.targets.by_key import trimmed
from acker.topology.topology import Publication, Topology


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
        evidence = _evidence(topology, journal, name, target)
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


def _evidence(topology: Topology, journal: Journal, name: str, target: Target) -> Evidence | None:
    """What a target should hold; None where its stream has emitted nothing yet."""
    held = published_fold(journal, target, name)
    if journal.open(stream(name)) is None:
        return None
    upto = max(held, published_upto(topology, journal, Publication(name, target)))
    former = former_streams(topology, journal, target)
    streams = {each: journal.require(stream(each)) for each in (name, *former)}
    fold = read_fold(journal.require(LEDGER), upto) if upto else None
    counted = counted_trim(journal.store)  # before what is kept, which later trimmings leave readable
    return Evidence(
        ledger=journal.require(LEDGER),
        stream=name,
        streams=streams,
        position=max([upto, *former.values()]),
        folded=fold.logged.get(component_of(name), 0) if fold else 0,
        trim=newest_trim(journal.store),
        counted=counted,
        kept={each: table for each in streams if (table := journal.store.open(trimmed(each))) is not None},
    )


def audit_json(result: Audit) -> dict[str, Any]:
    """An audit as JSON's types."""
    return {**asdict(result), "verdict": result.verdict}
