"""Running aggregates hold every sum to its last digit, and say of what they cannot hold before the ack."""

from decimal import Decimal

import pytest
from pyspark.sql import functions as F

from acker import Count, Max, Sum
from acker.core.errors import BoltError, TopologyError
from acker.core.events import State
from acker.core.retry import ExponentialBackoff
from acker.core.store.tables import open_table
from acker.operations.cycle import run_cycle
from acker.operations.publish import publish
from acker.operations.replay import plan_by_hand
from acker.operations.selection.selection import Selection
from acker.reports.audit import audit_report
from acker.spouts import DeltaSpout
from acker.topology.topology import Topology

MOST = 2**63 - 1


def summed(place, kind="bigint", **aggregates):
    """A topology that adds up the column n of a table by its column k."""
    topology = Topology("summed", retry=ExponentialBackoff(limit=0))
    lines = topology.spout("lines", DeltaSpout(place.path("lines"), key="id"))

    @topology.bolt(lines)
    def same(tuples):
        return tuples.withColumn("n", F.col("n").cast(kind))

    topology.publish(same, to=place.path("sums"), by="k", aggregates=aggregates or {"s": Sum("n")})
    return place.run(topology)


def test_a_sum_goes_past_64_bits_within_a_fold_and_over_folds_and_is_taken_back(place):
    run = summed(place, s=Sum("n"), n=Count())
    place.add("lines", id=[1, 2, 3], k=["a", "a", "b"], n=[MOST, 1, -MOST - 1])
    run_cycle(run)
    place.add("lines", id=[4, 5], k=["a", "b"], n=[MOST, -MOST - 1])
    run_cycle(run)
    assert place.rows("sums") == [("a", 2**64 - 1, 3), ("b", -(2**64), 2)]
    assert audit_report(run.topology, run.store).verdict == "pass"
    plan_by_hand(run, Selection(states=(State.ACKED,)), "again", "tester")
    run_cycle(run)
    assert place.rows("sums") == [("a", 2**64 - 1, 3), ("b", -(2**64), 2)]
    assert audit_report(run.topology, run.store).verdict == "pass"


@pytest.mark.parametrize(
    ("kind", "total"),
    [("tinyint", "long"), ("int", "long"), ("bigint", "decimal(38,0)"), ("decimal(9,2)", "decimal(38,2)")],
)
def test_a_sum_is_as_wide_as_it_may_become(kind, total, place):
    run = summed(place, kind)
    place.add("lines", id=[1, 2], k=["a", "a"], n=[2, 3])
    run_cycle(run)
    (column,) = (field for field in open_table(place.path("sums")).schema().fields if field.name == "s")
    assert (column.type.type, place.rows("sums")) == (total, [("a", 5)])


def test_a_sum_of_decimals_keeps_all_their_digits(place):
    run = summed(place, "decimal(38,18)")
    small = Decimal("1.123456789012345678")
    for number in (1, 2):
        place.add("lines", id=[number], k=["a"], n=[small])
        run_cycle(run)
    assert place.rows("sums") == [("a", 2 * small)]
    plan_by_hand(run, Selection(states=(State.ACKED,)), "again", "tester")
    run_cycle(run)
    assert place.rows("sums") == [("a", 2 * small)]
    assert audit_report(run.topology, run.store).verdict == "pass"


def test_a_table_that_has_a_sum_as_bigint_goes_on(place, spark):
    spark.sql(f"CREATE TABLE delta.`{place.path('sums')}` (k string, s bigint, _tuples bigint) USING delta")
    run = summed(place)
    for number in (1, 2):
        place.add("lines", id=[number], k=["a"], n=[4])
        run_cycle(run)
    assert place.rows("sums") == [("a", 8)]
    assert audit_report(run.topology, run.store).verdict == "pass"


def test_a_key_that_the_table_refuses_fails_its_message_alone(place, spark):
    sums = place.path("sums")
    spark.sql(f"CREATE TABLE delta.`{sums}` (k varchar(2) NOT NULL, s bigint, _tuples bigint) USING delta")
    spark.sql(f"ALTER TABLE delta.`{sums}` ADD CONSTRAINT known CHECK (k <> 'x')")
    run = summed(place)
    place.add("lines", id=[1, 2, 3, 4], k=["ab", "abc", None, "x"], n=[1, 2, 3, 4])
    run_cycle(run)
    found = audit_report(run.topology, run.store)
    assert [letter.why.removeprefix(f"attempt 1 in same: {sums}: ") for letter in found.dead_letters] == [
        "k is longer than varchar(2)",
        "k is null",
        "breaks the constraint known: k <> 'x'",
    ]
    assert (place.rows("sums"), found.verdict, publish(run)) == ([("ab", 1)], "pass", 0)


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ("(k string, _tuples bigint)", r"sums has no column s: publish to a new table"),
        ("(k bigint, s bigint, _tuples bigint)", r"same emits k as string, but .* has it as bigint"),
        (
            "(k string, s bigint, _tuples bigint) USING delta TBLPROPERTIES ('delta.appendOnly' = 'true')",
            r"sums has the property delta\.appendOnly, and the rows of a running aggregate change",
        ),
    ],
)
def test_a_table_to_which_nothing_can_be_added_is_told_before_the_ack(columns, said, place, spark):
    using = "" if "USING" in columns else "USING delta"
    spark.sql(f"CREATE TABLE delta.`{place.path('sums')}` {columns} {using}")
    place.add("lines", id=[1], k=["a"], n=[1])
    run = summed(place)
    with pytest.raises(BoltError, match=said):
        run_cycle(run)
    assert run.snapshot().logged("same") == 0


@pytest.mark.parametrize("where", ["by", "aggregate"])
def test_a_column_without_an_order_is_told_before_the_ack(where, place):
    topology = Topology("unordered")
    lines = topology.spout("lines", DeltaSpout(place.add("lines", id=[1], k=["a"]), key="id"))

    @topology.bolt(lines)
    def mapped(tuples):
        return tuples.withColumn("m", F.create_map("k", "id"))

    key, column = ("m", "id") if where == "by" else ("k", "m")
    topology.publish(mapped, to=place.path("t"), by=key, aggregates={"most": Max(column)})
    with pytest.raises(
        TopologyError, match=r"needs a column whose values can be compared, and mapped has it as"
    ):
        run_cycle(place.run(topology))


@pytest.mark.extended
def test_keys_of_odd_numbers_are_one_key_each_over_folds(place):
    topology = Topology("odd")
    lines = topology.spout("lines", DeltaSpout(place.path("lines"), key="id"))

    @topology.bolt(lines)
    def numbers(tuples):
        return tuples.select("anchor", F.col("k").cast("double").alias("k"), F.col("id").alias("n"))

    topology.publish(numbers, to=place.path("t"), by="k", aggregates={"s": Sum("n")})
    run = place.run(topology)
    for first in (0, 4):
        place.add("lines", id=[*range(first, first + 4)], k=["NaN", "-0.0", "0.0", None])
        run_cycle(run)
    found = place.spark.read.format("delta").load(place.path("t")).select(F.col("k").cast("string"), "s")
    assert sorted(map(str, found.collect())) == [
        "Row(k='0.0', s=Decimal('14'))",
        "Row(k='NaN', s=Decimal('4'))",
        "Row(k=None, s=Decimal('10'))",
    ]
    assert audit_report(run.topology, run.store).verdict == "pass"
