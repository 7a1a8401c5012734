"""The demonstration's topics: in one a record is a line, keyed by its file; in the other the count of a word.

It asks the broker by Kafka's own client, so that what it finds there is no opinion of this project.
"""

import json
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial

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
from acker.kafka.cluster import Cluster, translating_errors, when_ready
from pipeline.demo.feed import split
from pipeline.wordcount import COUNTS_TOPIC, GROUP, TOPIC

PARTITIONS = 4
_ANSWER_SECONDS = 30
_POLL_SECONDS = 0.1


class Topic:
    """The topic `TOPIC` of lines and the topic `COUNTS_TOPIC`, which are made where they are missing.

    Raises:
        SourceError: the broker does not answer.
    """

    def __init__(self, servers: str) -> None:
        self.servers = servers
        admin = AdminClient({"bootstrap.servers": servers})
        with translating_errors(Cluster(servers), f"topics {TOPIC} and {COUNTS_TOPIC}"):
            # Nothing in it grows too old, since a later run counts anew what this one feeds.
            _ensure(admin, TOPIC, {"retention.ms": "-1"})
            _ensure(admin, COUNTS_TOPIC, {"cleanup.policy": "compact"})

    def files(self) -> set[str]:
        """See `Feed`."""
        return {(record.key() or b"").decode() for record in self._records(TOPIC)}

    def add(self, name: str, text: bytes) -> None:
        """See `Feed`. The partitions take turns, so that few files fill all of them."""
        producer = Producer({"bootstrap.servers": self.servers})  # which must not outlive the broker
        for number, line in enumerate(split(text)):
            producer.produce(TOPIC, line, name, number % PARTITIONS)
        if producer.flush(_ANSWER_SECONDS):
            raise self._silent()

    def messages(self) -> Iterator[tuple[str, bytes]]:
        """See `Feed`."""
        for record in self._records(TOPIC):
            yield f"lines:{TOPIC}-{record.partition()}:{record.offset()}", record.value() or b""

    def lags(self) -> Mapping[str, tuple[int, int]]:
        """See `Feed`."""
        found = {}
        with self._consumer() as consumer:
            asked = partial(consumer.committed, _partitions(TOPIC), timeout=_ANSWER_SECONDS)
            for at in when_ready(asked):
                _, end = consumer.get_watermark_offsets(at, timeout=_ANSWER_SECONDS)
                found[f"{at.topic}-{at.partition}"] = (max(at.offset, 0), end)  # below 0 where there is none
        return found

    def counts(self) -> dict[str, int]:
        """See `Feed`."""
        found = {}
        for record in self._records(COUNTS_TOPIC):
            value = record.value()
            found[(record.key() or b"").decode()] = 0 if value is None else json.loads(value)["count"]
        return {word: count for word, count in found.items() if count}

    def _records(self, topic: str) -> Iterator[Message]:
        """All records that are there now, of whose transactions none is open or aborted."""
        ended: set[int | None] = set()
        with self._consumer() as consumer:
            consumer.assign(_partitions(topic, OFFSET_BEGINNING))
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
            with translating_errors(Cluster(self.servers), f"topic {TOPIC}"):
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


def _partitions(topic: str, offset: int = 0) -> list[TopicPartition]:
    return [TopicPartition(topic, number, offset) for number in range(PARTITIONS)]
