"""The positions of sent records in topics as they are now: whether the topics still hold them."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import reduce

from acker.core.snapshot.verdict import Finding
from acker.kafka.cluster import Cluster, Partition
from acker.kafka.sent import Place, Tally


def together(each: Iterable[Mapping[Place, Tally]]) -> dict[Place, Tally]:
    """The tallies of some publishers, added up place by place."""
    found: dict[Place, list[Tally]] = {}
    for places in each:
        for place, tally in places.items():
            found.setdefault(place, []).append(tally)
    return {place: reduce(Tally.plus, tallies) for place, tallies in found.items()}


@dataclass(frozen=True)
class Looked:
    """Topics as they are now, compared with the places to which records were sent.

    Args:
        ids: name of each topic that is there -> its id, with that of the cluster.
        first: each partition of these topics -> the first offset that it holds.
        lost: findings on sent records that are not there any more.
        taken: sentences on records that are not there any more, where nobody need be at fault.
    """

    ids: Mapping[str, str]
    first: Mapping[Partition, int]
    lost: list[Finding]
    taken: list[str]

    def is_now(self, place: Place) -> bool:
        """Whether the topic of a place is still the one to which records were sent, and was not made anew."""
        return self.ids.get(place.at.topic) == place.topic_id


def look(cluster: Cluster, sent: Mapping[Place, Tally], always: Iterable[str] = ()) -> Looked:
    """Compare the offsets at which topics begin and end with the offsets of the records that were sent there.

    Args:
        always: topics that are looked at although nobody tells of records that were sent there.

    Raises:
        SourceError: the cluster does not answer.
    """
    names = {*always, *(place.at.topic for place in sent)}
    if not names:
        return Looked({}, {}, [], [])
    topics, own_id = cluster.there(names), cluster.id()
    partitions = [
        Partition(each.name, number) for each in topics.values() for number in range(each.partitions)
    ]
    first, ends = cluster.earliest(partitions), cluster.ends(partitions, committed=False)
    looked = Looked({name: f"{own_id}/{each.id}" for name, each in topics.items()}, first, [], [])
    elsewhere: dict[str, int] = {}
    for place, tally in sorted(sent.items()):
        at = place.at
        if not looked.is_now(place):
            elsewhere[at.topic] = elsewhere.get(at.topic, 0) + tally.total
        elif ends.get(at, 0) < tally.end:
            why = f"it ends at offset {ends.get(at, 0)}, and records up to {tally.end - 1} were sent there"
            looked.lost.append(Finding(str(at), why))
        elif first[at] > tally.first:
            looked.taken.append(
                f"{at} begins at offset {first[at]}, and what was sent there at {tally.first}"
            )
    for topic, records in elsewhere.items():
        what = "deleted and made anew" if topic in topics else "deleted"
        looked.lost.append(Finding(topic, f"{records:,} records were sent to a topic that was {what} since"))
    return looked
