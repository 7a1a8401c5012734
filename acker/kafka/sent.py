"""Sums of all records that a publisher has sent, by partition: their number, their offsets, their digests.

The digests of records add up modulo 2^64, so their order does not matter and each one counts as often as it
is there. The sums are kept in clusters for ever, so neither digests nor the form of the sums may change.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import NamedTuple

from xxhash import xxh64_intdigest

from acker.kafka.cluster import Partition

MESSAGE, ATTEMPT = "acker-message", "acker-attempt"  # headers
_MODULUS = 2**64
_NONE = 0x9E3779B97F4A7C15  # what is not there leaves the state at this many times the former


def digest_of(key: bytes | None, value: bytes | None, message: bytes | None, attempt: bytes | None) -> int:
    """The digest of a record: of its key, its value, and the headers of its message."""
    state = 0
    for part in (key, value, message, attempt):
        state = (state + 1) * _NONE % _MODULUS if part is None else xxh64_intdigest(part, state)
    return state


def message_key(message: bytes, attempt: bytes) -> int:
    """The number by which the records of an attempt of a message are found together."""
    return xxh64_intdigest(attempt, xxh64_intdigest(message))


class Place(NamedTuple):
    """A partition of one certain topic, which has another id where it was made anew."""

    at: Partition
    topic_id: str


@dataclass(frozen=True)
class Tally:
    """The records of a partition.

    Args:
        first: the offset of the first one.
        end: one past the offset of the last one.
        records: the number of records that belong to messages.
        digest: the sum of the digests of these records.
        others: the number of records that belong to no message.
        others_digest: the sum of the digests of these others.
    """

    first: int
    end: int
    records: int = 0
    digest: int = 0
    others: int = 0
    others_digest: int = 0

    @classmethod
    def of(cls, first: int, end: int, records: int, digest: int, others: int, others_digest: int) -> "Tally":
        """The tally of sums that were not reduced modulo 2^64 yet."""
        return cls(max(first, 0), end, records, digest % _MODULUS, others, others_digest % _MODULUS)

    @property
    def total(self) -> int:
        """The number of all records."""
        return self.records + self.others

    def plus(self, other: "Tally") -> "Tally":
        """The tally of the records of both together."""
        return Tally(
            min(self.first, other.first),
            max(self.end, other.end),
            self.records + other.records,
            (self.digest + other.digest) % _MODULUS,
            self.others + other.others,
            (self.others_digest + other.others_digest) % _MODULUS,
        )


@dataclass(frozen=True)
class Sent:
    """The sums of all records that a publisher has sent to one destination.

    Args:
        tuples: how many tuples were taken in when these sums were written, as the marker says.
        untold: how many of these tuples an older version has sent, of which only their number was kept.
        unsent: how many tuples had no topic.
        places: place -> the tally of the records there.
    """

    tuples: int = 0
    untold: int = 0
    unsent: int = 0
    places: Mapping[Place, Tally] = field(default_factory=dict)

    @property
    def told(self) -> int:
        """The number of tuples of which the sums tell where they are."""
        return self.unsent + sum(tally.total for tally in self.places.values())

    def upto(self, tuples: int) -> "Sent":
        """The sums as of a marker, with the tuples that the marker counts and the sums do not as untold.

        An older version has sent these tuples, and kept no sums of them.

        Args:
            tuples: how many tuples are taken in, as the marker says.
        """
        return replace(self, tuples=tuples, untold=self.untold + max(0, tuples - self.tuples))

    def after(self, tuples: int, unsent: int, places: Mapping[Place, Tally]) -> "Sent":
        """The sums with the records of a further part.

        Args:
            tuples: how many tuples are taken in with the part.
            unsent: how many tuples of the part had no topic.
            places: place -> the tally of the part's records there.
        """
        both = {place: added(self.places.get(place), each) for place, each in places.items()}
        return Sent(tuples, self.untold, self.unsent + unsent, {**self.places, **both})

    def to_records(self, destination: str, changed: Iterable[Place]) -> dict[bytes, bytes]:
        """Key -> value of the records that keep the sums: one for each changed place, one for the whole."""
        whole = {"tuples": self.tuples, "untold": self.untold, "unsent": self.unsent}
        found = {f"{destination}\0".encode(): json.dumps(whole).encode()}
        for place in changed:
            key = f"{destination}\0{place.at}\0{place.topic_id}"
            found[key.encode()] = json.dumps(asdict(self.places[place])).encode()
        return found

    @classmethod
    def of(cls, records: Mapping[str, bytes | None]) -> "Sent":
        """The sums as their records say.

        Args:
            records: the rest of a record's key, after the destination -> the value of the newest record.
        """
        places = {}
        for key, value in records.items():
            at, _, topic_id = key.partition("\0")
            if at and value is not None:
                places[Place(Partition.parse(at), topic_id)] = Tally(**json.loads(value))
        return cls(**json.loads(records.get("") or b"{}"), places=places)


def added(one: Tally | None, other: Tally) -> Tally:
    """The tally of two tallies of a partition together; the second alone where the first is None."""
    return other if one is None else one.plus(other)
