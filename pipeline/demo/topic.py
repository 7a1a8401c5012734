"""The demonstration's input as records of a Kafka topic: the value is a line, the key is its file.

It asks the broker by Kafka's own client, so that what it finds there is no opinion of this project.
"""

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from acker.core.errors import SourceError
from acker.kafka.cluster import Cluster, clearly
from pipeline.demo.feed import split
from pipeline.wordcount import GROUP, TOPIC

PARTITIONS = 4
_ANSWER_SECONDS = 30
_POLL_SECONDS = 0.1


class Topic:
    """The topic `TOPIC`, which is made where it is missing.

    Raises:
        SourceError: the broker does not answer.
    """

    def __init__(self, servers: str) -> None:
        self.servers = servers
        with clearly(Cluster(servers), f"topic {TOPIC}"):
            # Nothing in it grows too old, since a later run counts anew what this one feeds.
            _ensure(AdminClient({"bootstrap.servers": servers}), TOPIC, {"retention.ms": "-1"})

    def files(self) -> set[str]:
        """See `Feed`."""
        return {(record.key() or b"").decode() for record in self._records()}

    def add(self, name: str, text: bytes) -> None:
        """See `Feed`. The partitions take turns, so that few files fill all of them."""
        producer = Producer({"bootstrap.servers": self.servers})  # which must not outlive the broker
        for number, line in enumerate(split(text)):
            producer.produce(TOPIC, line, name, number % PARTITIONS)
        if producer.flush(_ANSWER_SECONDS):
            raise self._silent()

    def messages(self) -> Iterator[tuple[str, bytes]]:
        """See `Feed`."""
        for record in self._records():
            yield f"lines:{TOPIC}-{record.partition()}:{record.offset()}", record.value() or b""

    def lags(self) -> Mapping[str, tuple[int, int]]:
        """See `Feed`."""
        found = {}
        with self._consumer() as consumer:
            for at in consumer.committed(_partitions(), timeout=_ANSWER_SECONDS):
                _, end = consumer.get_watermark_offsets(at, timeout=_ANSWER_SECONDS)
                found[f"{at.topic}-{at.partition}"] = (max(at.offset, 0), end)  # below 0 where there is none
        return found

    def _records(self) -> Iterator[Message]:
        """All records that are there now."""
        ended: set[int | None] = set()
        with self._consumer() as consumer:
            consumer.assign(_partitions(OFFSET_BEGINNING))
            while len(ended) < PARTITIONS:
                record = consumer.poll(_ANSWER_SECONDS)
                if record is None:
                    raise self._silent()
                error = record.error()
                if error is None:
                    yield record
                elif error.code() == KafkaError._PARTITION_EOF:
                    ended.add(record.partition())
                else:
                    raise KafkaException(error)

    @contextmanager
    def _consumer(self) -> Iterator[Consumer]:
        """A client that looks at the group `GROUP` and does not join it."""
        settings = {"group.id": GROUP, "enable.auto.commit": False, "enable.partition.eof": True}
        consumer = Consumer({"bootstrap.servers": self.servers, **settings})
        try:
            with clearly(Cluster(self.servers), f"topic {TOPIC}"):
                yield consumer
        finally:
            consumer.close()

    def _silent(self) -> SourceError:
        return SourceError(f"Kafka at {self.servers} did not answer for {_ANSWER_SECONDS} s: see its log.")


def _ensure(admin: AdminClient, name: str, settings: dict[str, str]) -> None:
    """Make a topic, if it is missing, with settings of Kafka's."""
    if name in admin.list_topics(timeout=_ANSWER_SECONDS).topics:
        return
    admin.create_topics([NewTopic(name, PARTITIONS, 1, config=settings)])[name].result()
    while name not in admin.list_topics(timeout=_ANSWER_SECONDS).topics:
        time.sleep(_POLL_SECONDS)  # it is known a moment after it was made


def _partitions(offset: int = 0) -> list[TopicPartition]:
    return [TopicPartition(TOPIC, number, offset) for number in range(PARTITIONS)]
