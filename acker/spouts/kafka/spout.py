"""Kafka topics as a spout. A message is a record. Position = partition and offset."""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

import polars as pl
import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from acker.core.arguments import checked
from acker.core.errors import SourceError
from acker.core.events import Kind
from acker.kafka import groups
from acker.kafka.cluster import Cluster, Partition, Topic
from acker.kafka.connections import connection
from acker.kafka.java import java_options
from acker.spark.trees import union_of
from acker.spouts.base import Backlog, History, Range, TellsColumns
from acker.spouts.kafka.offsets import COLUMNS, OffsetReader, gone
from acker.spouts.kafka.schemes import Scheme, Text

Spans = Mapping[Partition, tuple[int, int]]  # [first, end) of offsets


def spans_of(planned: Mapping[str, Any]) -> dict[Partition, tuple[int, int]]:
    """The span of each partition in a planned range."""
    return {Partition.parse(name): (first, end) for name, (first, end) in planned["offsets"].items()}


def by_topic(values: Mapping[Partition, Any], as_list: bool = False) -> str:
    """JSON as Spark's source for Kafka takes it: topic -> partition -> value; as a list, topic -> values."""
    found: dict[str, dict[str, Any]] = {}
    for partition, value in values.items():
        found.setdefault(partition.topic, {})[str(partition.number)] = value
    return json.dumps({name: list(each.values()) for name, each in found.items()} if as_list else found)


def shares(waiting: Mapping[Partition, int], limit: int, most: int | None) -> dict[Partition, int]:
    """How many offsets of each partition a batch takes: equal shares, as far as each partition has so many.

    Args:
        waiting: partition -> the number of offsets that are left to read.
        limit: the most offsets of the batch.
        most: the most offsets of one partition; None: no limit.
    """
    found = {}
    room = limit
    order = sorted(waiting, key=lambda partition: (waiting[partition], partition))
    for place, partition in enumerate(order):
        fair = -(-room // (len(order) - place))  # rounded up: a small limit must not stop the last ones
        found[partition] = min(waiting[partition], fair, room, most if most is not None else room)
        room -= found[partition]
    return found


METADATA = (
    "topic string, partition int, offset bigint, timestamp timestamp, key binary, headers map<string,binary>"
)
ANEW = "Give the spout another name, under which it begins anew."
POLL_SECONDS = 30  # for a broker that does not answer while records are read

Start = Literal["earliest", "latest"] | datetime | Mapping[str, int]


@checked
@dataclass(frozen=True)
class KafkaSpout:
    """Records of Kafka topics.

    A record without a value (a tombstone) is passed over, unless `tombstones` is set.

    Args:
        servers: the addresses of any brokers of the cluster, as "host:port,host:port"; empty where a
            connection tells them.
        topics: the names of the topics; or leave them out and give a pattern.
        pattern: a regular expression for whole names. Topics are looked up at each plan.
        scheme: the scheme that makes a message of a record; by default its value as text.
        schemes: topic -> a scheme of its own.
        metadata: whether a message also has topic, partition, offset, timestamp, key and headers.
        tombstones: whether a record without a value is a message with nulls.
        start: where a new spout begins: the earliest or latest offset, the first record of a time or later,
            or an offset for each partition ("orders-0": 512). Partitions that come later are read from
            their beginning.
        restart: any text. A spout whose text is another than before goes on at `start`, but reads no record
            again that it has read.
        out_of_range: where the next offset is gone, "error" stops the spout with a SourceError, and
            "earliest" goes on at the earliest offset.
        max_behind: the most offsets that the spout may lie behind a partition's end; older records are left
            out.
        partition_rows: the most offsets of one partition that a batch takes.
        committed: whether records of aborted and open transactions are left out.
        group: a consumer group without members, to which each fold commits how far all messages are
            settled, so that monitors of lag see it. Nothing is read from the group.
        connection: the name of an Airflow connection of type `kafka` with librdkafka's configuration in its
            extra, which holds the secrets.

    Raises:
        SourceError: the arguments do not fit together.
    """

    servers: str = ""
    topics: tuple[str, ...] | str = ()
    pattern: str | None = None
    scheme: Scheme = field(default_factory=Text)
    schemes: Mapping[str, Scheme] = field(default_factory=dict)
    metadata: bool = False
    tombstones: bool = False
    start: Start = "earliest"
    restart: str = ""
    out_of_range: Literal["error", "earliest"] = "error"
    max_behind: int | None = None
    partition_rows: int | None = None
    committed: bool = True
    group: str | None = None
    connection: str | None = None

    def __post_init__(self) -> None:
        if bool(self.servers) == (self.connection is not None):
            raise SourceError("KafkaSpout needs servers or a connection, and not both.")
        if bool(self.topics) == bool(self.pattern):
            raise SourceError("KafkaSpout needs topics or a pattern, and not both.")
        if isinstance(self.start, datetime) and self.start.tzinfo is None:
            raise SourceError(f"The start {self.start} has no time zone: give one, such as datetime.UTC.")
        for name in ("max_behind", "partition_rows"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise SourceError(f"{name} is {value}: give 1 or more, or leave it out.")

    def message_schema(self, spark: SparkSession) -> StructType:
        """See `Spout`."""
        none = self._messages(self._scan(spark, {}).where)
        return none.drop("_source_partition", "_source_offset", "_kind", "_error").schema

    def message_columns(self) -> dict[str, str]:
        """See `TellsColumns`."""
        return (
            self.scheme.message_columns()
            if isinstance(self.scheme, TellsColumns) and not self.schemes
            else {}
        )

    def next_range(self, spark: SparkSession, history: History, limit: int) -> Range | None:
        """See `Spout`. A range has (first, end) offsets of every partition, and the ids of their topics."""
        topics = self._topics()
        if not topics:
            return None
        position, skipped = self._position(topics, history.newest)
        ends = self._ends(position)
        self._check_order(position, ends)
        if self.max_behind is not None:
            for partition, end in ends.items():
                behind = max(position[partition], end - self.max_behind)
                skipped[partition] = skipped.get(partition, 0) + behind - position[partition]
                position[partition] = behind
        waiting = {partition: ends[partition] - first for partition, first in position.items()}
        taken = shares(waiting, limit, self.partition_rows)
        new = history.newest is None or history.newest["restart"] != self.restart
        if not any(taken.values()) and not new:
            return None
        offsets = {str(p): [first, first + taken[p]] for p, first in position.items()}
        ids = {name: topic.id for name, topic in topics.items()}
        if history.newest is not None:  # what is not there now may come back
            ids = history.newest["topics"] | ids
            offsets = {p: [end, end] for p, (_, end) in history.newest["offsets"].items()} | offsets
        return {
            "topics": ids,
            "restart": self.restart,
            "offsets": offsets,
            "skipped": {str(p): count for p, count in sorted(skipped.items()) if count},
        }

    def read_range(self, spark: SparkSession, planned: Range) -> DataFrame:
        """See `Spout`."""
        spans = {p: span for p, span in spans_of(planned).items() if span[1] > span[0]}
        self._check_topics(spans, planned)
        earliest = self._cluster.earliest(spans)
        held = {p: (max(first, earliest[p]), end) for p, (first, end) in spans.items() if end > earliest[p]}
        rows = self._messages(self._scan(spark, held).where)
        before = [
            (str(p), first, min(end, earliest[p]), gone(earliest[p]))
            for p, (first, end) in spans.items()
            if first < earliest[p]
        ]
        if not before:
            return rows
        schema = "_source_partition string, _first bigint, _end bigint, _error string"
        lost = spark.createDataFrame(before, schema).select(
            "_source_partition",
            F.explode(F.sequence("_first", F.col("_end") - 1)).alias("_source_offset"),
            F.lit(Kind.LOST.value).alias("_kind"),
            "_error",
        )
        return rows.unionByName(lost, allowMissingColumns=True)

    def ends(self, planned: Range) -> dict[str, int]:
        """See `Spout`."""
        return {str(p): end for p, (_, end) in spans_of(planned).items()}

    def read_positions(self, spark: SparkSession, positions: pa.Table, history: History) -> DataFrame:
        """See `Spout`. Messages that are gone come back as `lost`, with the reason."""
        wanted = pl.DataFrame(positions).select(name="source_partition", offset="source_offset").unique()
        partitions = [Partition.parse(name) for name in wanted["name"].unique().sort()]
        self._check_topics(partitions, history.newest)
        earliest = self._cluster.earliest(partitions)
        places = pl.DataFrame(
            [(str(partition), *partition, first) for partition, first in earliest.items()],
            {"name": pl.String, "topic": pl.String, "partition": pl.Int32, "earliest": pl.Int64},
            orient="row",
        )
        asked = wanted.join(places, on="name").sort("topic", "partition", "offset")
        # Spark hands each task a stretch of these rows: one of each partition, which are read side by side.
        rank = pl.int_range(pl.len()).over("name") / pl.len().over("name")
        asked = asked.sort(rank, maintain_order=True)
        rows = spark.createDataFrame(asked.select("topic", "partition", "offset", "earliest").to_arrow())
        reader = OffsetReader(self._settings(), self.committed, self.tombstones, self.metadata)
        return self._messages(lambda mine: rows.where(mine).mapInArrow(reader, COLUMNS))

    def backlog(self, history: History) -> Backlog:
        """See `HasBacklog`. It counts offsets, of which there are at least as many as records."""
        topics = self._topics()
        position, skipped = self._position(topics, history.newest)
        ends = self._ends(position)
        waiting = {partition: first for partition, first in position.items() if ends[partition] > first}
        unread = sum(ends[partition] - first for partition, first in waiting.items())
        for planned in history.every():
            for partition, count in planned["skipped"].items():
                skipped[Partition.parse(partition)] = skipped.get(Partition.parse(partition), 0) + count
        left_out = {"gone or too far behind before they were read": sum(skipped.values())}
        return Backlog(
            {"offsets": unread} if unread else {},
            self._cluster.oldest(waiting, self.committed) if waiting else None,
            left_out={why: count for why, count in left_out.items() if count},
            ends={str(partition): end for partition, end in ends.items()},
        )

    def gone_of(self, positions: pa.Table, history: History) -> dict[str, int]:
        """See `TellsGone`. It knows what retention has deleted, and not what was compacted away."""
        wanted = pl.DataFrame(positions).select(name="source_partition", offset="source_offset")
        partitions = [Partition.parse(name) for name in wanted["name"].unique().sort()]
        self._check_topics(partitions, history.newest)
        earliest = {str(p): first for p, first in self._cluster.earliest(partitions).items()}
        first = pl.col("name").replace_strict(earliest, return_dtype=pl.Int64)
        lost = wanted.filter(pl.col("offset") < first).group_by("name").len()
        return {f"{name}: {gone(earliest[name])}": count for name, count in sorted(lost.iter_rows())}

    @property
    def commits(self) -> bool:
        """See `Committing`."""
        return self.group is not None

    def commit(self, offsets: Mapping[str, int]) -> None:
        """See `Committing`."""
        if self.group is not None:
            parsed = {Partition.parse(name): offset for name, offset in offsets.items()}
            groups.commit(self._cluster, self.group, parsed)

    @property
    def _cluster(self) -> Cluster:
        settings = self._settings()
        return Cluster(settings["bootstrap.servers"], settings)

    def _settings(self) -> dict[str, str]:
        return {"bootstrap.servers": self.servers} if self.connection is None else connection(self.connection)

    def _topics(self) -> dict[str, Topic]:
        """The topics that are there now.

        Raises:
            SourceError: a topic that was named is not there, or the cluster does not answer.
        """
        names = (self.topics,) if isinstance(self.topics, str) else self.topics
        return self._cluster.topics(self._cluster.names(self.pattern) if self.pattern else names)

    def _position(
        self, topics: Mapping[str, Topic], newest: Range | None
    ) -> tuple[dict[Partition, int], dict[Partition, int]]:
        """The next offset of each partition, and how many offsets the spout skips before it.

        Raises:
            SourceError: a topic was made anew, or a next offset is gone.
        """
        stored = {p: end for p, (_, end) in spans_of(newest).items()} if newest else {}
        self._check_same(topics, newest)
        partitions = [Partition(topic.name, n) for topic in topics.values() for n in range(topic.partitions)]
        vanished = [p for p in stored if p.topic in topics and p not in partitions]
        if vanished:
            raise SourceError(f"The partition {vanished[0]} is not there any more. {ANEW}")
        earliest = self._cluster.earliest(partitions)
        begins = newest is None or newest["restart"] != self.restart
        starts = self._starts(partitions, earliest) if begins else {}
        found, skipped = {}, {}
        for partition in partitions:
            first = earliest[partition]
            if partition not in stored:
                found[partition] = max(starts.get(partition, first), first)
                continue
            found[partition] = max(stored[partition], starts.get(partition, 0))
            if found[partition] < first:
                self._check_gone(partition, stored[partition], first)
                found[partition] = first
            skipped[partition] = found[partition] - stored[partition]
        return found, skipped

    def _check_gone(self, partition: Partition, following: int, earliest: int) -> None:
        if self.out_of_range == "error":
            raise SourceError(
                f"{partition} begins at offset {earliest} now, and {following} would be next: what lies "
                'between is gone unread. Say out_of_range="earliest" to go on there; `acker status` counts '
                "what is gone."
            )

    def _starts(
        self, partitions: Iterable[Partition], earliest: Mapping[Partition, int]
    ) -> Mapping[Partition, int]:
        """Where a new spout begins in each partition."""
        if self.start == "earliest":
            return earliest
        if self.start == "latest":
            return self._ends(partitions)
        if isinstance(self.start, datetime):
            since = self._cluster.since(partitions, self.start)
            ends = self._ends(partitions)
            return {p: ends[p] if offset is None else offset for p, offset in since.items()}
        assert not isinstance(self.start, str)
        unknown = set(self.start) - {str(partition) for partition in partitions}
        if unknown:
            there = ", ".join(map(str, partitions))
            raise SourceError(f"start names {min(unknown)}, which is no partition of the topics: {there}.")
        return {Partition.parse(name): offset for name, offset in self.start.items()}

    def _ends(self, partitions: Iterable[Partition]) -> dict[Partition, int]:
        return self._cluster.ends(partitions, self.committed)

    def _check_order(self, position: Mapping[Partition, int], ends: Mapping[Partition, int]) -> None:
        for partition, first in position.items():
            if first > ends[partition]:
                raise SourceError(
                    f"{partition} ends at offset {ends[partition]}, and {first} would be next: records "
                    f"that were read are gone from its end. {ANEW}"
                )

    def _check_same(self, topics: Mapping[str, Topic], newest: Range | None) -> None:
        for name, topic in topics.items():
            if newest and newest["topics"].get(name, topic.id) != topic.id:
                raise SourceError(
                    f"The topic {name} was deleted and made anew: its offsets begin again, and would be "
                    f"taken for those of the former one. {ANEW}"
                )

    def _check_topics(self, partitions: Iterable[Partition], planned: Range | None) -> None:
        """Refuse to read from topics that were made anew since they were planned."""
        self._check_same(self._cluster.topics({partition.topic for partition in partitions}), planned)

    def _messages(self, records: Callable[[Column], DataFrame]) -> DataFrame:
        """Records as messages.

        Args:
            records: the function that gives the records for which a condition on `topic` holds.
        """
        frames = [
            self._parsed(records(F.col("topic") == topic), scheme) for topic, scheme in self.schemes.items()
        ]
        if self.pattern or not set(self._named()) <= set(self.schemes):
            others = records(~F.col("topic").isin(list(self.schemes)))
            frames.append(self._parsed(others, self.scheme))
        return union_of(frames, fills=True)

    def _named(self) -> tuple[str, ...]:
        return (self.topics,) if isinstance(self.topics, str) else self.topics

    def _parsed(self, records: DataFrame, scheme: Scheme) -> DataFrame:
        needed = ["topic", "partition", "offset", "missing", "key", "value"]
        made = scheme.parsed(records if self.metadata else records.select(needed))
        return made.select(
            F.concat_ws("-", "topic", "partition").alias("_source_partition"),
            F.col("offset").alias("_source_offset"),
            F.when(F.col("missing").isNotNull(), Kind.LOST.value)
            .when(F.col("_why").isNotNull(), Kind.REJECT.value)
            .alias("_kind"),
            F.coalesce("missing", "_why").alias("_error"),
            "_fields.*",
            *(_metadata() if self.metadata else ()),
        )

    def _scan(self, spark: SparkSession, spans: Spans) -> DataFrame:
        """The records of some spans, as `COLUMNS` says; an empty frame where there are none."""
        if not spans:
            return spark.createDataFrame([], COLUMNS)
        reader = spark.read.format("kafka").options(
            **{
                **{f"kafka.{name}": value for name, value in java_options(self._settings()).items()},
                "kafka.isolation.level": "read_committed" if self.committed else "read_uncommitted",
                "assign": by_topic({p: p.number for p in spans}, as_list=True),
                "startingOffsets": by_topic({p: first for p, (first, _) in spans.items()}),
                "endingOffsets": by_topic({p: end for p, (_, end) in spans.items()}),
                "failOnDataLoss": "true",
                "includeHeaders": str(self.metadata).lower(),
                "kafkaConsumer.pollTimeoutMs": str(POLL_SECONDS * 1000),
            }
        )
        records = reader.load().withColumn("missing", F.lit(None).cast("string"))
        return records if self.tombstones else records.where(F.col("value").isNotNull())


def _metadata() -> list[Column]:
    pairs = F.coalesce(F.col("headers"), F.array().cast("array<struct<key:string,value:binary>>"))
    # Of headers with one name the last counts, as in most of Kafka's tools.
    last = F.aggregate(
        pairs,
        F.create_map().cast("map<string,binary>"),
        lambda known, each: F.map_concat(
            F.map_filter(known, lambda key, _: key != each["key"]), F.create_map(each["key"], each["value"])
        ),
    )
    return [
        *(F.col(name) for name in ("topic", "partition", "offset", "timestamp", "key")),
        last.alias("headers"),
    ]
