"""A Kafka cluster: its topics and partitions, and the offsets at which partitions begin and end."""

import logging
import re
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, NamedTuple, TypeVar

from acker.core.errors import SourceError

try:
    from confluent_kafka import Consumer, IsolationLevel, KafkaException, TopicCollection, TopicPartition
    from confluent_kafka.admin import AdminClient, ConfigResource, OffsetSpec  # type: ignore[attr-defined]
except ImportError as error:
    raise ImportError("Kafka needs the package confluent-kafka: pip install 'acker[kafka]'.") from error

_Answer = TypeVar("_Answer")

_LATER = (
    "COORDINATOR_LOAD_IN_PROGRESS",
    "COORDINATOR_NOT_AVAILABLE",
    "NOT_COORDINATOR",
    "LEADER_NOT_AVAILABLE",
    "NOT_LEADER_FOR_PARTITION",
)
_PAUSE_SECONDS = 0.2
FORBIDDEN = "TOPIC_AUTHORIZATION_FAILED"
_UNKNOWN = "UNKNOWN_TOPIC_OR_PART"
_LOOK_BYTES = 10_000  # fetched of a partition at once, more where a record is larger
LOOK_SECONDS = 5.0  # for the first records of all partitions
ANSWER_SECONDS = 10.0  # for each question; a look at a cluster asks three at most

_log = logging.getLogger(__name__)


class Partition(NamedTuple):
    """A partition of a topic. Its text is as Kafka's tools have it: `orders-3`."""

    topic: str
    number: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.number}"

    @classmethod
    def parse(cls, text: str) -> "Partition":
        """The partition that a text names."""
        topic, _, number = text.rpartition("-")
        return cls(topic, int(number))


@dataclass(frozen=True)
class Topic:
    """A topic as it is now.

    Args:
        name: the topic's name.
        id: the topic's id, another one where it was deleted and made anew under the same name.
        partitions: the number of its partitions.
    """

    name: str
    id: str
    partitions: int


class TopicRules(NamedTuple):
    """The rules of a topic for its records."""

    most_bytes: int  # at once: of a record, or of a batch of them
    is_compacted: bool  # and so takes none without a key


@dataclass(frozen=True)
class Cluster:
    """A cluster, by its address.

    Args:
        servers: the addresses of any of its brokers, as "host:port,host:port".
        settings: further settings of librdkafka, such as a login.
    """

    servers: str
    settings: Mapping[str, str] = field(default_factory=dict, repr=False)

    def topics(self, names: Collection[str]) -> dict[str, Topic]:
        """Some topics by their names.

        Raises:
            SourceError: the cluster does not answer, or a topic is not there or may not be seen.
        """
        if not names:
            return {}
        asked = TopicCollection(sorted(names))
        admin = self.admin()
        futures = admin.describe_topics(asked, request_timeout=ANSWER_SECONDS)
        found = {}
        for name, future in futures.items():
            with translating_errors(self, f"topic {name}"):
                each = future.result()
            found[name] = Topic(name, str(each.topic_id), len(each.partitions))
        return found

    def has(self, topic: str) -> bool:
        """Whether there is a topic of that name; asking does not make one. See `there`."""
        return self.find(topic) is not None

    def find(self, topic: str) -> Topic | None:
        """The topic of a name, or None where there is none. See `there`."""
        return self.there([topic]).get(topic)

    def there(self, names: Collection[str]) -> dict[str, Topic]:
        """Those of some topics that are there, by their names; asking does not make one.

        Raises:
            SourceError: the cluster does not answer, or a topic may not be seen.
        """
        if not names:
            return {}
        admin = self.admin()
        futures = admin.describe_topics(TopicCollection(sorted(names)), request_timeout=ANSWER_SECONDS)
        there = {}
        for name, future in futures.items():
            with translating_errors(self, f"topic {name}"):
                try:
                    found = future.result()
                except KafkaException as error:
                    if code_of(error) != _UNKNOWN:
                        raise
                    continue
            there[name] = Topic(name, str(found.topic_id), len(found.partitions))
        return there

    def id(self) -> str:
        """The id of the cluster.

        Raises:
            SourceError: the cluster does not answer.
        """
        admin = self.admin()
        with translating_errors(self, "its id"):
            return str(admin.describe_cluster(request_timeout=ANSWER_SECONDS).result().cluster_id)

    def rules(self, topics: Collection[str]) -> dict[str, TopicRules]:
        """The rules of each topic for its records.

        Raises:
            SourceError: the cluster does not answer, or a topic is not there or may not be seen.
        """
        asked = [ConfigResource(ConfigResource.Type.TOPIC, name) for name in sorted(topics)]
        admin = self.admin()
        found = {}
        for resource, future in admin.describe_configs(asked, request_timeout=ANSWER_SECONDS).items():
            with translating_errors(self, f"the settings of topic {resource.name}", "DescribeConfigs"):
                settings = future.result()
                found[resource.name] = TopicRules(
                    int(settings["max.message.bytes"].value),
                    "compact" in settings["cleanup.policy"].value,
                )
        return found

    def names(self, pattern: str) -> list[str]:
        """The topics whose whole names fit a regular expression, Kafka's own left out.

        Raises:
            SourceError: the cluster does not answer.
        """
        admin = self.admin()
        with translating_errors(self, "the list of topics"):
            found = admin.list_topics(timeout=ANSWER_SECONDS)
        return sorted(name for name in found.topics if re.fullmatch(pattern, name) and name[:2] != "__")

    def earliest(self, partitions: Iterable[Partition]) -> dict[Partition, int]:
        """The first offset that each partition still holds."""
        return self._offsets(dict.fromkeys(partitions, OffsetSpec.earliest()))  # type: ignore[no-untyped-call]

    def ends(self, partitions: Iterable[Partition], committed: bool) -> dict[Partition, int]:
        """One past the last offset of each partition.

        Args:
            committed: whether a partition ends before its first open transaction, as for a reader of
                committed records.
        """
        return self._offsets(dict.fromkeys(partitions, OffsetSpec.latest()), committed)  # type: ignore[no-untyped-call]

    def since(self, partitions: Iterable[Partition], when: datetime) -> dict[Partition, int | None]:
        """The first offset of each partition whose record is of a time or later; None where there is none."""
        spec = OffsetSpec.for_timestamp(int(when.timestamp() * 1000))
        found = self._offsets(dict.fromkeys(partitions, spec))
        return {partition: None if offset < 0 else offset for partition, offset in found.items()}

    def oldest(self, positions: Mapping[Partition, int], committed: bool) -> datetime | None:
        """The earliest time among the first records of some partitions, each read from an offset on.

        Args:
            positions: partition -> the offset. The first record there or after it counts.
            committed: whether only committed records count.

        Returns:
            The time, in UTC; None where no record is there, or none comes within seconds.
        """
        consumer = Consumer(
            {
                **self.settings,
                "bootstrap.servers": self.servers,
                "group.id": "acker-look",  # which it does not join
                "enable.auto.commit": False,
                "isolation.level": "read_committed" if committed else "read_uncommitted",
                "fetch.message.max.bytes": _LOOK_BYTES,
                "queued.max.messages.kbytes": 1_024,
            },
            logger=_log,
        )
        times: dict[Partition, int] = {}
        deadline = time.monotonic() + LOOK_SECONDS
        try:
            consumer.assign([TopicPartition(*partition, offset) for partition, offset in positions.items()])
            while len(times) < len(positions) and time.monotonic() < deadline:
                record = consumer.poll(deadline - time.monotonic())
                if record is not None and record.error() is None:
                    at = Partition(str(record.topic()), int(record.partition() or 0))
                    times.setdefault(at, record.timestamp()[1])
                    consumer.pause([TopicPartition(*at)])
        finally:
            consumer.close()
        return datetime.fromtimestamp(min(times.values()) / 1000, UTC) if times else None

    def _offsets(self, specs: Mapping[Partition, Any], committed: bool = False) -> dict[Partition, int]:
        if not specs:
            return {}
        level = IsolationLevel.READ_COMMITTED if committed else IsolationLevel.READ_UNCOMMITTED
        asked = {TopicPartition(*partition): spec for partition, spec in specs.items()}
        admin = self.admin()

        def ask() -> dict[Partition, int]:
            futures = admin.list_offsets(asked, isolation_level=level, request_timeout=ANSWER_SECONDS)
            return {Partition(at.topic, at.partition): each.result().offset for at, each in futures.items()}

        with translating_errors(self, f"partitions of {', '.join(sorted({topic for topic, _ in specs}))}"):
            # A client that has just begun looks for the leaders of partitions twice, 3 s apart, now and then.
            admin.describe_cluster(request_timeout=ANSWER_SECONDS).result()
            return when_ready(ask)

    def admin(self) -> AdminClient:
        """A new client of the cluster. The caller keeps the client until all answers are there.

        The answers of a client that nobody holds any more are lost.
        """
        own = {"bootstrap.servers": self.servers, "socket.timeout.ms": str(int(ANSWER_SECONDS * 1000))}
        return AdminClient({**self.settings, **own}, logger=_log)


@contextmanager
def translating_errors(cluster: Cluster, asked: str, needs: str = "Describe and Read") -> Iterator[None]:
    """Raise a SourceError where the cluster does not answer, or refuses.

    Args:
        asked: the subject of the question, as the error names it.
        needs: the operations that must be granted for it.
    """
    try:
        yield
    except KafkaException as error:
        raise SourceError(f"Kafka at {cluster.servers}, asked for {asked}: {_said(error, needs)}") from error


def when_ready(ask: Callable[[], _Answer]) -> _Answer:
    """The answer of a cluster, which is asked again while it is not ready, as after a start or a new topic.

    Raises:
        KafkaException: the cluster answers with another error, or is not ready within seconds.
    """
    deadline = time.monotonic() + ANSWER_SECONDS
    while True:
        try:
            return ask()
        except KafkaException as error:
            if code_of(error) not in _LATER or time.monotonic() > deadline:
                raise
        time.sleep(_PAUSE_SECONDS)


def code_of(error: KafkaException) -> str:
    """The name that librdkafka has for an error."""
    return str(error.args[0].name())


def _said(error: KafkaException, needs: str) -> str:
    """The cause of an error and the way to mend it, or else the error's own text."""
    code, said = code_of(error), error.args[0].str()
    advice = {
        _UNKNOWN: "It is not there: create it, or mend its name.",
        FORBIDDEN: f"This login may not: grant {needs} on it.",
        "GROUP_AUTHORIZATION_FAILED": "This login may not: grant Read on the group.",
        "TRANSACTIONAL_ID_AUTHORIZATION_FAILED": "This login may not: grant Write on that transactional id.",
        "_TIMED_OUT": f"No answer within {ANSWER_SECONDS:.0f} s: see that a broker runs there.",
        "_TRANSPORT": "No broker can be reached there: see that one runs.",
    }
    return advice.get(code, f"{said} ({code}).")
