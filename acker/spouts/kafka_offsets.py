"""What runs inside Spark's Python workers: records of Kafka at given offsets, wherever these lie.

Spark's own source reads one span of each partition in a scan. Here a consumer goes from one offset to the
next. The module is pickled by value, so a worker needs PyArrow and confluent-kafka and not this project.
"""

import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby, islice
from operator import itemgetter
from typing import Any

import pyarrow as pa
from pyspark import cloudpickle

COLUMNS = (
    "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, "
    "headers array<struct<key:string,value:binary>>, missing string"
)
NEAR = 200  # offsets: to read so many records takes about as long as to ask for a further one
HOLE = "compacted away, of a transaction that was aborted, or without a value"

_ANSWER_SECONDS = 30.0
_FETCHED_BYTES = 100_000  # at once; more where a record is larger
_ROWS = 100  # that are taken and handed on at once
_SCHEMA = pa.schema(
    {
        "key": pa.binary(),
        "value": pa.binary(),
        "topic": pa.string(),
        "partition": pa.int32(),
        "offset": pa.int64(),
        "timestamp": pa.timestamp("us", "UTC"),
        "headers": pa.list_(pa.struct({"key": pa.string(), "value": pa.binary()})),
        "missing": pa.string(),
    }
)
_Row = tuple[Any, ...]  # as in the schema

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # type: ignore[no-untyped-call]


def gone(earliest: object) -> str:
    """Why a record is missing that retention has deleted."""
    return f"gone from the topic, whose partition begins at offset {earliest}"


def spans(offsets: Sequence[int]) -> list[list[int]]:
    """Sorted offsets in groups, each of which is read in one go."""
    found: list[list[int]] = []
    for offset in offsets:
        if found and offset - found[-1][-1] <= NEAR:
            found[-1].append(offset)
        else:
            found.append([offset])
    return found


@dataclass(frozen=True)
class OffsetReader:
    """Reads records at `topic`, `partition`, `offset`, with `earliest`, the first offset that is left there.

    It makes a row for each, as `COLUMNS` says. `missing` is why there is no record.

    Args:
        settings: of librdkafka: where the cluster is, and a login.
        committed: whether records of aborted transactions are missing.
        tombstones: whether a record without a value is there.
        headers: whether they are wanted.
    """

    settings: Mapping[str, str] = field(repr=False)
    committed: bool
    tombstones: bool
    headers: bool

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The rows for each batch of places; it is fastest where these are sorted."""
        consumer = self._consumer()
        try:
            for batch in batches:
                rows = self._rows(
                    consumer, zip(*(column.to_pylist() for column in batch.columns), strict=True)
                )
                while some := list(islice(rows, _ROWS)):
                    columns = zip(*some, strict=True)
                    arrays = [pa.array(each, kind) for each, kind in zip(columns, _SCHEMA.types, strict=True)]
                    yield pa.RecordBatch.from_arrays(arrays, schema=_SCHEMA)
        finally:
            consumer.close()

    def _consumer(self) -> Any:
        from confluent_kafka import Consumer  # what it is made of cannot be pickled

        return Consumer(
            {
                **self.settings,
                "group.id": "acker-look",  # which it does not join
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "auto.offset.reset": "error",
                "isolation.level": "read_committed" if self.committed else "read_uncommitted",
                # What is fetched ahead is thrown away where it goes on elsewhere.
                "fetch.message.max.bytes": _FETCHED_BYTES,
                "fetch.wait.max.ms": 10,
                "fetch.queue.backoff.ms": 1,
                "queued.min.messages": 1,
            }
        )

    def _rows(self, consumer: Any, places: Iterator[tuple[str, int, int, int]]) -> Iterator[_Row]:
        for (topic, number), group in groupby(places, itemgetter(0, 1)):
            held = []
            for _, _, offset, earliest in group:
                if offset < earliest:
                    yield _missing(topic, number, offset, gone(earliest))
                else:
                    held.append(offset)
            at = _Position(consumer, topic, number, self.settings["bootstrap.servers"])
            for wanted in spans(sorted(held)):
                left = set(wanted)
                for record in at.read(wanted[0], wanted[-1]):
                    if record.offset() in left and (self.tombstones or record.value() is not None):
                        left.discard(record.offset())
                        yield self._row(record)
                yield from (_missing(topic, number, offset, HOLE) for offset in left)

    def _row(self, record: Any) -> _Row:
        place = record.topic(), record.partition(), record.offset()
        try:
            pairs = record.headers() if self.headers else None
        except SystemError:  # confluent-kafka's way to say it
            return _missing(*place, "of no use here: the name of a header is not UTF-8")
        headers = [{"key": key, "value": value} for key, value in pairs] if pairs else None
        return record.key(), record.value(), *place, record.timestamp()[1] * 1_000, headers, None


def _missing(topic: str, number: int, offset: int, reason: str) -> _Row:
    return None, None, topic, number, offset, None, None, reason


class _Position:
    """Where a consumer is in a partition."""

    def __init__(self, consumer: Any, topic: str, number: int, servers: str) -> None:
        self.consumer = consumer
        self.topic = topic
        self.number = number
        self.servers = servers
        self.is_assigned = False

    def read(self, first: int, last: int) -> Iterator[Any]:
        """The records from the first offset to the last one, and perhaps further ones.

        Raises:
            TimeoutError: none comes.
            RuntimeError: the broker refuses, or does not have so many.
        """
        self._go_to(first)
        place = self.topic, self.number
        following = first
        deadline = time.monotonic() + _ANSWER_SECONDS
        while following <= last:
            ready = self.consumer.consume(min(last - following + 1, _ROWS), 0)
            for record in ready or [self.consumer.poll(_ANSWER_SECONDS)]:
                # What is of no partition is about the group, or about a broker that may come back.
                if record is not None and (record.topic(), record.partition()) == place:
                    following = self._after(record, last)
                    deadline = time.monotonic() + _ANSWER_SECONDS
                    if record.error() is None:
                        yield record
            if time.monotonic() > deadline:
                raise TimeoutError(self._said(f"no record {following} came within {_ANSWER_SECONDS:.0f} s."))

    def _go_to(self, offset: int) -> None:
        from confluent_kafka import TopicPartition

        place = TopicPartition(self.topic, self.number, offset)
        if self.is_assigned:
            self.consumer.seek(place)
        else:
            self.consumer.assign([place])
            self.is_assigned = True

    def _after(self, record: Any, last: int) -> int:
        """The offset after a record, or where the partition ends."""
        from confluent_kafka import KafkaError

        error, offset = record.error(), int(record.offset())
        if error is None:
            return offset + 1
        if error.code() != KafkaError._PARTITION_EOF:
            raise RuntimeError(self._said(f"{error.str()} ({error.name()})."))
        if offset <= last:  # a new leader may know less for a moment, and then nothing is lost
            raise RuntimeError(self._said(f"it ends at offset {offset}, and {last} was there."))
        return offset

    def _said(self, what: str) -> str:
        return f"Kafka at {self.servers}, asked for partition {self.topic}-{self.number}: {what}"
