"""Sending records to topics, a part at a time. A transaction shows a part with its marker as a whole."""

import contextlib
import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

from acker.core.errors import SourceError, TopologyError
from acker.core.names import did_you_mean
from acker.kafka.cluster import ANSWER_SECONDS, Cluster, Partition, code_of, translating_errors
from acker.kafka.sent import ATTEMPT, MESSAGE, Place, Tally, digest_of

try:
    from confluent_kafka import KafkaError, KafkaException, Message, Producer
except ImportError as error:
    raise ImportError("Kafka needs the package confluent-kafka: pip install 'acker[kafka]'.") from error

PARTITIONERS = (
    *("consistent_random", "consistent", "murmur2_random", "murmur2", "fnv1a_random", "fnv1a", "random"),
)
_TRANSACTION_SECONDS = 600  # of 15 minutes that brokers allow by default
_PATIENCE_SECONDS = 30.0  # for a cluster that takes nothing
_POLL_SECONDS = 0.1
_QUEUE_KBYTES = 65_536
_BATCH_BYTES = 1_000_000  # librdkafka's own
# The last is what each later call says; it does not tell of what it came.
_FENCED = ("_FENCED", "PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH", "_FATAL")
_GIVEN_UP = ("_PURGE_QUEUE", "_PURGE_INFLIGHT")  # of records whose transaction has ended, not why it did
_log = logging.getLogger(__name__)


def check_partitioner(who: str, name: str | None) -> None:
    """Refuse a partitioner that librdkafka does not have.

    Raises:
        TopologyError: librdkafka does not have it. The error names those that it has.
    """
    if name is not None and name not in PARTITIONERS:
        raise TopologyError(
            f"{who} has the partitioner {name!r}, which librdkafka does not have; it has "
            f"{', '.join(PARTITIONERS)}.{did_you_mean(name, PARTITIONERS)}"
        )


class Record(NamedTuple):
    """A record to send; one without a topic is counted, and goes nowhere.

    Args:
        message: the message that the record belongs to; None where it belongs to none.
        attempt: the attempt of that message.
    """

    topic: str | None
    key: bytes | None
    value: bytes | None
    message: bytes | None = None
    attempt: bytes | None = None


@dataclass
class Part:
    """Records that were sent as a whole.

    Args:
        count: the number of records, those without a topic included.
        unsent: the number of records without a topic.
        places: place -> the tally of the other records there.
    """

    count: int = 0
    unsent: int = 0
    places: dict[Place, Tally] = field(default_factory=dict)


class Fenced(SourceError):
    """Another producer of the same name has begun, which ends this one."""


class Sender:
    """A producer of records, which sends them a part at a time.

    With transactions it ends every other producer of its name, and the transactions that the other left open.

    Args:
        cluster: the cluster of the topics.
        name: the name by which the cluster knows the producer again.
        limits: topic -> the most bytes that a record, or a batch of records, may have there.
        transactional: whether records are sent in transactions. Without these, records may be there twice
            after a failure.
        partitioner: how a key chooses its partition; None: as librdkafka does.

    Raises:
        SourceError: the cluster does not answer, or refuses.
    """

    def __init__(
        self,
        cluster: Cluster,
        name: str,
        limits: Mapping[str, int],
        transactional: bool,
        partitioner: str | None = None,
    ) -> None:
        self._cluster, self._name = cluster, name
        self._transactional = transactional
        self._fault: tuple[KafkaError, str] | None = None  # and where
        self._tallies: dict[tuple[Any, Any], list[int]] = {}  # by topic and number of a partition
        self._cluster_id = ""
        own: dict[str, Any] = {
            "bootstrap.servers": cluster.servers,
            "enable.idempotence": True,
            "linger.ms": 20,
            "message.max.bytes": max(_BATCH_BYTES, *limits.values()),
            "batch.size": min(_BATCH_BYTES, *limits.values()),  # brokers judge a batch as a whole
            "queue.buffering.max.kbytes": _QUEUE_KBYTES,
        }
        if partitioner is not None:
            own["partitioner"] = partitioner
        if transactional:
            own |= {"transactional.id": name, "transaction.timeout.ms": _TRANSACTION_SECONDS * 1000}
        self._producer = Producer({**cluster.settings, **own}, logger=_log)
        if transactional:
            self._until_done(self._producer.init_transactions)

    def send(self, records: Iterable[Record], marks_of: Callable[[Part], Iterable[Record]]) -> Part:
        """Send a part. Return how many records it had, and where they are.

        Args:
            records: the records of the part.
            marks_of: makes the records that mark a part. It is called with the part once the cluster has all
                records of the part.

        Raises:
            Fenced: another producer of that name goes on.
            SourceError: the cluster does not take the part. In a transaction none of its records then counts.
        """
        part, self._tallies = Part(), {}
        with self._transaction() if self._transactional else self._flushed():
            for record in records:
                part.count += 1
                if record.topic is None:
                    part.unsent += 1
                else:
                    digest = digest_of(record.key, record.value, record.message, record.attempt)
                    self._produce(record, partial(self._delivered, record.message is not None, digest))
            self._flush()  # offsets are known then
            part.places = self._places()
            for mark in marks_of(part):
                self._produce(mark, self._failed)
        return part

    def _places(self) -> dict[Place, Tally]:
        """Place, with the topic's id -> the tally of the records that were delivered there."""
        if not self._tallies:
            return {}
        self._cluster_id = self._cluster_id or self._cluster.id()
        topics = self._cluster.topics({topic for topic, _ in self._tallies})
        return {
            Place(Partition(topic, number), f"{self._cluster_id}/{topics[topic].id}"): Tally.of(*numbers)
            for (topic, number), numbers in self._tallies.items()
        }

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[None]:
        with self._asked(f"a transaction of {self._name}"):
            self._producer.begin_transaction()
        try:
            yield
            self._until_done(self._producer.commit_transaction)
        except BaseException as error:
            with contextlib.suppress(KafkaException):  # else whoever begins next ends it
                self._producer.abort_transaction(ANSWER_SECONDS)
            if isinstance(error, SourceError) and not isinstance(error, Fenced):
                self._check_delivered()
            raise

    @contextlib.contextmanager
    def _flushed(self) -> Iterator[None]:
        yield
        self._flush()

    def _produce(self, record: Record, heard: Callable[[KafkaError | None, Message], None]) -> None:
        try:
            with _as_raised():
                self._queue(record, heard)
                self._producer.poll(0)  # which raises what ended the producer since
        except KafkaException:
            with self._asked(f"topic {record.topic}"):
                raise

    def _queue(self, record: Record, heard: Callable[[KafkaError | None, Message], None]) -> None:
        headers = _headers(record)
        deadline = None
        while True:
            try:
                self._producer.produce(
                    record.topic or "", record.value, record.key, headers=headers, on_delivery=heard
                )
                return
            except BufferError:  # its queue is full
                deadline = deadline or time.monotonic() + _PATIENCE_SECONDS
                if time.monotonic() > deadline:
                    raise SourceError(
                        f"Kafka at {self._cluster.servers} takes no records of {self._name}: see that a "
                        "broker runs there."
                    ) from None
            self._producer.poll(_POLL_SECONDS)

    def _delivered(self, is_tracked: bool, digest: int, fault: KafkaError | None, record: Message) -> None:
        if fault is not None:
            self._failed(fault, record)
            return
        at, offset = (record.topic(), record.partition()), record.offset() or 0
        tally = self._tallies.get(at)
        if tally is None:
            tally = self._tallies[at] = [offset, 0, 0, 0, 0, 0]
        if offset >= tally[1]:  # it is negative where a broker had the record before, and does not tell
            tally[1] = offset + 1
        which = 2 if is_tracked else 4
        tally[which] += 1
        tally[which + 1] += digest

    def _failed(self, fault: KafkaError | None, record: Message) -> None:
        if fault is not None and self._fault is None and fault.name() not in _GIVEN_UP:
            self._fault = fault, f"topic {record.topic()}"

    def _flush(self) -> None:
        """Wait until the cluster has all records that were sent."""
        with self._asked("what was sent"):
            left = self._producer.flush(_PATIENCE_SECONDS)
        self._check_delivered()
        if left:
            with self._asked("what was sent"):
                raise KafkaException(KafkaError(KafkaError._TIMED_OUT))

    def _check_delivered(self) -> None:
        """Raise the error of the first record that the cluster refused, if any."""
        if self._fault is not None:
            fault, where = self._fault
            with self._asked(where):
                raise KafkaException(fault)

    def _until_done(self, call: Callable[[float], Any]) -> None:
        """Call a function until it is done, again after each error that allows it, for seconds at most."""
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while True:
            try:
                with self._asked(f"a transaction of {self._name}"):
                    call(ANSWER_SECONDS)
                return
            except SourceError as error:
                cause = error.__cause__
                may_be_done = isinstance(cause, KafkaException) and cause.args[0].retriable()
                if not may_be_done or time.monotonic() > deadline:
                    raise

    @contextlib.contextmanager
    def _asked(self, what: str) -> Iterator[None]:
        with translating_errors(self._cluster, what, "Describe and Write"):
            try:
                with _as_raised():
                    yield
            except KafkaException as error:
                if code_of(error) in _FENCED:
                    raise Fenced(
                        f"Another client sends as {self._name} to Kafka at {self._cluster.servers}."
                    ) from error
                raise


@contextlib.contextmanager
def _as_raised() -> Iterator[None]:
    """Raise the client's own error where Python has made a SystemError of it.

    The client raises the error that ends a producer during a callback. If another callback runs while that
    error is set, Python raises a SystemError in its place. Where the SystemError does not have the error as
    its cause, only a fatal error without details is raised.
    """
    try:
        yield
    except SystemError as error:
        if isinstance(error.__cause__, KafkaException):
            raise error.__cause__ from None
        raise KafkaException(KafkaError(KafkaError._FATAL)) from error


def _headers(record: Record) -> list[tuple[str, str | bytes | None]]:
    if record.message is None:
        return []
    return [(MESSAGE, record.message), (ATTEMPT, record.attempt)]
