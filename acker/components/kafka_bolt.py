"""A rich bolt that sends its tuples to Kafka topics before they are acked, as Storm's KafkaBolt does.

The module is pickled by value, so a worker needs confluent-kafka and not this project.
"""

import json
import sys
import time
from collections.abc import Mapping
from functools import partial
from typing import Any, ClassVar

from pyspark import cloudpickle
from pyspark.sql import Row

from acker.components.collector import Collector, Context, RichBolt, Tuple

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # type: ignore[no-untyped-call]

_PATIENCE_SECONDS = 30
_POLL_SECONDS = 0.1
_UNANSWERED = ("_MSG_TIMED_OUT", "_TRANSPORT", "_ALL_BROKERS_DOWN", "_TIMED_OUT")


class KafkaBolt(RichBolt):
    """Base of bolts that send each tuple to a topic, at least once, and ack it when the brokers have it.

    A subclass says where, by its attributes or by its methods. It runs in Spark's workers, which must reach
    the brokers. What must not be there twice is published to a `KafkaTarget` instead, after the ack.

    Attributes:
        servers: of any brokers of the cluster, as "host:port,host:port".
        topic: where all records go.
        key: the column that a record is keyed by.
        value: the column that is its value; by default all of them, as a JSON object.
        fire_and_forget: ack without waiting for the brokers.
    """

    servers: ClassVar[str] = ""
    topic: ClassVar[str | None] = None
    key: ClassVar[str | None] = None
    value: ClassVar[str | None] = None
    fire_and_forget: ClassVar[bool] = False

    def settings(self) -> Mapping[str, Any]:
        """Further settings of librdkafka, such as a login. It is called in the worker."""
        return {}

    def topic_of(self, tup: Tuple) -> str | None:
        """The topic of a tuple; None: it is acked and not sent."""
        return self.topic

    def key_of(self, tup: Tuple) -> str | bytes | None:
        """The key of a tuple's record."""
        return None if self.key is None else _as_text(tup[self.key])

    def value_of(self, tup: Tuple) -> str | bytes | None:
        """The value of a tuple's record; None is a tombstone."""
        if self.value is not None:
            return _as_text(tup[self.value])
        return json.dumps(Row.asDict(tup._values, recursive=True), default=str, ensure_ascii=False)

    def prepare(self, context: Context) -> None:
        """See `RichBolt`."""
        from confluent_kafka import Producer

        own = {
            "bootstrap.servers": self.servers,
            "enable.idempotence": True,
            "linger.ms": 20,
            "message.timeout.ms": _PATIENCE_SECONDS * 1000,
        }
        self._producer = Producer({**own, **self.settings()})
        self._answers: list[tuple[Tuple, Any]] = []  # and what was wrong, None where nothing was

    def execute(self, tup: Tuple, collector: Collector) -> None:
        """See `RichBolt`. Sends the tuple."""
        topic = self.topic_of(tup)
        if topic is not None:
            self._send(topic, tup)
        if topic is None or self.fire_and_forget:
            collector.ack(tup)

    def finish_batch(self, collector: Collector) -> None:
        """See `RichBolt`. Waits for the brokers' answers.

        Raises:
            ConnectionError: they do not answer.
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


def _as_text(value: Any) -> str | bytes | None:
    return value if value is None or isinstance(value, bytes) else str(value)
