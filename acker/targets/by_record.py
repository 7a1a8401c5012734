"""The audit of topics by the contents of their records.

Markers keep how many records were sent to each partition, and the sum of their digests. The sums of all
publishers to a topic equal those of the records that are read, or something is wrong with the records. Where
only the audited publishers send to a topic, the messages are named whose records are too few, too many, or
not acked.
"""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from typing import TYPE_CHECKING

from acker.core.snapshot.verdict import Finding
from acker.kafka.cluster import Partition
from acker.kafka.markers import MARKERS, Marker, read_all_markers
from acker.kafka.records import Found, Span, read_records
from acker.kafka.sent import Tally
from acker.targets.audit import KINDS
from acker.targets.base import Evidence, Findings
from acker.targets.by_message import ByMessage
from acker.targets.positions import Looked, together

if TYPE_CHECKING:
    from acker.targets.topics import Topics

_NOTHING = Tally(0, 0)


class ByRecord:
    """The records of topics, compared with the sums that the markers of all publishers keep.

    Args:
        looked: the topics as they are now.

    Raises:
        SourceError: the cluster does not answer, or a topic may not be read.
    """

    def __init__(self, topics: "Topics", looked: Looked, evidence: Evidence) -> None:
        self._topics, self._looked, self._evidence = topics, looked, evidence
        self.why: list[str] = []  # not all was compared
        self._findings: dict[str, list[Finding]] = {kind: [] for kind in KINDS}
        self._committed = topics.cluster.ends(looked.first, committed=True)
        self._markers = self._all_markers()  # after it: all that is committed is told of
        tallies = (marker.sent.places for found in self._markers.values() for marker in found.values())
        sent = together(tallies)
        self._sent = {place.at: tally for place, tally in sent.items() if looked.is_now(place)}
        self._is_sole, self._is_told = self._is_only_own(), self._is_all_told()

    def _all_markers(self) -> dict[str, dict[str, Marker]]:
        """Topic of markers -> destination -> the newest marker, of all publishers of the cluster."""
        cluster = self._topics.cluster
        found = {name: read_all_markers(cluster, name) for name in cluster.names(f"{MARKERS}.*")}
        return {name: {to: each[-1] for to, each in markers.items()} for name, markers in found.items()}

    def has_changed(self) -> bool:
        """Whether somebody has published since the store was looked at."""
        topics, now = self._topics, self._all_markers()
        seen = {**topics.own, **topics.former}
        is_newer = any(now.get(name, {}).get(topics.destination) != each for name, each in seen.items())
        return is_newer or now != self._markers

    def _is_only_own(self) -> bool:
        """Whether nobody else has sent to the topics, as far as markers tell."""
        mine = self._topics.own
        others = [each for name, found in self._markers.items() if name not in mine for each in found.items()]
        return not (
            self._is_shared
            or any(self._is_there(*each) for each in others)
            or any(name not in self._markers for name in self._topics.earlier)
        )

    @property
    def _is_shared(self) -> bool:
        return any(marker.shared for marker in self._topics.own.values())

    def _is_there(self, destination: str, marker: Marker) -> bool:
        """Whether the publisher that wrote a marker has sent, or may have sent, to the topics.

        Args:
            destination: the name of the publisher's target in its markers.
        """
        may_have = destination.startswith("(") or destination in self._looked.ids
        untold = bool(marker.sent.untold) and may_have
        return untold or any(self._looked.is_now(place) for place in marker.sent.places)

    def _is_all_told(self) -> bool:
        """Whether the markers of all publishers tell where records were sent to the topics.

        `why` gets a reason where markers of other stores' publishers do not tell it, and where markers of
        this store are gone.
        """
        untold = [
            name
            for name, found in self._markers.items()
            if any(each.sent.untold and self._is_there(to, each) for to, each in found.items())
        ]
        others = [name for name in untold if name not in {*self._topics.own, *self._topics.former}]
        if others:
            self.why.append(f"an older version has sent to the same topics as {', '.join(others)}")
        gone = [name for name in self._topics.earlier if name not in self._markers]
        if gone:
            self.why.append(f"records were sent whose markers are gone: {', '.join(gone)}")
        return not untold and not gone

    def findings(self) -> Findings:
        """Read the records, and return the findings on them."""
        found = {at: [0, 0, 0, 0] for at in self._looked.first}
        with ExitStack() as stack:
            messages = None
            if self._topics.is_of_messages and self._is_sole:
                fold = max((marker.fold for marker in self._topics.own.values()), default=0)
                messages = stack.enter_context(ByMessage(self._evidence, fold))
            for record in self._records():
                numbers, which = found[record.at], 2 if record.message is None else 0
                numbers[which] += 1
                numbers[which + 1] += record.digest
                if messages is not None and record.message is not None:
                    messages.take(record)
            if messages is not None:
                self._judge_messages(messages, found)
        for at, numbers in found.items():
            self._judge(at, Tally.of(0, 0, *numbers))
        return self._findings

    def _records(self) -> Iterator[Found]:
        spans = {}
        for at, first in self._looked.first.items():
            sent = self._sent.get(at, _NOTHING)
            spans[at] = Span(first, max(self._committed[at], sent.end))
        return read_records(self._topics.cluster, spans)

    def _judge_messages(self, messages: ByMessage, found: Mapping[Partition, list[int]]) -> None:
        is_short = any(each[0] < self._sent.get(at, _NOTHING).records for at, each in found.items())
        may_lack = is_short and any(self._why_short(at) for at in found)
        topics = self._topics
        unsent = any(marker.sent.unsent for marker in topics.own.values())
        elsewhere = topics.earlier or (topics.untold and topics.topic is None)  # in topics nobody tells of
        compared = messages.compare(self._records)
        if not (may_lack or unsent or elsewhere or self._looked.lost):
            self._findings["lost"] += compared["lost"]
        if self._topics.exactly_once:
            self._findings["duplicated"] += compared["duplicated"]
        self._findings["unexpected"] += compared["unexpected"]

    def _why_short(self, at: Partition) -> str | None:
        """Why a partition may lack records although nobody is at fault; None where it may not lack any."""
        sent = self._sent.get(at, _NOTHING)
        if self._committed[at] < sent.end:
            return f"an open transaction hides the records of {at} from offset {self._committed[at]}"
        if self._looked.first[at] > sent.first:
            return f"{at} has lost its earlier records"
        if self._topics.cluster.rules([at.topic])[at.topic].is_compacted:
            return f"the topic {at.topic} is compacted"
        return None

    def _judge(self, at: Partition, found: Tally) -> None:
        if not self._is_told:
            return
        sent = self._sent.get(at, _NOTHING)
        self._judge_sum(at, "records", (sent.records, sent.digest), (found.records, found.digest))
        wanted, there = (sent.others, sent.others_digest), (found.others, found.others_digest)
        if sent.others < found.others:
            if sent.others:
                more = found.others - sent.others
                self.why.append(f"{at} has {more:,} records of others among those that belong to no message")
        else:
            self._judge_sum(at, "records of no message", wanted, there)

    def _judge_sum(self, at: Partition, what: str, sent: tuple[int, int], found: tuple[int, int]) -> None:
        """Compare a partition's records with those that were sent to it, by number and sum of digests.

        A difference becomes a finding. Where the difference may have another cause than a fault, it becomes
        an entry of `why` instead. A wrong number becomes no finding where there are findings already.

        Args:
            what: the noun for the records, such as "records of no message".
            sent: the number of the records that were sent, and the sum of their digests.
            found: the number of the records that the partition holds, and the sum of their digests.
        """
        if sent == found:
            return
        numbers = f"{found[0]:,} of {sent[0]:,} {what} that were sent there"
        if sent[0] == found[0]:
            why = f"its {found[0]:,} {what} do not say what was sent there"
            self._findings["unexpected"].append(Finding(str(at), why))
        elif found[0] < sent[0]:
            short = self._why_short(at)
            if short:
                self.why.append(f"{short}, which holds {numbers}")
            elif not any(self._findings.values()):
                self._findings["lost"].append(Finding(str(at), numbers))
        elif not self._topics.exactly_once:
            self.why.append(f"{at} holds {numbers}: without exactly_once some may be there twice")
        elif self._is_shared and not self._are_others_told:
            self.why.append(f"{at} holds {numbers}, and others publish there whose markers are not seen")
        elif not any(self._findings.values()):
            self._findings["duplicated"].append(Finding(str(at), numbers))

    @property
    def _are_others_told(self) -> bool:
        own = self._topics.own
        return any(
            self._is_there(*each)
            for name, found in self._markers.items()
            if name not in own
            for each in found.items()
        )
