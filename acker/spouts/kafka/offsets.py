"""Records of Kafka at given offsets, read inside Spark's Python workers.

Spark's own source reads one span of each partition in a scan. Here a consumer goes from one offset to the
next, in all its partitions at once, and several do so side by side, since it takes longest to wait for a
broker. The module is pickled by value, so a worker needs PyArrow and confluent-kafka and not this project.
"""

import contextlib
import sys
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import groupby, islice
from operator import itemgetter
from queue import Full, Queue
from threading import Event
from typing import Any

import pyarrow as pa
from pyspark import cloudpickle

COLUMNS = (
    "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, "
    "headers array<struct<key:string,value:binary>>, missing string"
)
NEAR = 100  # offsets: to read so many records takes about as long as to ask for a further one
HOLE = "compacted away, of a transaction that was aborted, or without a value"

_ANSWER_SECONDS = 30.0
_LOOK_SECONDS = 0.1
_CONSUMERS = 4  # of a task
_FETCHED_BYTES = 17_000  # at once: a batch of most producers; more where one is larger
_ROWS = 50  # that are handed on at once; each consumer holds so many
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
_Place = tuple[str, int]  # topic and number of a partition
_Row = tuple[Any, ...]  # as in the schema

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # type: ignore[no-untyped-call]


def gone(earliest: object) -> str:
    """The reason why a record is missing that retention has deleted."""
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
    """Reads the records of Kafka at given places, as the function of a `mapInArrow`.

    A place is a row of `topic`, `partition`, `offset` and `earliest`, the first offset that is left there.
    For each place there is a row, as `COLUMNS` says. `missing` is the reason why a place has no record.

    Args:
        settings: settings of librdkafka: where the cluster is, and a login.
        committed: whether records of aborted transactions count as missing.
        tombstones: whether a record without a value counts as a record.
        headers: whether the headers of records are wanted.
    """

    settings: Mapping[str, str] = field(repr=False)
    committed: bool
    tombstones: bool
    headers: bool

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The rows for each batch of places.

        Several consumers read a batch, each a part of its places in their order. They are fastest where each
        part has places of many partitions.
        """
        consumers = [self._consumer() for _ in range(_CONSUMERS)]
        try:
            for batch in batches:
                places = list(zip(*(column.to_pylist() for column in batch.columns), strict=True))
                length = max(1, -(-len(places) // _CONSUMERS))
                parts = [places[first : first + length] for first in range(0, len(places), length)]
                readers = [self._rows(*each) for each in zip(consumers, parts, strict=False)]
                for some in _side_by_side(readers):
                    columns = zip(*some, strict=True)
                    arrays = [pa.array(each, kind) for each, kind in zip(columns, _SCHEMA.types, strict=True)]
                    yield pa.RecordBatch.from_arrays(arrays, schema=_SCHEMA)
        finally:
            for consumer in consumers:
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

    def _rows(self, consumer: Any, places: Sequence[tuple[str, int, int, int]]) -> Iterator[_Row]:
        walks: dict[_Place, _Walk] = {}
        for place, group in groupby(sorted(places), itemgetter(0, 1)):
            held = []
            for _, _, offset, earliest in group:
                if offset < earliest:
                    yield _missing(place, offset, gone(earliest))
                else:
                    held.append(offset)
            if held:
                walks[place] = _Walk(spans(held))
        for place, record in self._records(consumer, walks):
            walk = walks[place]
            is_there = record.error() is None and (self.tombstones or record.value() is not None)
            if is_there and walk.takes(record.offset()):
                yield self._row(record)
            for offset in walk.passed(self._after(record, walk.last)):
                yield _missing(place, offset, HOLE)

    def _records(self, consumer: Any, walks: Mapping[_Place, "_Walk"]) -> Iterator[tuple[_Place, Any]]:
        """The records along the walks, and the events which tell that a partition ends.

        Raises:
            TimeoutError: no record comes in time.
        """
        from confluent_kafka import TopicPartition

        under_way = {place: walk.first for place, walk in walks.items()}
        consumer.assign([TopicPartition(*place, first) for place, first in under_way.items()])
        deadline = time.monotonic() + _ANSWER_SECONDS
        while under_way:
            record = consumer.poll(_ANSWER_SECONDS)
            # What is of no partition is about the group, or about a broker that may come back.
            place = None if record is None else (record.topic(), record.partition())
            if place in under_way:
                yield place, record
                deadline = time.monotonic() + _ANSWER_SECONDS
                walk = walks[place]
                if walk.is_over:
                    del under_way[place]
                    consumer.incremental_unassign([TopicPartition(*place)])
                elif walk.first != under_way[place]:
                    under_way[place] = walk.first
                    consumer.seek(TopicPartition(*place, walk.first))
            elif time.monotonic() > deadline:
                first = min(under_way)
                said = f"no record {walks[first].first} came within {_ANSWER_SECONDS:.0f} s."
                raise TimeoutError(self._said(first, said))

    def _after(self, record: Any, last: int) -> int:
        """The offset after a record, or where the partition ends.

        Raises:
            RuntimeError: the broker refuses, or the partition ends before the offset `last`.
        """
        from confluent_kafka import KafkaError

        error, offset, place = record.error(), int(record.offset()), (record.topic(), record.partition())
        if error is None:
            return offset + 1
        if error.code() != KafkaError._PARTITION_EOF:
            raise RuntimeError(self._said(place, f"{error.str()} ({error.name()})."))
        if offset <= last:  # a new leader may know less for a moment, and then nothing is lost
            raise RuntimeError(self._said(place, f"it ends at offset {offset}, and {last} was there."))
        return offset

    def _said(self, place: _Place, what: str) -> str:
        servers, (topic, number) = self.settings["bootstrap.servers"], place
        return f"Kafka at {servers}, asked for partition {topic}-{number}: {what}"

    def _row(self, record: Any) -> _Row:
        place, offset = (record.topic(), record.partition()), record.offset()
        try:
            pairs = record.headers() if self.headers else None
        except SystemError:  # confluent-kafka's way to say it
            return _missing(place, offset, "of no use here: the name of a header is not UTF-8")
        headers = [{"key": key, "value": value} for key, value in pairs] if pairs else None
        return record.key(), record.value(), *place, offset, record.timestamp()[1] * 1_000, headers, None


def _side_by_side(readers: Sequence[Iterator[_Row]]) -> Iterator[list[_Row]]:
    """The rows of some readers, each of which goes on in a thread of its own while its rows are taken.

    Raises:
        Exception: the error that a reader raises.
    """
    found: Queue[list[_Row] | Exception | None] = Queue(1)
    is_over = Event()

    def hand_over(what: list[_Row] | Exception | None) -> None:
        while not is_over.is_set():
            with contextlib.suppress(Full):
                return found.put(what, timeout=_LOOK_SECONDS)

    def read(reader: Iterator[_Row]) -> None:
        try:
            while not is_over.is_set() and (some := list(islice(reader, _ROWS))):
                hand_over(some)
            hand_over(None)
        except Exception as error:
            hand_over(error)

    with ThreadPoolExecutor(max(1, len(readers))) as pool:
        try:
            for reader in readers:
                pool.submit(read, reader)
            left = len(readers)
            while left:
                some = found.get()
                if isinstance(some, Exception):
                    raise some
                if some is None:
                    left -= 1
                else:
                    yield some
        finally:
            is_over.set()  # else a reader would wait for room


def _missing(place: _Place, offset: int, reason: str) -> _Row:
    return None, None, *place, offset, None, None, reason


class _Walk:
    """The progress of a reader through the spans of a partition.

    Attributes:
        first, last: the first and the last offset of the span that is read now.
        is_over: whether all spans were read.
    """

    def __init__(self, spans: Sequence[list[int]]) -> None:
        self.is_over = False
        self._spans = deque(spans)
        self._begin()

    def takes(self, offset: int) -> bool:
        """Whether the record at an offset is wanted and was not taken before; now it counts as taken."""
        is_wanted = offset in self._left
        self._left.discard(offset)
        return is_wanted

    def passed(self, following: int) -> set[int]:
        """Go on to the next span if the present span ends before the offset `following`.

        Returns:
            The wanted offsets of the present span that had no record; none if the walk stays in the span.
        """
        if following <= self.last:
            return set()
        left = self._left
        if self._spans:
            self._begin()
        else:
            self.is_over = True
        return left

    def _begin(self) -> None:
        wanted = self._spans.popleft()
        self.first, self.last = wanted[0], wanted[-1]
        self._left = set(wanted)
