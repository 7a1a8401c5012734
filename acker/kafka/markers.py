"""Markers: the progress of a publisher, in a compacted topic of its own beside the published topics.

A marker is written in the transaction of the records that it counts, and so are the records beside it that
keep the sums of each partition (`sent`). The topic has one writer: an open transaction of another writer
would hide all later records from a reader of committed ones.
"""

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from acker.core.errors import SourceError
from acker.kafka.cluster import ANSWER_SECONDS, FORBIDDEN, Cluster, code_of, translating_errors
from acker.kafka.sent import Sent

try:
    from confluent_kafka import Consumer, KafkaException, Message, TopicPartition
    from confluent_kafka.admin import NewTopic  # type: ignore[attr-defined]
except ImportError as error:
    raise ImportError("Kafka needs the package confluent-kafka: pip install 'acker[kafka]'.") from error

MARKERS = "acker-published-"  # begins the names of their topics
# Small segments, since the newest one is never compacted.
_CONFIG = {"cleanup.policy": "compact", "segment.bytes": "1048576", "min.cleanable.dirty.ratio": "0.1"}
_POLL_SECONDS = 0.05
_UUID = 36  # characters


@dataclass(frozen=True)
class Marker:
    """The progress of a publisher with one destination.

    Args:
        fold: the newest fold of which a part is in.
        part: how many parts of the fold are in.
        parts: how many parts the fold has.
        before: how many tuples all earlier folds have taken in.
        tuples: how many tuples the fold has taken in so far.
        at: when the marker was written, in UTC.
        store: path or URI of the publisher's store; "" where an older version wrote the marker.
        shared: whether the publisher knows that others publish to the destination.
        sent: on the newest marker the sums of all records that were sent; kept in records of their own.
    """

    fold: int
    part: int
    parts: int
    before: int
    tuples: int
    at: datetime | None = None
    store: str = ""
    shared: bool = False
    sent: Sent = field(default_factory=Sent, compare=False)

    @property
    def is_whole(self) -> bool:
        """Whether all parts of the fold are in."""
        return self.part == self.parts

    @property
    def upto(self) -> int:
        """The newest fold that is in as a whole, with all before it."""
        return self.fold if self.is_whole else self.fold - 1

    @property
    def tuples_upto(self) -> int:
        """How many tuples all folds up to `upto` brought."""
        return self.before + (self.tuples if self.is_whole else 0)

    @property
    def taken_in(self) -> int:
        """How many tuples are in, those of a fold that is in only in part as well."""
        return self.before + self.tuples

    def to_bytes(self) -> bytes:
        """The value of the marker's record, as JSON."""
        said = {name: value for name, value in vars(self).items() if name not in ("at", "sent")}
        return json.dumps(said).encode()

    @classmethod
    def of(cls, record: Message) -> "Marker":
        """The marker of a record."""
        return cls(
            **json.loads(record.value() or b""), at=datetime.fromtimestamp(record.timestamp()[1] / 1000, UTC)
        )


def name_of(app: str) -> str:
    """The name of a publisher in a cluster: of its transactions, and of the topic of its markers."""
    return f"{MARKERS}{app.replace('/', '-')}"


def app_of(name: str) -> str:
    """The transaction id of the publisher whose markers a topic has, by the topic's name."""
    app = name.removeprefix(MARKERS)
    return f"{app[:_UUID]}/{app[_UUID + 1 :]}"


def create_markers(cluster: Cluster, topic: str) -> None:
    """Make the topic of a publisher's markers, where it is not there.

    Raises:
        SourceError: the topic may not be made, or the cluster does not answer.
    """
    if _is_there(cluster, topic):
        return
    admin = cluster.admin()
    made = admin.create_topics([NewTopic(topic, 1, config=_CONFIG)], request_timeout=ANSWER_SECONDS)
    try:
        made[topic].result()
    except KafkaException as error:
        if code_of(error) == FORBIDDEN:
            raise _forbidden(cluster, topic) from error
        if code_of(error) != "TOPIC_ALREADY_EXISTS":
            with translating_errors(cluster, f"topic {topic}"):
                raise
    deadline = time.monotonic() + ANSWER_SECONDS
    while not cluster.has(topic) and time.monotonic() < deadline:  # brokers hear of it one after the other
        time.sleep(_POLL_SECONDS)


def read_markers(cluster: Cluster, topic: str, destination: str) -> list[Marker]:
    """The markers of a destination that are there, oldest first; compaction leaves the newest one.

    Raises:
        SourceError: the cluster does not answer.
    """
    return read_all_markers(cluster, topic).get(destination, [])


def read_all_markers(cluster: Cluster, topic: str) -> dict[str, list[Marker]]:
    """Destination -> its markers that are there, oldest first; compaction leaves the newest one.

    Raises:
        SourceError: the cluster does not answer.
    """
    if not _is_there(cluster, topic):
        return {}
    markers: dict[str, list[Marker]] = {}
    sent: dict[str, dict[str, bytes | None]] = {}
    for record in _committed(cluster, topic):
        destination, is_sent, place = (record.key() or b"").decode().partition("\0")
        if is_sent:
            sent.setdefault(destination, {})[place] = record.value()
        else:
            markers.setdefault(destination, []).append(Marker.of(record))
    for destination, found in markers.items():
        newest = found[-1]
        kept = Sent.of(sent.get(destination, {})).upto(newest.taken_in)
        found[-1] = replace(newest, sent=kept)
    return markers


def _is_there(cluster: Cluster, topic: str) -> bool:
    try:
        return cluster.has(topic)
    except SourceError as error:
        if isinstance(error.__cause__, KafkaException) and code_of(error.__cause__) == FORBIDDEN:
            raise _forbidden(cluster, topic) from error
        raise


def _forbidden(cluster: Cluster, topic: str) -> SourceError:
    return SourceError(
        f"Kafka at {cluster.servers} does not let this login use the topic {topic}, which keeps how far a "
        "publisher is: grant Create, Describe, Read and Write on topics that begin with acker-published, or "
        "make it with one partition and cleanup.policy=compact and grant the other three on it."
    )


def _committed(cluster: Cluster, topic: str) -> Iterator[Message]:
    consumer = Consumer(
        {
            **cluster.settings,
            "bootstrap.servers": cluster.servers,
            "group.id": "acker-look",  # which it does not join
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
            "fetch.wait.max.ms": 10,  # after the last record a broker waits so long for a further one
        }
    )
    try:
        with translating_errors(cluster, f"topic {topic}"):
            # To be told OFFSET_BEGINNING takes a consumer half a second.
            first, _ = consumer.get_watermark_offsets(TopicPartition(topic, 0), ANSWER_SECONDS)
        consumer.assign([TopicPartition(topic, 0, first)])
        while True:
            record = consumer.poll(ANSWER_SECONDS)
            if record is None:
                raise SourceError(f"Kafka at {cluster.servers}, asked for topic {topic}: no answer.")
            fault = record.error()
            if fault is None:
                yield record
            elif fault.name() == "_PARTITION_EOF":
                return
            # What is of no partition is about the group, which nobody joins and a login need not see.
            elif record.topic() is not None and not fault.retriable():
                with translating_errors(cluster, f"topic {topic}"):
                    raise KafkaException(fault)
    finally:
        consumer.close()
