"""The audit of topics: whether they hold all sent records, by position, and on demand by content."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from acker.kafka.cluster import Cluster
from acker.kafka.markers import Marker
from acker.targets.base import Evidence, Findings
from acker.targets.by_record import ByRecord
from acker.targets.positions import Looked, look, together


@dataclass(frozen=True)
class Topics:
    """The topics to which a target has sent.

    Args:
        topic: the one to which all records go; None where each record has its own.
        destination: the name of the target in markers.
        own: topic of markers -> the newest marker of a publisher of the store.
        former: topic of markers -> the newest marker of a publisher of a store that the store is a copy of.
        taken_in: how many tuples all these publishers have sent, those before their markers began included.
        earlier: topics of the markers of earlier ids under which the store has published the same streams.
        exactly_once: whether no record may be there twice.
        is_of_messages: whether each tuple of a message has a record with its headers.
    """

    cluster: Cluster
    topic: str | None
    destination: str
    own: Mapping[str, Marker]
    former: Mapping[str, Marker]
    taken_in: int
    earlier: Collection[str]
    exactly_once: bool
    is_of_messages: bool

    def audit(self, evidence: Evidence) -> tuple[Findings, tuple[str, ...]]:
        """The findings by kind, and the reasons why not all records were compared by content."""
        markers = [*self.own.values(), *self.former.values()]
        sent, always = together(marker.sent.places for marker in markers), [self.topic] if self.topic else []
        looked = look(self.cluster, sent, always if self.taken_in else [])
        untold = self.untold
        why = list(looked.taken)
        if not (self.own or self.is_of_messages) and evidence.position:
            why.append("no marker tells of records: none was sent yet, or the markers are gone")
        if untold:
            why.append(f"of {untold:,} tuples only their number was kept, and not where they were sent")
        if not evidence.read_topics:
            command = f"acker audit {evidence.topology} --read-topics"
            return {"lost": looked.lost}, (*why, f"records are not read, as `{command}` does")
        read, said = self._read(evidence, looked)
        findings = {**read, "lost": [*looked.lost, *read.get("lost", ())]}
        return findings, tuple(dict.fromkeys([*why, *said]))

    @property
    def untold(self) -> int:
        """The number of tuples of which it is not known where they were sent."""
        told = sum(marker.sent.told for marker in (*self.own.values(), *self.former.values()))
        return max(0, self.taken_in - told)

    def _read(self, evidence: Evidence, looked: Looked) -> tuple[Findings, Sequence[str]]:
        read = ByRecord(self, looked, evidence)
        findings = read.findings()
        if any(findings.values()) and read.has_changed():
            return {}, ["somebody published while the records were read: audit again"]
        return findings, read.why
