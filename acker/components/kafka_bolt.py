"""A rich bolt that sends its tuples to Kafka topics before they are acked, as Storm's KafkaBolt does.

The module is pickled by value, so a worker needs confluent-kafka and not this project.
"""

import sys
import time
from collections.abc import Mapping
from functools import partial
from typing import Any, ClassVar

from pyspark import cloudpickle

from acker.components.collector import ALL, Collector, Context, RichBolt, Tuple

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # type: ignore[no-untyped-call]

_PATIENCE_SECONDS = 30
_POLL_SECONDS = 0.1
_UNANSWERED = ("_MSG_TIMED_OUT", "_TRANSPORT", "_ALL_BROKERS_DOWN", "_TIMED_OUT")


class KafkaBolt(RichBolt):
    """Base of bolts that send each tuple to a topic, at least once, and ack it when the brokers have it.

    A subclass names the cluster and the topic, by its attributes or by its methods. The bolt runs in Spark's
    workers, which must reach the brokers. Records that must not be there twice are published to a
    `KafkaTarget` instead, after the ack.

    Attributes:
        servers: the addresses of any brokers of the cluster, as "host:port,host:port".
        topic: the topic of all records.
        key: the column that is a record's key; None: records have no key.
        value: the column that is a record's value; by default all columns, as a JSON object.
        partitioner: librdkafka's name of the way in which a key chooses its partition, by default
            librdkafka's own way. `murmur2_random` is the way of Java's producers, Storm's among them.
        fire_and_forget: whether a tuple is acked without waiting for the brokers.
    """

    servers: ClassVar[str] = ""
    topic: ClassVar[str | None] = None
    key: ClassVar[str | None] = None
    value: ClassVar[str | None] = None
    partitioner: ClassVar[str | None] = None
    fire_and_forget: ClassVar[bool] = False

    def __init_subclass__(cls) -> None:
        columns = (cls.key, ALL if cls.value is None else cls.value)
        cls.as_text = tuple(column for column in columns if column is not None)

    def settings(self) -> Mapping[str, Any]:
        """Further settings of librdkafka, such as a login; called in the worker.

        Returns:
            Name of a setting -> its value.
        """
        return {}

    def topic_of(self, tup: Tuple) -> str | None:
        """The topic of a tuple's record.

        Args:
            tup: the tuple.

        Returns:
            The name of the topic; None: the tuple is acked and not sent.
        """
        return self.topic

    def key_of(self, tup: Tuple) -> str | bytes | None:
        """The key of a tuple's record.

        Args:
            tup: the tuple.

        Returns:
            The key; None: the record has no key.
        """
        return None if self.key is None else tup.text(self.key)

    def value_of(self, tup: Tuple) -> str | bytes | None:
        """The value of a tuple's record.

        Args:
            tup: the tuple.

        Returns:
            The value; None: the record is a tombstone.
        """
        value: str | bytes | None = tup.text(ALL if self.value is None else self.value)
        return value

    def prepare(self, context: Context) -> None:
        """See `RichBolt`."""
        from confluent_kafka import Producer

        own = {
            "bootstrap.servers": self.servers,
            "enable.idempotence": True,
            "linger.ms": 20,
            "message.timeout.ms": _PATIENCE_SECONDS * 1000,
        }
        if self.partitioner is not None:
            own["partitioner"] = self.partitioner
        self._producer = Producer({**own, **self.settings()})
        self._answers: list[tuple[Tuple, Any]] = []  # and what was wrong, None where nothing was

    def execute(self, tup: Tuple, collector: Collector) -> None:
        """See `RichBolt`. The tuple's record is sent."""
        topic = self.topic_of(tup)
        if topic is not None:
            self._send(topic, tup)
        if topic is None or self.fire_and_forget:
            collector.ack(tup)

    def finish_batch(self, collector: Collector) -> None:
        """See `RichBolt`. The bolt waits for the brokers' answers.

        Raises:
            ConnectionError: the brokers do not answer.
        """
        left = self._producer.flush(_PATIENCE_SECONDS + 5)
        if self.fire_and_forget:
            return
        if left or any(error is not None and error.name() in _UNANSWERED for _, error in self._answers):
            raise ConnectionError(self._silent())
        for tup, error in self._answers:
            if error is None:
                collector.ack(tup)
            else:
                collector.fail(tup, f"Kafka does not take it: {error.str()}")

    def _send(self, topic: str, tup: Tuple) -> None:
        from confluent_kafka import KafkaException

        answered = partial(self._answered, tup)
        deadline = time.monotonic() + _PATIENCE_SECONDS
        key, value = self.key_of(tup), self.value_of(tup)
        while True:
            try:
                self._producer.produce(topic, value, key, on_delivery=answered)
                break
            except BufferError:  # its queue is full
                if time.monotonic() > deadline:
                    raise ConnectionError(self._silent()) from None
                self._producer.poll(_POLL_SECONDS)
            except KafkaException as error:  # such as a record that is too large
                answered(error.args[0], None)
                break
        self._producer.poll(0)

    def _answered(self, tup: Tuple, error: Any, record: Any) -> None:
        self._answers.append((tup, error))

    def _silent(self) -> str:
        return (
            f"Kafka at {self.servers} gave no answer in {_PATIENCE_SECONDS} s: see that a broker runs there."
        )
