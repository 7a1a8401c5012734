"""Topologies as plain descriptions: what they are built from, and a plain computation of what they make.

A tuple says in `who` to which attempts of which messages it belongs, as "a/3/1" or "a/3/1+b/3/2", so that a
bolt can fail the first attempts of a message and take the later ones. A description says which.
"""

import json
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial, reduce
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
from confluent_kafka import Producer
from deltalake import write_deltalake
from pyspark import cloudpickle
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from acker.components.anchors import fail_when, merge_anchors
from acker.components.collector import RichBolt
from acker.core.retry import ExponentialBackoff
from acker.core.snapshot.journal import Journal
from acker.core.snapshot.replays import messages_of
from acker.core.store.store import Store
from acker.core.store.tables import open_table, query
from acker.spouts import History, Range
from acker.spouts.kafka.schemes import Json
from acker.spouts.kafka.spout import KafkaSpout
from acker.targets.functions import Count, Sum
from acker.targets.kafka import KafkaTarget
from acker.topology.topology import Topology
from tests.kit.received import newest, received

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # or each of Spark's workers would import it all

SCHEMA = "who string, key bigint, v bigint"
PARTITION = "0"
MODULUS = 1_000_003
LARGE = 2_000_000  # a value from which a bolt that fans out makes a thousand tuples
KINDS = ("map", "basic", "rich")  # which make the same of a tuple

Message = str  # "spout/id"
Row = tuple[str, int, int]  # who, key, v
Kind = Literal["map", "basic", "rich", "split", "diamond", "match", "pair"]


@dataclass(frozen=True)
class Node:
    """A bolt.

    Args:
        kind: `split` has a second stream `odd`; `diamond` and `match` are DataFrame joins, of the tuples of
            one message and of messages of one key; `pair` is a rich bolt that holds tuples until their
            partners come.
        salt: what tells its values from other bolts'.
        fans: whether it makes none or several tuples of one.
        fails: message -> how many of its attempts the bolt fails.
    """

    name: str
    kind: Kind
    inputs: tuple[str, ...]
    salt: int
    fans: bool = False
    fails: Mapping[Message, int] = field(default_factory=dict)
    raises: bool = False  # a DataFrame bolt, instead of marking its row
    tasks: int = 1


@dataclass(frozen=True)
class Shape:
    """A topology and where its tables are."""

    folder: str
    spouts: tuple[str, ...]
    nodes: tuple[Node, ...]
    rows: tuple[str, ...]  # streams that are published row by row
    sums: tuple[str, ...] = ()  # and as running aggregates
    untracked: int = 0  # every so many messages one is not tracked; 0: none
    options: Mapping[str, Any] = field(default_factory=dict)  # of the topology
    limit: int = 3
    delay_seconds: float = 0
    acker_tasks: int = 0  # that do logs and folds elsewhere; 0: the process itself
    servers: str = ""  # of a Kafka cluster, from whose topics it reads and to which it publishes
    place: str = ""  # below the folder, of the store and of what is published; the sources stay

    @property
    def store(self) -> str:
        return f"{self.folder}/{self.place}store"

    def table(self, stream: str) -> str:
        return f"{self.folder}/{self.place}published_{stream.replace('.', '_')}"

    def topic(self, name: str) -> str:
        """Of a spout, or of a stream that is published."""
        return f"{Path(self.folder).name}.{name}"


@dataclass(frozen=True)
class Source:
    """A Delta table of messages (id, key, v), read without Spark, which takes milliseconds."""

    path: str
    name: str
    store: Store

    def next_range(self, spark: SparkSession, history: History, limit: int) -> Range | None:
        after = history.newest["upto"] if history.newest else 0
        ids = sorted(row["id"] for row in self._read() if row["id"] > after)[:limit]
        return {"after": after, "upto": ids[-1]} if ids else None

    def read_range(self, spark: SparkSession, planned: Range) -> DataFrame:
        found = [row for row in self._read() if planned["after"] < row["id"] <= planned["upto"]]
        return self._frame(spark, [(row, 1) for row in found])

    def ends(self, planned: Range) -> dict[str, int]:
        return {PARTITION: planned["upto"] + 1}

    def read_positions(self, spark: SparkSession, positions: pa.Table, history: History) -> DataFrame:
        attempts = replayed(self.store, self.name)
        wanted = set(positions["source_offset"].to_pylist())
        return self._frame(
            spark, [(row, attempts.get(row["id"], 1)) for row in self._read() if row["id"] in wanted]
        )

    def _read(self) -> list[dict[str, Any]]:
        table = open_table(self.path)
        return query("SELECT * FROM t", t=table) if table else []

    def _frame(self, spark: SparkSession, found: list[tuple[dict[str, Any], int]]) -> DataFrame:
        rows = [
            {
                "_source_partition": PARTITION,
                "_source_offset": row["id"],
                "who": f"{self.name}/{row['id']}/{attempt}",
                "key": row["key"],
                "v": row["v"],
            }
            for row, attempt in found
        ]
        types = {"_source_offset": pa.int64(), "key": pa.int64(), "v": pa.int64()}
        names = ("_source_partition", "_source_offset", "who", "key", "v")
        schema = pa.schema([(name, types.get(name, pa.string())) for name in names])
        return spark.createDataFrame(pa.Table.from_pylist(rows, schema))


@dataclass(frozen=True)
class TopicSource(KafkaSpout):
    """A topic of messages (key, v), whose ids are their offsets. The record at 0 is none of them."""

    name: str = ""
    store: Store | None = None

    def message_schema(self, spark: SparkSession) -> StructType:
        return spark.createDataFrame([], SCHEMA).schema

    def read_range(self, spark: SparkSession, planned: Range) -> DataFrame:
        return self._named_by(super().read_range(spark, planned), F.lit(1))

    def read_positions(self, spark: SparkSession, positions: pa.Table, history: History) -> DataFrame:
        attempts = F.lit(1)
        assert self.store is not None
        for offset, attempt in replayed(self.store, self.name).items():
            attempts = F.when(F.col("_source_offset") == offset, attempt).otherwise(attempts)
        return self._named_by(super().read_positions(spark, positions, history), attempts)

    def _named_by(self, rows: DataFrame, attempt: Column) -> DataFrame:
        return rows.withColumn("who", F.concat_ws("/", F.lit(self.name), "_source_offset", attempt))


def replayed(store: Store, spout: str) -> dict[int, int]:
    """Offset -> attempt in the replay batch that is being written."""
    replays = Journal(store).rows(f"component = '{spout}' AND kind = 'replay'")
    if not replays:
        return {}
    return dict(messages_of(store, replays[-1]).select("source_offset", "attempt").rows())


def source(shape: Shape, name: str) -> Source | TopicSource:
    """Where a spout reads."""
    store = Store(shape.store, "sim")
    if not shape.servers:
        return Source(f"{shape.folder}/{name}", name, store)
    topic = shape.topic(name)
    scheme = Json("key bigint, v bigint")
    start = {f"{topic}-0": 1}
    return TopicSource(shape.servers, topic, scheme=scheme, start=start, group=topic, name=name, store=store)


def feed(shape: Shape, name: str, rows: Iterable[Mapping[str, int]]) -> None:
    """Give a spout's source messages (id, key, v)."""
    if not shape.servers:
        write_deltalake(f"{shape.folder}/{name}", pa.Table.from_pylist(list(rows)), mode="append")
        return
    producer = Producer({"bootstrap.servers": shape.servers})
    for row in rows:
        producer.produce(shape.topic(name), json.dumps({"key": row["key"], "v": row["v"]}), partition=0)
    assert producer.flush(30) == 0


def build(shape: Shape) -> Topology:
    """The topology of a description."""
    retry = ExponentialBackoff(initial_seconds=shape.delay_seconds, multiplier=1, limit=shape.limit)
    topology = Topology("sim", retry=retry, **shape.options)
    for name in shape.spouts:
        reliable = f"key % {shape.untracked} <> 0" if shape.untracked else True
        topology.spout(name, source(shape, name), reliable=reliable)
    for node in shape.nodes:
        _add(topology, node)
    for stream in shape.rows:
        topic = KafkaTarget(shape.servers, shape.topic(stream)) if shape.servers else None
        topology.publish(stream, to=topic or shape.table(stream))
    for stream in shape.sums:
        aggregates = {"n": Count(), "sum": Sum("v")}
        topic = KafkaTarget(shape.servers, shape.topic(stream), key="key") if shape.servers else None
        topology.publish(stream, to=shape.table(stream), by="key", aggregates=aggregates, topic=topic)
    return topology


def _add(topology: Topology, node: Node) -> None:
    if node.kind == "basic":
        topology.basic_bolt(*node.inputs, schema=SCHEMA, name=node.name)(partial(_basic, node))
    elif node.kind in ("rich", "split"):
        streams = {"odd": SCHEMA} if node.kind == "split" else None
        options = {"schema": SCHEMA, "streams": streams, "tasks": node.tasks, "name": node.name}
        topology.rich_bolt(*node.inputs, **options)(partial(Maps, node))
    elif node.kind == "pair":
        inputs = [_input(topology, name).fields_grouping("key") for name in node.inputs]
        topology.rich_bolt(*inputs, schema=SCHEMA, tasks=node.tasks, name=node.name)(partial(Pairs, node))
    else:
        makes = {"map": _map, "diamond": _join, "match": _join}[node.kind]
        topology.bolt(*node.inputs, name=node.name)(partial(makes, node))


def _input(topology: Topology, name: str) -> Any:
    component, _, stream = name.partition(".")
    found = topology.components[component]
    return found.stream(stream) if stream else found


# What a bolt makes of a tuple, in Python and in Spark.


def made(node: Node, v: int) -> list[int]:
    """The values that a bolt makes of one."""
    count = 1
    if node.fans:
        count = 1_000 if v >= LARGE else (1, 0, 2, 3)[(v + node.salt) % 4]
    return [(v * 31 + node.salt + i) % MODULUS for i in range(count)]


def joined(node: Node, left: int, right: int) -> int:
    return (left * 7 + right + node.salt) % MODULUS


def is_failed(node: Node, who: str) -> bool:
    """Whether the bolt fails a tuple of these attempts."""
    parts = (each.rpartition("/") for each in who.split("+"))
    return any(node.fails.get(message, 0) >= int(attempt) for message, _, attempt in parts)


def _basic(node: Node, tup: Any) -> Iterator[Row]:
    if is_failed(node, tup.who):
        raise ValueError(f"{node.name} cannot take {tup.who}")
    for v in made(node, tup.v):
        yield tup.who, tup.key, v


class Maps(RichBolt):
    """Emits what is made of each tuple; odd values to a stream of their own, where there is one."""

    def __init__(self, node: Node) -> None:
        self.node = node

    def execute(self, tup: Any, collector: Any) -> None:
        for v in made(self.node, tup.v):
            odd = "odd" if self.node.kind == "split" and v % 2 else None
            collector.emit(tup, (tup.who, tup.key, v), stream=odd)
        if is_failed(self.node, tup.who):
            collector.fail(tup, f"{self.node.name} cannot take {tup.who}")
        else:
            collector.ack(tup)


class Pairs(RichBolt):
    """Joins the two tuples of a key, of whichever batches they are."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.first: dict[int, Any] = {}

    def execute(self, tup: Any, collector: Any) -> None:
        if is_failed(self.node, tup.who):
            raise ValueError(f"{self.node.name} cannot take {tup.who}")
        other = self.first.pop(tup.key, None)
        if other is None or other.component == tup.component:
            self.first[tup.key] = tup  # an earlier attempt that is still held is let go
            return
        left, right = sorted((other, tup), key=lambda each: self.node.inputs.index(each.component))
        v = joined(self.node, left.v, right.v)
        collector.emit([left, right], (f"{left.who}+{right.who}", tup.key, v))
        collector.ack(left)
        collector.ack(right)


def _failing(node: Node, who: str = "who") -> Column:
    limits = [each for message, count in node.fails.items() for each in (F.lit(message), F.lit(count))]

    def fails(part: Column) -> Column:
        limit = F.try_element_at(F.create_map(*limits), F.substring_index(part, "/", 2))
        return F.coalesce(limit >= F.substring_index(part, "/", -1).cast("int"), F.lit(False))

    return F.exists(F.split(who, r"\+"), fails) if limits else F.lit(False)


def _marked(node: Node, rows: DataFrame) -> DataFrame:
    """Rows that the bolt fails, marked so or raising."""
    if not node.fails:
        return rows
    reason = F.concat(F.lit(f"{node.name} cannot take "), "who")
    if node.raises:
        return rows.withColumn("v", F.when(_failing(node), F.raise_error(reason)).otherwise(F.col("v")))
    return rows.select("*", fail_when(_failing(node), reason))


def _map(node: Node, *inputs: DataFrame) -> DataFrame:
    tuples = reduce(DataFrame.unionByName, inputs)
    v = F.col("v")
    if node.fans:
        choices = F.array(*map(F.lit, (1, 0, 2, 3)))
        count = F.when(v >= LARGE, 1_000).otherwise(F.get(choices, ((v + node.salt) % 4).cast("int")))
        count = F.when(_failing(node), 1).otherwise(count)
        tuples = tuples.withColumn("count", count).where("count > 0")
        tuples = tuples.withColumn("i", F.explode(F.sequence(F.lit(0), F.col("count") - 1)))
    i = F.col("i") if node.fans else F.lit(0)
    rows = tuples.select("anchor", "who", "key", ((v * 31 + node.salt + i) % MODULUS).alias("v"))
    return _marked(node, rows)


def _join(node: Node, left: DataFrame, right: DataFrame) -> DataFrame:
    by = ["key", "who"] if node.kind == "diamond" else ["key"]
    theirs = right.select(
        F.col("anchor").alias("other"), "key", F.col("who").alias("whose"), F.col("v").alias("w")
    )
    mine = left.alias("l").join(theirs.alias("r"), _same(by))
    v = ((F.col("v") * 7 + F.col("w") + node.salt) % MODULUS).alias("v")
    who = F.col("who") if node.kind == "diamond" else F.concat_ws("+", "who", "whose")
    anchor = F.col("anchor") if node.kind == "diamond" else merge_anchors("anchor", "other")
    return _marked(node, mine.select(anchor, who.alias("who"), F.col("l.key").alias("key"), v))


def _same(by: list[str]) -> Column:
    same = F.col("l.key") == F.col("r.key")
    return same & (F.col("who") == F.col("whose")) if "who" in by else same


# The plain computation.


def streams(shape: Shape, messages: Mapping[Message, tuple[int, int]]) -> dict[str, list[Row]]:
    """What every stream would hold if nothing failed, with messages in `who` and no attempts.

    Args:
        messages: message -> (key, v).
    """
    found: dict[str, list[Row]] = {name: [] for name in shape.spouts}
    for message, (key, v) in messages.items():
        found[message.partition("/")[0]].append((message, key, v))
    for node in shape.nodes:
        inputs = [found[name] for name in node.inputs]
        if node.kind in ("diamond", "match", "pair"):
            found[node.name] = list(_joined(node, *inputs))
            continue
        rows = [(who, key, v) for each in inputs for who, key, w in each for v in made(node, w)]
        found[node.name] = [row for row in rows if node.kind != "split" or row[2] % 2 == 0]
        found[f"{node.name}.odd"] = [row for row in rows if row[2] % 2]
    return found


def _joined(node: Node, left: Iterable[Row], right: Iterable[Row]) -> Iterator[Row]:
    right = list(right)
    for who, key, v in left:
        for whose, other, w in right:
            if node.kind == "diamond" and who == whose:
                yield who, key, joined(node, v, w)
            if node.kind != "diamond" and key == other:
                yield f"{who}+{whose}", key, joined(node, v, w)


def without_attempts(who: str) -> str:
    return "+".join(each.rpartition("/")[0] for each in who.split("+"))


def published(shape: Shape) -> dict[str, Counter[tuple[Any, ...]]]:
    """The rows of every published table or topic, without attempts."""
    found: dict[str, Counter[tuple[Any, ...]]] = {}
    for stream in (*shape.rows, *shape.sums):
        rows = _in_topic(shape, stream) if shape.servers else _in_table(shape, stream)
        if stream in shape.rows:
            found[stream] = Counter((without_attempts(row["who"]), row["key"], row["v"]) for row in rows)
        else:
            found[stream] = Counter((row["key"], row["n"], row["sum"]) for row in rows)
    return found


def _in_table(shape: Shape, stream: str) -> list[dict[str, Any]]:
    table = open_table(shape.table(stream))
    return query("SELECT * FROM t", t=table) if table else []


def _in_topic(shape: Shape, stream: str) -> list[dict[str, Any]]:
    """What readers of what is committed make of a topic: each key's newest record, or all newest attempts.

    Of a former attempt it must have had the same, so what differs is in the result as well.
    """
    records = received(shape.servers, shape.topic(stream))
    if stream in shape.sums:
        return [json.loads(value) for value in newest(records).values()]
    by_who: dict[str, list[dict[str, Any]]] = {}
    for _, value, _ in records:
        row = json.loads(value)
        by_who.setdefault(row["who"], []).append(row)
    last: dict[str, str] = {}  # of the same messages -> who with the highest attempts
    for who in sorted(by_who, key=_attempts):
        last[without_attempts(who)] = who
    found = []
    for who, rows in by_who.items():
        final = by_who[last[without_attempts(who)]]
        values, finals = (Counter((row["key"], row["v"]) for row in each) for each in (rows, final))
        if rows is final or values != finals:
            found += rows
    return found


def _attempts(who: str) -> list[int]:
    return [int(each.rpartition("/")[2]) for each in who.split("+")]


def wanted(
    shape: Shape, messages: Mapping[Message, tuple[int, int]], acked: Iterable[Message]
) -> dict[str, Counter[tuple[Any, ...]]]:
    """The rows that every published table must have where these messages are acked."""
    acked = set(acked)
    found: dict[str, Counter[tuple[Any, ...]]] = {}
    for stream, rows in streams(shape, messages).items():
        mine = [row for row in rows if acked.issuperset(row[0].split("+"))]
        if stream in shape.rows:
            found[stream] = Counter(mine)
        if stream in shape.sums:
            keys = {key for _, key, _ in mine}
            values = {key: [v for _, other, v in mine if other == key] for key in keys}
            found[stream] = Counter((key, len(each), sum(each)) for key, each in values.items())
    return found
