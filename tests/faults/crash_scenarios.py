"""Small runs whose every durable effect is a crash point: what a scheduler does, task by task.

A task does one thing of `acker.airflow.tasks` and may be run any number of times. Before a task the world may
change: new input, a mended outage, time. What a scenario publishes in the end is written down beside it.
"""

import contextlib
import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]
from deltalake import DeltaTable, write_deltalake
from pyspark import cloudpickle
from pyspark.sql import functions as F

from acker.airflow import tasks
from acker.batches import batch as batches
from acker.batches.run import Run
from acker.components.anchors import collect_anchors, fail_when, merge_anchors
from acker.components.base import Component
from acker.components.collector import RichBolt
from acker.core.errors import BoltError
from acker.core.events import State
from acker.core.retry import ExponentialBackoff
from acker.core.store.tables import query
from acker.operations.maintenance import compact as maintain
from acker.operations.maintenance import forget as forgetting
from acker.operations.maintenance.trim import trim_events, trim_streams
from acker.operations.selection.selection import Selection
from acker.spouts import DeltaSpout
from acker.spouts.kafka.schemes import Json
from acker.spouts.kafka.spout import KafkaSpout
from acker.targets.functions import Count, Sum
from acker.targets.kafka import KafkaTarget
from acker.topology.topology import Topology

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # Spark's workers need not import it

DAY = 86_400
Rows = list[tuple[Any, ...]]
World = Callable[[Path], None]  # changes what is outside of the store


def nothing(folder: Path) -> None:
    """The world stays as it is."""


@dataclass(frozen=True)
class Task:
    """One task of a scheduler.

    Args:
        name: unique in its scenario.
        do: what it does; done again where it was killed.
        topology: as it stands when the task runs.
        world: what changes before it.
        at: the time, in seconds from the scenario's beginning.
        is_tried: whether it is killed at its effects; else it only leads to the tasks that are.
    """

    name: str
    do: Callable[[Run], Any]
    topology: Callable[[Path], Topology]
    world: World = nothing
    at: float = 0
    is_tried: bool = True


@dataclass(frozen=True)
class Scenario:
    """Tasks one after the other, and the user's columns of the tables that they publish."""

    tasks: tuple[Task, ...]
    published: Mapping[str, Rows]
    states: Mapping[str, int] = field(default_factory=dict)  # other than acked
    is_on_kafka: bool = False  # so that a copy of its folder cannot go on


def adds(name: str, /, **columns: list[Any]) -> World:
    """New rows of a source."""
    return lambda folder: write_deltalake(
        f"{folder}/{name}", pa.table(columns), mode="append", schema_mode="merge"
    )


def both(*worlds: World) -> World:
    def change(folder: Path) -> None:
        for world in worlds:
            world(folder)

    return change


def touched(name: str) -> World:
    return lambda folder: (folder / name).touch()


def removed(name: str) -> World:
    return lambda folder: (folder / name).unlink()


def create_store(run: Run) -> None:
    run.store.create()


def by_hand(
    topology: Callable[[Path], Topology],
    states: list[str],
    positions: list[str] | None = None,
    spout: str | None = None,
    **options: Any,
) -> Iterator[Task]:
    """The tasks of a replay by hand. `world` changes before the first of them."""
    form = {"states": states, "positions": positions, "spout": spout, "why": "to see"}
    world = options.pop("world", nothing)
    yield Task(
        "select", lambda run: tasks.request_by_hand(run, form, "me", "request"), topology, world, **options
    )
    yield Task("emit", lambda run: tasks.emit_requested(run, "request"), topology, **options)


def steps(topology: Callable[[Path], Topology], *names: str, **options: Any) -> Iterator[Task]:
    """Tasks by what they are called: components, `fold`, `replay` and `publish <stream>`.

    `world` changes before the first of them.
    """
    world = options.pop("world", nothing)
    known = topology(Path("/nowhere")).components
    for name in names:
        what, _, stream = name.partition(" ")
        yield Task(name.replace(" ", "_"), _step(known, what, stream), topology, world, **options)
        world = nothing


def _step(known: Mapping[str, Component], name: str, stream: str) -> Callable[[Run], Any]:
    if name in known and known[name].is_spout:
        return lambda run: tasks.read_source(run, name)
    if name in known:
        return lambda run: tasks.run_bolt(run, name)
    if name == "publish":
        return lambda run: tasks.publish(run, stream)
    return {"fold": tasks.fold, "replay": tasks.replay_due}[name]


def scenario(*parts: Iterator[Task] | Task, published: Mapping[str, Rows], **states: int) -> Scenario:
    """A scenario; tasks of one name are numbered."""
    found: list[Task] = []
    for part in parts:
        for task in [part] if isinstance(part, Task) else part:
            count = 1 + sum(each.name.partition("~")[0] == task.name for each in found)
            found.append(replace(task, name=f"{task.name}~{count}") if count > 1 else task)
    return Scenario(tuple(found), published, states)


def created(topology: Callable[[Path], Topology], world: World) -> Task:
    """The store's tables, which only one scenario tries."""
    return Task("create", create_store, topology, world, is_tried=False)


# A DataFrame bolt: a message that fails and is tried again, and one that is given up and replayed by hand.


def squares(folder: Path) -> Topology:
    topology = Topology("squares", retry=ExponentialBackoff(initial_seconds=10, limit=1))
    numbers = topology.spout("numbers", DeltaSpout(f"{folder}/numbers", key="id"))

    @topology.bolt(numbers)
    def squared(tuples):
        down = F.lit((folder / "outage").exists()) & (F.col("id") == 2)
        bad = F.lit((folder / "bug").exists()) & (F.col("id") < 0)
        square = (F.col("id") * F.col("id")).alias("square")
        return tuples.select("anchor", square, fail_when(down | bad, "down"))

    topology.publish(squared, to=f"{folder}/squares")
    return topology


CYCLE = ("squared", "fold", "publish squared")
RETRIED = scenario(
    Task(
        "create",
        create_store,
        squares,
        both(adds("numbers", id=[1, 2, -3]), touched("outage"), touched("bug")),
    ),
    steps(squares, "numbers", *CYCLE),
    steps(squares, "replay", *CYCLE, world=removed("outage"), at=20),
    by_hand(squares, ["dead_letter"], world=removed("bug"), at=700),
    steps(squares, *CYCLE, at=700),
    published={"squares": [(1,), (4,), (9,)]},
)


# Two bolts read one spout; rows and aggregates are published, and replaced after a replay by hand.


def sums(folder: Path) -> Topology:
    topology = Topology("sums", message_timeout=None)
    numbers = topology.spout("numbers", DeltaSpout(f"{folder}/numbers", key="id"))

    @topology.bolt(numbers)
    def doubled(tuples):
        factor = 3 if (folder / "mended").exists() else 2
        return tuples.select("anchor", (F.col("id") * factor).alias("twice"))

    @topology.bolt(numbers)
    def summed(tuples):
        more = 10 if (folder / "mended").exists() else 0
        return tuples.select("anchor", (F.col("id") + more).alias("id"), (F.col("id") % 2 == 1).alias("odd"))

    topology.publish(doubled, to=f"{folder}/doubled")
    topology.publish(summed, to=f"{folder}/sums", by="odd", aggregates={"n": Count(), "sum": Sum("id")})
    return topology


BRANCHES = ("doubled", "summed", "fold", "publish doubled", "publish summed")
REPLACED = scenario(
    created(sums, adds("numbers", id=[1, 2])),
    steps(sums, "numbers", *BRANCHES),
    steps(sums, "numbers", *BRANCHES, world=adds("numbers", id=[3])),
    by_hand(sums, ["acked"], ["0:1"], "numbers", world=touched("mended")),
    steps(sums, *BRANCHES),
    published={"doubled": [(3,), (4,), (6,)], "sums": [(False, 1, 2), (True, 2, 14)]},
)


# A table gets a rule after the ack: what it refuses then leaves the other table as well.


def limited(folder: Path) -> None:
    DeltaTable(f"{folder}/doubled").alter.add_constraint({"small": "twice < 8"})


REFUSED = scenario(
    created(sums, adds("numbers", id=[1, 2])),
    steps(sums, "numbers", *BRANCHES, is_tried=False),
    steps(
        sums,
        *("numbers", "doubled", "summed", "fold", "publish summed"),
        world=adds("numbers", id=[3, 4]),
        is_tried=False,
    ),
    steps(sums, "publish doubled", "fold", "publish doubled", "publish summed", world=limited),
    published={"doubled": [(2,), (4,), (6,)], "sums": [(False, 1, 2), (True, 2, 4)]},
    dead_letter=1,
)


# What nobody needs any more is trimmed, compacted and vacuumed; then everything goes on.


def trim(run: Run) -> None:
    trim_streams(run, timedelta(days=7))
    trim_events(run, timedelta(days=7))


MAINTAINED = scenario(
    created(sums, adds("numbers", id=[1, 2])),
    steps(sums, "numbers", *BRANCHES, is_tried=False),
    steps(sums, "numbers", *BRANCHES, world=adds("numbers", id=[3]), at=10 * DAY, is_tried=False),
    Task("trim", trim, sums, at=10 * DAY),
    Task("compact", tasks.compact, sums, at=10 * DAY),
    Task("vacuum", lambda run: maintain.vacuum(run, 0), sums, at=10 * DAY),
    steps(sums, "numbers", *BRANCHES, world=adds("numbers", id=[4]), at=10 * DAY, is_tried=False),
    published={"doubled": [(2,), (4,), (6,), (8,)], "sums": [(False, 2, 6), (True, 2, 4)]},
)


# The reasons of a message are forgotten, and those of another one expire.


def forget(run: Run) -> None:
    chosen = Selection(states=(State.DEAD_LETTER,), spout="numbers", positions=(("0", -3),))
    forgetting.forget(run, chosen, "asked to", "me")


def expire(run: Run) -> None:
    forgetting.expire_reasons(run, timedelta(days=7))


def look(run: Run) -> None:
    for name in ("events", "ledger"):
        found = query("SELECT DISTINCT reason FROM t WHERE reason IS NOT NULL", t=run.store.require(name))
        assert {row["reason"] for row in found} == {"forgotten", "expired"}, name


FORGOTTEN = scenario(
    created(squares, both(adds("numbers", id=[1, -3, -4]), touched("bug"))),
    steps(squares, "numbers", *CYCLE, is_tried=False),
    steps(squares, "replay", *CYCLE, at=20, is_tried=False),
    Task("forget", forget, squares, at=20),
    Task("expire", expire, squares, at=10 * DAY),
    Task("look", look, squares, at=10 * DAY, is_tried=False),
    steps(squares, "numbers", *CYCLE, world=adds("numbers", id=[5]), at=10 * DAY, is_tried=False),
    published={"squares": [(1,), (25,)]},
    dead_letter=2,
)


# A rich bolt holds tuples back over batches, and once past their timeout.


class Pairs(RichBolt):
    """Joins two tuples of a key, whichever comes first, and tells of it without an anchor."""

    def prepare(self, context):
        self.first = {}

    def execute(self, tup, collector):
        other = self.first.pop(tup.key, None)
        if other is None:
            self.first[tup.key] = tup
            return
        collector.emit([other, tup], {"key": tup.key, "sum": other.value + tup.value})
        collector.emit(None, {"key": tup.key}, stream="seen")
        collector.ack(other)
        collector.ack(tup)


def pairs(folder: Path) -> Topology:
    retry = ExponentialBackoff(initial_seconds=10)
    topology = Topology("pairs", message_timeout="60 seconds", windows=1, retry=retry)
    sides = [
        topology.spout(name, DeltaSpout(f"{folder}/{name}", key="id")).fields_grouping("key")
        for name in ("lefts", "rights")
    ]
    schema = "key bigint, sum bigint"
    paired = topology.rich_bolt(
        *sides, schema=schema, streams={"seen": "key bigint"}, tasks=2, name="paired"
    )(Pairs)
    topology.publish(paired, to=f"{folder}/pairs")
    topology.publish(paired.stream("seen"), to=f"{folder}/seen")
    return topology


PAIRED = ("paired", "fold", "publish paired", "publish paired.seen")
HELD = scenario(
    created(
        pairs,
        both(
            adds("lefts", id=[1, 2, 3], key=[10, 20, 30], value=[1, 2, 3]),
            adds("rights", id=[1], key=[10], value=[100]),
        ),
    ),
    steps(pairs, "lefts", "rights", *PAIRED),
    steps(pairs, "rights", *PAIRED, world=adds("rights", id=[2], key=[20], value=[200]), at=1),
    steps(pairs, "fold", at=70),
    steps(pairs, "fold", at=140),
    steps(pairs, "replay", "rights", *PAIRED, world=adds("rights", id=[3], key=[30], value=[300]), at=250),
    published={"pairs": [(10, 101), (20, 202), (30, 303)], "seen": [(10,), (20,), (30,)]},
)


# Joined messages fail together, are published together, and are replayed by hand together.


def joins(folder: Path) -> Topology:
    topology = Topology("joins", retry=ExponentialBackoff(initial_seconds=10))
    orders = topology.spout("orders", DeltaSpout(f"{folder}/orders", key="id"))
    payments = topology.spout("payments", DeltaSpout(f"{folder}/payments", key="id"))

    @topology.bolt(orders, payments)
    def paid(orders, payments):
        theirs = payments.withColumnRenamed("anchor", "payment")
        cents = F.coalesce("cents", F.lit(0)).alias("cents")
        return orders.join(theirs, "id", "left").select(
            merge_anchors("anchor", "payment"), "id", "name", cents
        )

    @topology.bolt(paid)
    def customers(tuples):
        down = (F.col("name") == "bob") & F.lit((folder / "outage").exists())
        found = tuples.groupBy("name").agg(collect_anchors(), F.sum("cents").alias("cents"))
        return found.select("anchor", "name", "cents", fail_when(down, "down"))

    topology.publish(customers, to=f"{folder}/customers")
    return topology


JOIN = ("paid", "customers", "fold", "publish customers")
JOINED = scenario(
    created(
        joins,
        both(
            adds("orders", id=[1, 2, 3], name=["ann", "bob", "bob"]),
            adds("payments", id=[1, 2], cents=[100, 200]),
            touched("outage"),
        ),
    ),
    steps(joins, "orders", "payments", *JOIN),
    steps(joins, "replay", *JOIN, world=removed("outage"), at=20),
    by_hand(joins, ["acked"], ["0:2"], "orders", at=40),
    steps(joins, *JOIN, at=40),
    published={"customers": [("ann", 100), ("bob", 200)]},
)


# A bolt is gone while tuples wait for it; what it was to take in is retired and tried again without it. Then
# the source has one more column.


def changing(folder: Path, bolts: tuple[str, ...]) -> Topology:
    retry = ExponentialBackoff(initial_seconds=0)
    topology = Topology("changing", message_timeout=None, retry=retry)
    upstream = topology.spout("numbers", DeltaSpout(f"{folder}/numbers", key="id"))
    for name in bolts:
        amount = {"tens": 10, "hundreds": 100}[name]
        upstream = topology.bolt(upstream, name=name)(
            lambda tuples, amount=amount: tuples.withColumn("id", F.col("id") + amount)
        )
    topology.publish(upstream, to=f"{folder}/out")
    return topology


def before_the_change(folder: Path) -> Topology:
    return changing(folder, ("tens", "hundreds"))


def after_the_change(folder: Path) -> Topology:
    return changing(folder, ("tens",))


RETIRED = scenario(
    created(before_the_change, adds("numbers", id=[1, 2])),
    steps(before_the_change, "numbers", "tens", is_tried=False),
    steps(after_the_change, "fold", "replay", "tens", "fold", "publish tens"),
    steps(after_the_change, "numbers", world=adds("numbers", id=[3], name=["c"]), is_tried=False),
    steps(after_the_change, "tens", "fold", "publish tens"),
    published={"out": [(11, None), (12, None), (13, "c")]},
)


# A batch that cannot run is given up, and a row that makes Spark raise is found.


def casts(folder: Path) -> Topology:
    topology = Topology("casts", retry=ExponentialBackoff(initial_seconds=10, limit=1))
    texts = topology.spout("texts", DeltaSpout(f"{folder}/texts", key="id"))

    @topology.bolt(texts)
    def cast(tuples):
        column = "missing" if (folder / "broken").exists() else "text"
        return tuples.select("anchor", F.col(column).cast("bigint").alias("number"))

    topology.publish(cast, to=f"{folder}/cast")
    return topology


def give_up(run: Run) -> None:
    with contextlib.suppress(BoltError):  # where it was given up before this process was killed
        batches.give_up(run, run.topology.components["cast"], "given up by me")


def hold(run: Run) -> None:
    with contextlib.suppress(BoltError):  # which is for the scheduler to see
        tasks.run_bolt(run, "cast")


GIVEN_UP = scenario(
    created(casts, both(adds("texts", id=[1, 2], text=["1", "no number"]), touched("broken"))),
    steps(casts, "texts", is_tried=False),
    Task("hold", hold, casts),
    Task("give_up", give_up, casts),
    steps(casts, "fold"),
    steps(casts, "replay", world=removed("broken"), at=20, is_tried=False),
    steps(casts, "cast", "fold", "publish cast", at=20),
    published={"cast": [(1,)]},
    dead_letter=1,
)

# A bolt that a test can hold up: a write of Spark's that goes on when its client is long gone.


def slow(folder: Path) -> Topology:
    topology = Topology("slow")
    numbers = topology.spout("numbers", DeltaSpout(f"{folder}/numbers", key="id"))

    @topology.basic_bolt(numbers, schema="id bigint")
    def same(tup):
        with contextlib.suppress(FileNotFoundError):
            os.rename(folder / "hold", folder / "held")  # the first to come is held up
            while not (folder / "release").exists():
                time.sleep(0.01)
        yield (tup.id,)

    topology.publish(same, to=f"{folder}/same")
    return topology


OVERTAKEN = scenario(
    created(slow, adds("numbers", id=[1])),
    steps(slow, "numbers", is_tried=False),
    steps(slow, "same"),
    steps(slow, "fold", "publish same", is_tried=False),
    published={"same": [(1,)]},
)

# Orders of a topic are published to a topic, and their numbers to a table and a compacted topic.


def topics(folder: Path) -> None:
    """Topics of the folder's own, at the broker that all folders share."""
    admin = AdminClient({"bootstrap.servers": _servers(folder)})
    names = [f"{name}-{folder.name}" for name in ("orders", "checked", "counts_by_key")]
    for each in admin.create_topics([NewTopic(name, 1, 1) for name in names]).values():
        each.result()


def sends(*ids: int) -> World:
    """New records of the topic of orders."""

    def send(folder: Path) -> None:
        producer = Producer({"bootstrap.servers": _servers(folder)})
        for number in ids:
            producer.produce(f"orders-{folder.name}", json.dumps({"id": number}))
        assert producer.flush(30) == 0

    return send


def _servers(folder: Path) -> str:
    file = folder.parent / "servers"
    return file.read_text() if file.exists() else "nowhere:9092"


def on_kafka(folder: Path) -> Topology:
    servers, name = _servers(folder), folder.name or "nowhere"
    topology = Topology("on_kafka", retry=ExponentialBackoff(initial_seconds=10, limit=1))
    records = KafkaSpout(servers, f"orders-{name}", scheme=Json("id bigint"), group=f"group-{name}")
    orders = topology.spout("orders", records)

    @topology.bolt(orders)
    def checked(tuples):
        down = F.lit((folder / "outage").exists()) & (F.col("id") == 2)
        return tuples.select("anchor", "id", fail_when(down, "down"))

    @topology.bolt(orders)
    def counted(tuples):
        return tuples.select("anchor", (F.col("id") % 2 == 1).alias("odd"))

    topology.publish(checked, KafkaTarget(servers, f"checked-{name}", key="id"))
    changes = KafkaTarget(servers, f"counts_by_key-{name}", key="odd")
    topology.publish(counted, to=f"{folder}/counts", by="odd", aggregates={"n": Count()}, topic=changes)
    return topology


KAFKA_CYCLE = ("checked", "counted", "fold", "publish checked", "publish counted")
ON_KAFKA = replace(
    scenario(
        created(on_kafka, both(topics, sends(1, 2), touched("outage"))),
        steps(on_kafka, "orders", *KAFKA_CYCLE),
        steps(on_kafka, "replay", "orders", *KAFKA_CYCLE, world=both(removed("outage"), sends(3)), at=20),
        published={
            "checked": [(1,), (2,), (3,)],
            "counts": [(False, 1), (True, 2)],
            "counts_by_key": [(False, 1), (True, 2)],
        },
    ),
    is_on_kafka=True,
)

SCENARIOS = {
    "retried": RETRIED,
    "replaced": REPLACED,
    "refused": REFUSED,
    "maintained": MAINTAINED,
    "forgotten": FORGOTTEN,
    "held": HELD,
    "joined": JOINED,
    "retired": RETIRED,
    "given_up": GIVEN_UP,
    "overtaken": OVERTAKEN,
    "on_kafka": ON_KAFKA,
}
