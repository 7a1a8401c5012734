"""Kafka topics to which the tuples of acked messages are sent, one record each."""

import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import ClassVar

import polars as pl
from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from acker.core.arguments import checked
from acker.core.errors import StoreError, TopologyError
from acker.core.quoting import sql_name
from acker.core.store.identity import identity_of
from acker.core.stream_names import component_of
from acker.kafka.cluster import Cluster
from acker.kafka.connections import connection
from acker.kafka.markers import MARKERS, Marker, app_of, create_markers, name_of, read_markers
from acker.kafka.sending import Fenced, Part, Record, Sender, check_partitioner
from acker.kafka.sent import Sent
from acker.spark.texts import as_json
from acker.targets.audit import KINDS, audit_sent
from acker.targets.base import Changes, Evidence, Findings, Note, Publisher, Target, Verdict
from acker.targets.refusing import told_by_rules
from acker.targets.rules import failing, is_known
from acker.targets.topics import Topics

PART_ROWS = 1_000_000  # of one transaction, for brokers limit how long one may take
_FRAME_BYTES = 500  # of a record or batch beside key, value and headers
_WAIT_SECONDS = 60.0  # for another client that publishes the same fold
_POLL_SECONDS = 0.2
_NESTED = ("struct", "array", "map")
_LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)


@checked
@dataclass(frozen=True)
class KafkaTarget(Target):
    """Kafka topics that get one record for each tuple. A reader of committed records sees each fold once.

    `key`, `value` and `topic_by` are SQL expressions over the columns of the stream, such as a column's name.

    Args:
        servers: addresses of any brokers of the cluster, as "host:port,host:port"; empty where `connection`
            has them.
        topic: the topic to which all records go.
        topic_by: the name of each record's topic, in place of `topic`. A tuple with null as
            the name is not sent.
        key: the key of each record; by default a record has no key.
        value: the value of each record; by default all columns as a JSON object. A null is a tombstone.
        connection: the name of an Airflow connection of type `kafka`, as for a KafkaSpout.
        exactly_once: whether records are sent in transactions. Without them, a fold's records may be there
            twice after a failure.
        partitioner: librdkafka's name of the way in which a key chooses its partition, by default that of
            librdkafka itself. `murmur2_random` is the way of Java's producers, Storm's among them.

    Attributes:
        only_adds: see `Target`; True.
        takes_several: see `Target`; True.

    Raises:
        TopologyError: `servers` and `connection`, or `topic` and `topic_by`, are both given or both missing;
            or librdkafka does not have the partitioner.
    """

    servers: str = ""
    topic: str | None = None
    topic_by: str | None = None
    key: str | None = None
    value: str | None = None
    connection: str | None = None
    exactly_once: bool = True
    partitioner: str | None = None
    _pin: dict[str, list[Marker]] | None = field(default=None, kw_only=True, repr=False, compare=False)

    only_adds: ClassVar[bool] = True
    takes_several: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if bool(self.servers) == (self.connection is not None):
            raise TopologyError("KafkaTarget needs servers or a connection, and not both.")
        if bool(self.topic) == bool(self.topic_by):
            raise TopologyError("KafkaTarget needs a topic or topic_by, and not both.")
        check_partitioner("KafkaTarget", self.partitioner)

    @property
    def uri(self) -> str:
        """See `Target`."""
        return f"kafka://{self.connection or self.servers}/{self._destination}"

    @property
    def _destination(self) -> str:
        return self.topic or f"({self.topic_by})"

    def pinned(self) -> "KafkaTarget":
        """See `Target`. The markers of each publisher are read once."""
        return replace(self, _pin={})

    def position(self, app: str) -> int:
        """See `Target`."""
        markers = self._markers(app)
        return markers[-1].upto if markers else 0

    def published_at(self, publisher: Publisher, fold: int) -> datetime | None:
        """See `Target`. Compaction leaves only the newest marker of a publisher."""
        times = [
            marker.at
            for marker in self._markers(publisher.app)
            if marker.fold == fold and marker.upto == fold
        ]
        return times[0] if times else None

    def target_id(self) -> str | None:
        """See `Target`. The id of the cluster, with that of the topic where all records go to one."""
        cluster = self._cluster
        if self.topic is None:
            return cluster.id()
        found = cluster.find(self.topic)
        return None if found is None else f"{cluster.id()}/{found.id}"

    def notes(self, stream: str | None = None) -> Iterator[Note]:
        """See `Target`. Only the newest note of each publisher is there."""
        names = self._cluster.names(rf"{MARKERS}.*{'' if stream is None else re.escape(f'-{stream}')}")
        newest = {app_of(name): markers[-1] for name in names if (markers := self._markers(app_of(name)))}
        notes = [
            Note(app, each.upto, each.at or _LONG_AGO, each.store, each.shared)
            for app, each in newest.items()
        ]
        return iter(sorted(notes, key=lambda note: note.at, reverse=True))

    def fallen(self, publisher: Publisher) -> str:
        """See `Target`. The position of a publisher is in its markers."""
        return (
            f"the topic {name_of(publisher.app)}, which keeps how far a publisher is, was deleted or emptied"
        )

    def violations(
        self, spark: SparkSession, stream: str, rows: DataFrame, columns: Sequence[str]
    ) -> DataFrame:
        """See `Target`. A topic refuses a record that is too large, or that has no key where it is compacted.

        With `topic_by`, a record whose topic is not there is refused as well.

        Raises:
            TopologyError: an expression does not fit the stream's columns, or makes no text or bytes.
            SourceError: the cluster does not answer, or `topic` is not there.
        """
        topic, key, value = self._record(stream, rows, columns)
        return failing(rows, stream, self._refusal(topic, key, _bytes(key) + _bytes(value)))

    def key_violations(self, stream: str, rows: DataFrame, keys: Sequence[str]) -> DataFrame:
        """Find the rows of a component that would be refused as records of an aggregate, by its key alone.

        Args:
            stream: the stream that is published; rows of others stay as they are.
            rows: the rows of the component.
            keys: the columns of the aggregate's key.

        Returns:
            All rows. Those that a topic would refuse are failures of their messages (`_kind`, `_error`).

        Raises:
            SourceError: the cluster does not answer, or the topic is not there.
        """
        named = rows.select(*map(sql_name, keys))
        if self.topic_by is not None and not is_known(named, self.topic_by):
            return rows
        topic = F.lit(self.topic) if self.topic else F.expr(str(self.topic_by))
        key = F.expr(str(self.key)) if is_known(named, str(self.key)) else F.lit("")
        value = as_json(named.schema.fields) if self.value is None else F.lit("")
        return failing(rows, stream, self._refusal(topic, key, _bytes(key) + _bytes(value)))

    def _refusal(self, topic: Column, key: Column, size: Column) -> Column:
        """Why a topic would not take a record; null where it would take it, or where nothing is sent."""
        rules = self._cluster.rules(self._topics())
        limit = _looked_up({name: each.most_bytes for name, each in rules.items()}, topic)
        compacted = _looked_up({name: 1 for name, each in rules.items() if each.is_compacted}, topic)
        size = size + _FRAME_BYTES
        return F.when(
            topic.isNotNull(),
            F.when(limit.isNull(), F.format_string("there is no topic %s", topic))
            .when(
                key.isNull() & compacted.isNotNull(),
                F.format_string("topic %s is compacted by key, and the record has none", topic),
            )
            .when(
                size > limit,
                F.format_string("topic %s takes %d bytes at most, and the record has %d", topic, limit, size),
            ),
        )

    def apply(self, spark: SparkSession, changes: Changes) -> None:
        """See `Target`."""
        columns = [column for column in changes.added.columns if column != "_root_id"]
        records = self.records(changes.publisher.stream, changes.added, columns)
        message = F.concat_ws(":", "spout", "source_partition", F.col("source_offset").cast("string"))
        headers = changes.messages.select(
            "_root_id", message.alias("message"), F.col("attempt").cast("string").alias("attempt")
        )
        self.send(records.join(headers, "_root_id", "left").drop("_root_id"), changes)

    def records(self, stream: str, rows: DataFrame, columns: Sequence[str]) -> DataFrame:
        """Make the record of each row.

        Args:
            stream: the stream's name, for errors.
            rows: the rows.
            columns: the columns of the rows that make the value where no `value` is given.

        Returns:
            Columns topic (string), key and value (binary), and those of the rows that are not in `columns`.

        Raises:
            TopologyError: an expression does not fit the stream's columns, or makes no text or bytes.
        """
        topic, key, value = self._record(stream, rows, columns)
        return rows.select(
            *(column for column in rows.columns if column not in columns),
            topic.alias("topic"),
            key.cast("binary").alias("key"),
            value.cast("binary").alias("value"),
        )

    def send(self, records: DataFrame, changes: Changes) -> None:
        """Send the records of a fold, unless they are sent already.

        Args:
            records: columns topic (string, null where a row is not sent), key and value (binary), message
                and attempt (string, null where there is none).
            changes: the fold to which the records belong.

        Raises:
            SourceError: the cluster does not take the records.
            StoreError: another client has begun to send the fold, and did not end in time.
        """
        name = name_of(changes.publisher.app)
        create_markers(self._cluster, name)
        try:
            sender = Sender(self._cluster, name, self.limits(), self.exactly_once, self.partitioner)
            self._send_parts(sender, name, records, changes)
        except Fenced as error:
            self._await(changes, error)

    def _send_parts(self, sender: Sender, name: str, records: DataFrame, changes: Changes) -> None:
        fold = changes.fold
        markers = read_markers(self._cluster, name, self._destination)  # now that nobody else writes any
        marker = markers[-1] if markers else self._begun(changes)
        if marker.upto >= fold:
            return
        if marker.fold != fold:
            parts = max(1, -(-records.count() // PART_ROWS))
            marker = Marker(fold, 0, parts, marker.tuples_upto, 0, sent=marker.sent)
        marker = replace(marker, store=changes.publisher.where, shared=changes.is_shared)
        share = F.pmod(F.xxhash64(*records.columns), F.lit(marker.parts))
        while marker.part < marker.parts:
            mine = records if marker.parts == 1 else records.where(share == marker.part)
            marker = self._send_part(sender, name, mine, marker)

    def _begun(self, changes: Changes) -> Marker:
        """The marker from which a publisher goes on that has no marker of its own yet.

        If a former publisher has begun the fold, its newest marker counts. Else a marker before the first
        fold is made.
        """
        former = [each.app for each, newest in changes.publisher.former if changes.fold <= newest]
        found = [markers[-1] for app in former if (markers := self._markers(app))]
        begun = [replace(each, before=0) for each in found if each.fold >= changes.fold]
        first = Marker(0, 1, 1, changes.publisher.store.tuples, 0)
        marker = max(begun, key=lambda each: (each.fold, each.part), default=first)
        return replace(marker, sent=Sent(marker.taken_in))  # what came before, somebody else has sent

    def _send_part(self, sender: Sender, name: str, records: DataFrame, before: Marker) -> Marker:
        """Send the part that follows a marker. Returns the marker of the part."""

        def after(part: Part) -> Marker:
            tuples = before.tuples + part.count
            sent = before.sent.after(before.before + tuples, part.unsent, part.places)
            return replace(before, part=before.part + 1, tuples=tuples, at=None, sent=sent)

        def marks_of(part: Part) -> Iterator[Record]:
            marker = after(part)
            for key, value in marker.sent.to_records(self._destination, part.places).items():
                yield Record(name, key, value)
            yield Record(name, self._destination.encode(), marker.to_bytes())

        return after(sender.send(_each(records), marks_of))

    def _await(self, changes: Changes, fenced: Fenced) -> None:
        """Wait until another client has sent a fold.

        Args:
            fenced: the error by which the other client has ended this one's sending.

        Raises:
            StoreError: the other client has not sent the fold in time.
        """
        deadline = time.monotonic() + _WAIT_SECONDS
        while self.position(changes.publisher.app) < changes.fold:
            if time.monotonic() > deadline:
                raise StoreError(
                    f"Another client publishes {changes.publisher.stream} to {self.uri}, and fold "
                    f"{changes.fold} is not there yet; publish again.",
                    component=component_of(changes.publisher.stream),
                ) from fenced
            time.sleep(_POLL_SECONDS)

    def audit(self, evidence: Evidence) -> Verdict:
        """See `Target`. The tuples taken in are compared by number with the acked ones, of all attempts."""
        newest = self._newest(evidence)
        counts = (each.store.tuples if marker is None else marker.tuples_upto for each, marker in newest)
        verdict = audit_sent(evidence, self.uri, sum(counts))
        findings, why = self.audit_records(evidence)
        merged = {kind: [*verdict.findings.get(kind, ()), *findings.get(kind, ())] for kind in KINDS}
        if why:
            return replace(verdict, findings=merged, why=why)
        return replace(verdict, findings=merged, compared=verdict.by_count, by_count=0)

    def audit_records(
        self, evidence: Evidence, is_of_messages: bool = True
    ) -> tuple[Findings, tuple[str, ...]]:
        """Compare the records of the topics with those that were sent.

        Args:
            evidence: the contents that the target should have.
            is_of_messages: whether each tuple of a message has a record of its own.

        Returns:
            The findings by kind, and the reasons why not all records were compared by content.
        """
        newest = self._newest(evidence)
        stores = {identity_of(evidence.ledger, name).own for name in evidence.streams}
        markers = {name_of(each.app): marker for each, marker in newest if marker is not None}
        own = {name_of(each.app) for each, _ in newest if each.store.own in stores}
        return Topics(
            cluster=self._cluster,
            topic=self.topic,
            destination=self._destination,
            own={name: marker for name, marker in markers.items() if name in own},
            former={name: marker for name, marker in markers.items() if name not in own},
            taken_in=sum(each.store.tuples if found is None else found.taken_in for each, found in newest),
            earlier=[name_of(f"{store}/{each.stream}") for each, _ in newest for store in each.store.earlier],
            exactly_once=self.exactly_once,
            is_of_messages=is_of_messages,
        ).audit(evidence)

    def _newest(self, evidence: Evidence) -> list[tuple[Publisher, Marker | None]]:
        """The publishers, former ones included, that have sent to the target, each with its newest marker."""
        publishers = [Publisher.of(evidence.ledger, name) for name in evidence.streams]
        publishers += [former for each in publishers for former, fold in each.former if fold]
        found = ((each, self._markers(each.app)) for each in publishers)
        return [(each, markers[-1] if markers else None) for each, markers in found]

    def limits(self) -> dict[str, int]:
        """Read the limits of the topics to which a record may go.

        Returns:
            Name of each topic -> the most bytes that a record, or a batch of records, may have there.

        Raises:
            SourceError: the cluster does not answer, or the topic is not there.
        """
        rules = self._cluster.rules(self._topics())
        return {name: each.most_bytes for name, each in rules.items()}

    def _topics(self) -> list[str]:
        return [self.topic] if self.topic else self._cluster.names(".*")

    def refused(
        self, spark: SparkSession, changes: Changes, groups: pl.DataFrame, scratch: str
    ) -> pl.DataFrame:
        """See `Target`. The rules are those of `violations`, with the limits that the topics have now."""
        return told_by_rules(self, spark, changes, groups)

    def _markers(self, app: str) -> list[Marker]:
        if self._pin is None:
            return read_markers(self._cluster, name_of(app), self._destination)
        if app not in self._pin:
            self._pin[app] = read_markers(self._cluster, name_of(app), self._destination)
        return self._pin[app]

    def _record(self, stream: str, rows: DataFrame, columns: Sequence[str]) -> tuple[Column, Column, Column]:
        """Topic, key and value of each row.

        Raises:
            TopologyError: an expression does not fit the stream's columns, or makes no text or bytes.
        """
        fields = [field for field in rows.schema.fields if field.name in columns]
        parts = {
            "topic": F.lit(self.topic) if self.topic else F.expr(str(self.topic_by)),
            "key": F.lit(None).cast("string") if self.key is None else F.expr(self.key),
            "value": as_json(fields) if self.value is None else F.expr(self.value),
        }
        try:
            types = dict(rows.select(*(part.alias(name) for name, part in parts.items())).dtypes)
        except AnalysisException as error:
            said = str(error).splitlines()[0]
            raise TopologyError(
                f"KafkaTarget of what {stream} publishes: {said}", component=component_of(stream)
            ) from error
        for name, kind in types.items():
            if kind.startswith(_NESTED):
                raise TopologyError(
                    f"KafkaTarget of what {stream} publishes: {name} is {kind}; make it text, as "
                    "by to_json(…).",
                    component=component_of(stream),
                )
        topic, key, value = (
            part if types[name] == "binary" else part.cast("string") for name, part in parts.items()
        )
        return topic, key, value

    @property
    def _cluster(self) -> Cluster:
        if self.connection is None:
            return Cluster(self.servers)
        settings = connection(self.connection)
        return Cluster(settings["bootstrap.servers"], settings)


def _bytes(part: Column) -> Column:
    """How many bytes a key or a value has as it is sent; 0 where there is none."""
    return F.coalesce(F.octet_length(part.cast("string")), F.lit(0))


def _looked_up(limits: Mapping[str, int], topic: Column) -> Column:
    if not limits:
        return F.lit(None).cast("int")
    pairs = F.create_map(*(F.lit(each) for pair in limits.items() for each in pair))
    return F.try_element_at(pairs.cast("map<string,int>"), topic)


def _each(records: DataFrame) -> Iterator[Record]:
    """The records of rows, as they come from Spark."""
    for topic, key, value, message, attempt in records.select(*Record._fields).toLocalIterator():
        yield Record(topic, _sent_bytes(key), _sent_bytes(value), _sent_bytes(message), _sent_bytes(attempt))


def _sent_bytes(part: str | bytes | bytearray | None) -> bytes | None:
    if part is None:
        return None
    return part.encode() if isinstance(part, str) else bytes(part)
