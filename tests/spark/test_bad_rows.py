"""One message's bad row fails that message, in every kind of component; what is no row's fault fails none."""

import os
from collections import Counter
from datetime import UTC, date, datetime
from decimal import Decimal

import pandas as pd
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import functions as F

from acker.components.collector import RichBolt
from acker.components.raising import ENDED
from acker.core.errors import BoltError
from acker.core.store.tables import query
from acker.operations.cycle import run_bolt, run_spout
from acker.spouts import DeltaSpout, FileSpout
from acker.testing import run_bolt as tried
from acker.testing import run_topology
from acker.topology.topology import Topology

EXTENDED = pytest.mark.extended


def reading(schema="id bigint, text string", **settings):
    """A topology with a spout whose source nobody reads."""
    topology = Topology("bad")
    return topology, topology.spout("lines", FileSpout("/nowhere", format="json", schema=schema), **settings)


def failed(result):
    """Number of each row that failed -> the begin of its reason."""
    return {failure.row["id"]: failure.reason for failure in result.failures}


@pytest.mark.parametrize(
    ("bad", "column"),
    [
        ("x", "coalesce(cast(text AS int), 0)"),
        pytest.param("x", "CASE WHEN cast(text AS int) > 0 THEN 1 ELSE 0 END", marks=EXTENDED),
        pytest.param("0", "coalesce(1 / cast(text AS int), 0)", marks=EXTENDED),
        pytest.param("a,a", "size(str_to_map(text, ',', ':'))", marks=EXTENDED),
    ],
)
def test_a_row_that_raises_where_no_column_would_be_null_fails_alone(spark, bad, column):
    topology, lines = reading()
    bolt = topology.bolt(lines, name="made")(
        lambda tuples: tuples.select("anchor", "id", F.expr(column).alias("n"))
    )
    texts = ["1", "2", bad, "4"]
    result = tried(bolt, [{"id": n, "text": text} for n, text in enumerate(texts)], spark=spark)
    assert ([row["id"] for row in result.rows], [*failed(result)]) == ([0, 1, 3], [2])


def test_the_search_goes_through_rows_with_columns_of_all_types_and_with_nulls_in_them(spark):
    moment, day = datetime(2026, 1, 31, 12), date(2026, 1, 31)
    values = {
        "array<string>": ["a", None],
        "array<array<bigint>>": [[1], None, []],
        "array<timestamp>": [moment.replace(tzinfo=UTC), None],
        "struct<a: int, b: array<timestamp_ntz>>": {"a": None, "b": [moment, None]},
        "map<string, array<date>>": {"a": [day, None], "b": None},
        "timestamp_ntz": moment,
        "decimal(38,0)": Decimal(10) ** 37,
        "binary": b"\0",
    }
    columns = ", ".join(f"c{place} {kind}" for place, kind in enumerate(values))
    schema = f"id bigint, text string, {columns}"
    topology, lines = reading(schema)
    bolt = topology.bolt(lines, name="made")(
        lambda tuples: tuples.withColumn("text", F.expr("coalesce(cast(text AS int), 0)"))
    )
    given = {f"c{place}": value for place, value in enumerate(values.values())}
    rows = [{"id": n, "text": "x" if n == 4 else "1"} | (given if n % 3 else {}) for n in range(9)]
    result = tried(bolt, rows, schema=schema, spark=spark)
    assert (len(result.rows), [*failed(result)]) == (8, [4])


@EXTENDED
def test_a_row_that_raises_in_an_aggregate_of_a_join_fails_the_messages_of_its_group(spark):
    topology, lines = reading()
    others = topology.spout("others", FileSpout("/nowhere", format="json", schema="id bigint, text string"))

    @topology.bolt(lines, others)
    def summed(lines, others):
        from acker import collect_anchors, merge_anchors

        both = lines.alias("l").join(others.alias("o"), "id")
        numbers = (F.coalesce(F.col(f"{side}.text").cast("int"), F.lit(0)) for side in "lo")
        rows = both.select(merge_anchors("l.anchor", "o.anchor"), "id", sum(numbers, F.lit(0)).alias("n"))
        return rows.groupBy("id").agg(collect_anchors(), F.sum("n").alias("n"))

    rows = {
        "lines": [{"id": n, "text": "1"} for n in range(3)],
        "others": [{"id": n, "text": "x" if n == 1 else "2"} for n in range(3)],
    }
    result = tried(summed, rows, spark=spark)
    assert sorted((row["id"], row["n"]) for row in result.rows) == [(0, 3), (2, 3)]
    assert {failure.row["id"] for failure in result.failures} == {1}


def test_a_message_for_which_the_condition_of_a_spout_raises_fails_alone(spark):
    topology, lines = reading(reliable="cast(text as int) > 0")
    topology.publish(topology.bolt(lines, name="same")(lambda tuples: tuples), to="/nowhere")
    rows = [{"id": n, "text": text} for n, text in enumerate(["1", "x", "3"])]
    result = run_topology(topology, {"lines": rows}, retries=0, spark=spark)
    assert result.states == {"acked": 2, "dead_letter": 1}
    assert [row["id"] for row in result.published["same"]] == [0, 2]
    assert "CAST_INVALID_INPUT" in result.dead_letters[0].reason


class Copied(RichBolt):
    """Emits and acks what it is given."""

    def execute(self, tup, collector):
        collector.emit(tup, tup)
        collector.ack(tup)


SAME = {"name": "same", "schema": "id bigint, text string"}
KINDS = {
    "spout": lambda topology, lines: lines,
    "DataFrame": lambda topology, lines: topology.bolt(lines, name="same")(lambda tuples: tuples),
    "basic": lambda topology, lines: topology.basic_bolt(lines, **SAME)(lambda tup: [tup]),
    "rich": lambda topology, lines: topology.rich_bolt(lines, **SAME)(Copied),
}


OTHERS = [pytest.param(kind, marks=EXTENDED) for kind in ("DataFrame", "basic")]


@pytest.mark.parametrize("kind", ["spout", "rich", *OTHERS])
def test_a_row_for_which_a_check_of_the_published_table_raises_fails_alone(place, spark, kind):
    target = place.path("target")
    spark.sql(f"CREATE TABLE delta.`{target}` (id bigint, text string) USING delta")
    spark.sql(f"ALTER TABLE delta.`{target}` ADD CONSTRAINT positive CHECK (cast(text AS int) > 0)")
    place.add("source", id=[1, 2, 3], text=["1", "x", "3"])
    topology = Topology("checked")
    lines = topology.spout("lines", DeltaSpout(place.path("source"), key="id"))
    component = KINDS[kind](topology, lines)
    topology.publish(component, to=target)
    run = place.run(topology)
    run_spout(run, lines)
    for bolt in topology.bolts:
        run_bolt(run, bolt)
    stream = run.store.require(f"streams/{component.name}")
    found = query("SELECT id, _kind, _error FROM s ORDER BY _root_id", s=stream)
    kinds = Counter((row["id"], row["_kind"]) for row in found)
    assert kinds == Counter([(1, None), (3, None), (None, "fail")])
    assert ["CAST_INVALID_INPUT" in row["_error"] for row in found if row["_kind"]] == [True]


def ending(kind, topology, lines, is_bad):
    """A bolt of a kind that ends its worker at some tuples."""
    if kind == "basic":

        @topology.basic_bolt(lines, name="ends", schema="id bigint")
        def ends(tup):
            if is_bad(tup.id):
                os._exit(139)
            yield (tup.id,)

        return ends
    if kind == "rich":

        class Ends(RichBolt):
            def execute(self, tup, collector):
                if is_bad(tup.id):
                    os._exit(139)
                collector.emit(tup, (tup.id,))
                collector.ack(tup)

        return topology.rich_bolt(lines, name="ends", schema="id bigint")(Ends)

    def each(batches):
        for batch in batches:
            if any(map(is_bad, batch["id"].tolist())):
                os._exit(139)
            yield batch

    @topology.bolt(lines, name="ends")
    def mapped(tuples):
        if kind == "pandas UDF":

            @F.pandas_udf("bigint")
            def same(ids: pd.Series) -> pd.Series:
                return next(each([ids.to_frame("id")]))["id"]

            return tuples.select("anchor", same("id").alias("id"))
        return tuples.mapInPandas(each, tuples.schema)

    return mapped


MORE = [pytest.param(kind, marks=EXTENDED) for kind in ("rich", "pandas UDF", "mapInPandas")]


@pytest.mark.parametrize("kind", ["basic", *MORE])
def test_a_message_that_ends_the_python_worker_fails_alone(spark, kind):
    topology, lines = reading("id bigint")
    bolt = ending(kind, topology, lines, lambda number: number == 2)
    result = tried(bolt, [{"id": n} for n in range(8)], spark=spark)
    assert failed(result) == {2: f"{ENDED} (exit code 139)" if kind in ("basic", "rich") else ENDED}
    assert [row["id"] for row in result.rows] == [0, 1, 3, 4, 5, 6, 7]


@EXTENDED
@pytest.mark.parametrize("count", [3, 40])
def test_a_bolt_that_ends_the_worker_at_every_message_fails_none(spark, count):
    topology, lines = reading("id bigint")
    bolt = ending("basic", topology, lines, lambda number: True)
    with pytest.raises(BoltError, match=r"Bolt ends fails on (every message|most messages) of a batch"):
        tried(bolt, [{"id": n} for n in range(count)], spark=spark)


@EXTENDED
def test_messages_that_end_the_worker_are_given_up_although_their_replay_has_no_others(spark):
    topology, lines = reading("id bigint")
    topology.publish(ending("basic", topology, lines, lambda number: number in (1, 2)), to="/nowhere")
    result = run_topology(topology, {"lines": [{"id": n} for n in range(4)]}, retries=1, spark=spark)
    assert result.states == {"acked": 2, "dead_letter": 2}
    assert {letter.reason for letter in result.dead_letters} == {f"{ENDED} (exit code 139)"}


@EXTENDED
def test_a_worker_that_many_messages_end_together_is_no_messages_fault(spark):
    topology, lines = reading("id bigint")

    class Crowded(RichBolt):
        def prepare(self, context):
            self.seen = 0

        def execute(self, tup, collector):
            self.seen += 1
            if self.seen > 5:  # as memory runs out
                os._exit(137)
            collector.ack(tup)

    bolt = topology.rich_bolt(lines, schema="id bigint")(Crowded)
    with pytest.raises(PySparkException, match="Python worker exited unexpectedly"):
        tried(bolt, [{"id": n} for n in range(8)], spark=spark)
