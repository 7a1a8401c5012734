"""The committed records of topics between certain offsets."""

import logging
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from acker.core.errors import SourceError
from acker.kafka.cluster import ANSWER_SECONDS, Cluster, Partition, translating_errors
from acker.kafka.sent import ATTEMPT, MESSAGE, digest_of

try:
    from confluent_kafka import Consumer, KafkaException, Message, TopicPartition
except ImportError as error:
    raise ImportError("Kafka needs the package confluent-kafka: pip install 'acker[kafka]'.") from error

_QUEUE_KBYTES = 16_384
_log = logging.getLogger(__name__)


class Span(NamedTuple):
    """Offsets of a partition, from the first to one before the end."""

    first: int
    end: int


class Found(NamedTuple):
    """A record that was read.

    Args:
        message: the message that the record names in a header; None where it names none.
        attempt: the attempt of that message; None where the record names none.
        digest: the digest of key, value, message and attempt.
    """

    at: Partition
    offset: int
    message: bytes | None
    attempt: bytes | None
    digest: int


def read_records(cluster: Cluster, spans: Mapping[Partition, Span]) -> Iterator[Found]:
    """The committed records of some partitions. Records that an open transaction hides are left out.

    Raises:
        SourceError: the cluster does not answer, or a topic may not be read.
    """
    left = {at: span.end for at, span in spans.items() if span.first < span.end}
    if not left:
        return
    consumer = Consumer(
        {
            **cluster.settings,
            "bootstrap.servers": cluster.servers,
            "group.id": "acker-look",  # which it does not join
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
            "queued.max.messages.kbytes": _QUEUE_KBYTES,
            "auto.offset.reset": "earliest",  # what retention takes meanwhile is passed over
        },
        logger=_log,
    )
    try:
        consumer.assign([TopicPartition(*at, spans[at].first) for at in left])
        while left:
            record = consumer.poll(ANSWER_SECONDS)
            if record is None:
                raise SourceError(f"Kafka at {cluster.servers}, asked for records: no answer.")
            at = Partition(str(record.topic()), int(record.partition() or 0))
            if at in left and _is_last(cluster, record, left[at]):
                left.pop(at)
                consumer.pause([TopicPartition(*at)])
            if record.error() is None and int(record.offset() or 0) < spans[at].end:
                yield _found(at, record)
    finally:
        consumer.close()


def _is_last(cluster: Cluster, record: Message, end: int) -> bool:
    """Whether a partition has nothing more before an offset, to judge by a record or an event of a consumer.

    Args:
        record: the record or event that the consumer has got of the partition.
        end: the offset.

    Raises:
        SourceError: the event is a fault that does not pass by itself.
    """
    fault = record.error()
    if fault is None:
        return int(record.offset() or 0) >= end - 1
    if fault.name() == "_PARTITION_EOF":
        return True
    # What is of no partition is about the group, which nobody joins and a login need not see.
    if record.topic() is not None and not fault.retriable():
        with translating_errors(cluster, f"topic {record.topic()}"):
            raise KafkaException(fault)
    return False


def _found(at: Partition, record: Message) -> Found:
    headers = dict(record.headers() or ())
    message, attempt = (_bytes(headers.get(name)) for name in (MESSAGE, ATTEMPT))
    key, value = record.key(), record.value()
    return Found(at, int(record.offset() or 0), message, attempt, digest_of(key, value, message, attempt))


def _bytes(header: str | bytes | None) -> bytes | None:
    return header.encode() if isinstance(header, str) else header
