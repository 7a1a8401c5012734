"""The verdict on a topology: its store and all that it has published."""

from dataclasses import asdict, replace
from datetime import datetime
from typing import Any

from acker.core.errors import StoreError
from acker.core.snapshot.integrity import check_tables
from acker.core.snapshot.journal import Journal
from acker.core.snapshot.verdict import Audit, Compared, Finding, Overdue, audit, missing_from
from acker.core.store.store import Store
from acker.core.store.tables import UNREADABLE
from acker.operations.evidence import evidence_of
from acker.operations.overdue import overdue_of
from acker.operations.publish import published_upto
from acker.reports.sources import changed, gone, left_out, source_backlogs, unknown
from acker.targets.acked import Acked
from acker.targets.base import Evidence, Target, Verdict
from acker.targets.standing import standing_of
from acker.topology.topology import Publication, Topology


def audit_report(
    topology: Topology,
    store: Store,
    contents: bool = True,
    read_topics: bool = False,
    overdue_before: datetime | None = None,
) -> Audit:
    """The verdict on a topology's store and on its published tables.

    Args:
        contents: whether messages are compared by what their rows say, and not by their number alone.
        read_topics: whether the records of topics are read as well.
        overdue_before: messages that were acked before this time and are not published are overdue; None: no
            message is overdue.

    Raises:
        StoreError: the store has no ledger yet, cannot be read, or does not hold what was committed to it.
    """
    # Targets before the store: then the ledger knows of every fold that they hold.
    targets = {name: each.target.pinned() for name, each in topology.publications.items()}
    journal = Journal(store, topology.roles)
    journal.check_batches()
    check_tables(journal, journal.components())
    found: dict[str, list[Finding]] = {"lost": [], "unexpected": [], "duplicated": []}
    compared: dict[str, Compared] = {}
    overdue: dict[str, Overdue] = {}
    told: set[Finding] = set()  # of a topic that several streams share
    positions = [journal.fold.number if journal.fold else 0]
    for name, target in targets.items():
        held = standing_of(journal, target, name).fold
        upto = max(held, published_upto(topology, journal, Publication(name, target)))
        evidence = evidence_of(topology, journal, name, target, upto, contents, read_topics)
        if evidence is None:
            continue
        positions.append(evidence.position)
        late = overdue_before and overdue_of(topology, journal, Publication(name, target), overdue_before)
        overdue |= {name: late} if late else {}
        verdict = _verdict(target, evidence)
        for kind, each in verdict.findings.items():
            found[kind].extend(finding for finding in each if finding not in told)
            told.update(each)
        numbers = (verdict.compared, verdict.by_count, verdict.not_compared)
        compared[name] = Compared(target.uri, *numbers, verdict.why)
        found["lost"].extend(missing_from(journal, name))
    judged = audit(journal, [spout.name for spout in topology.spouts], found, min(positions))
    sources = source_backlogs(topology, journal)
    differing = {spout: str(each) for spout, each in changed(sources).items()}
    missing = {spout: str(each) for spout, each in gone(sources).items()}
    judged = replace(judged, streams=compared, overdue=overdue, left_out=left_out(sources))
    return replace(judged, changed=differing, gone=missing, unknown=unknown(sources))


def _verdict(target: Target, evidence: Evidence) -> Verdict:
    """The verdict of a target on its contents. It says so where the target cannot be read or compared."""
    try:
        found = target.audit(evidence)
    except StoreError as error:
        if UNREADABLE not in str(error):
            raise
        why = f"the table has features that cannot be read here: {error}"
        return Verdict({}, 0, 0, Acked.of(evidence).number(), (why,))
    if isinstance(found, Verdict):
        return found
    why = f"{type(target).__name__} does not tell how it compares"
    return Verdict(found, 0, Acked.of(evidence).number(), 0, (why,))


def audit_json(result: Audit) -> dict[str, Any]:
    """An audit as JSON's types."""
    return {**asdict(result), "verdict": result.verdict}
