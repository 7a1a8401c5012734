"""The audit of running aggregates, key by key, also of what was trimmed."""

import shutil
from datetime import timedelta
from decimal import Decimal

import pytest
from deltalake import DeltaTable, write_deltalake
from pyspark.sql import functions as F

from acker.core.errors import TopologyError
from acker.core.events import State
from acker.core.store.tables import query
from acker.operations.cycle import run_cycle
from acker.operations.maintenance.trim import trim_streams
from acker.operations.replay import plan_by_hand
from acker.operations.selection.selection import Selection
from acker.reports.audit import audit_report
from acker.spouts import DeltaSpout
from acker.targets.by_key import COUNT, TRIM, trimmed
from acker.targets.functions import Count, Max, Min, Sum
from acker.topology.topology import Topology

SOLD = {"id": [1, 2, 3, 4], "city": ["Ulm", "Köln", "Ulm", None], "price": [5, 7, 11, 13]}


def topology_of(place, aggregates, bolt="sold", **settings):
    """Sales that are added up by city."""
    topology = Topology("kept", message_timeout=None, **settings)
    sales = topology.spout("sales", DeltaSpout(place.path("sales"), key="id"))

    @topology.bolt(sales, name=bolt)
    def sold(tuples):
        return tuples.select(
            "anchor", "city", "price", (F.col("price") / 2).cast("decimal(10,2)").alias("half")
        )

    topology.publish(sold, to=place.path("revenue"), by="city", aggregates=aggregates)
    return topology


SUMS = {"n": Count(), "revenue": Sum("price"), "half": Sum("half")}


@pytest.fixture
def run(place):
    place.add("sales", **SOLD)
    return place.run(topology_of(place, SUMS))


def table(place):
    return DeltaTable(place.path("revenue"))


def judged(run):
    """The findings by kind, each as the key and what is wrong."""
    found = audit_report(run.topology, run.store).findings
    return {kind: [(each.message.rpartition(" ")[2], each.why) for each in found[kind]] for kind in found}


NOTHING = {"lost": [], "unexpected": [], "duplicated": []}


def trim_all(place, run):
    place.clock.advance(60)
    assert set(trim_streams(run, timedelta(0)).values()) == {1}


def test_a_value_that_is_wrong_is_found_although_the_number_of_tuples_is_right(place, run):
    run_cycle(run)
    assert judged(run) == NOTHING
    table(place).update(predicate="city = 'Ulm'", updates={"revenue": "999999"})
    table(place).update(predicate="city = 'Köln'", updates={COUNT: "2", "n": "2"})
    table(place).delete("city IS NULL")
    lost = {"n": 1, "revenue": 13, "half": Decimal("6.50"), COUNT: 1}
    told = ", ".join(f"{name} is None instead of {value}" for name, value in lost.items())
    assert judged(run) == {
        "lost": [("city=None", told)],
        "unexpected": [("city=Ulm", "revenue is 999999 instead of 16")],
        "duplicated": [("city=Köln", f"n is 2 instead of 1, {COUNT} is 2 instead of 1")],
    }


def test_what_was_trimmed_is_kept_by_key_and_compared(place, run):
    run_cycle(run)
    trim_all(place, run)
    assert judged(run) == NOTHING
    for number in (5, 6):
        place.add("sales", id=[number], city=["Ulm"], price=[number])
        run_cycle(run)
        assert judged(run) == NOTHING
        trim_all(place, run)
        assert judged(run) == NOTHING
    kept = run.store.require(trimmed("sold")).to_pyarrow_table().to_pylist()
    rows = sorted((row["city"] or "", row["revenue"], row["half"], row[COUNT], row[TRIM]) for row in kept)
    assert rows == [
        ("", 13, Decimal("6.50"), 1, 4),
        ("Köln", 7, Decimal("3.50"), 1, 4),
        ("Ulm", 6, Decimal("3.00"), 1, 6),
        ("Ulm", 21, Decimal("10.50"), 3, 4),
    ]
    table(place).update(predicate="city = 'Köln'", updates={"revenue": "0"})
    assert judged(run)["unexpected"] == [("city=Köln", "revenue is 0 instead of 7")]


def test_what_a_replay_has_taken_back_is_not_expected(place, run):
    run_cycle(run)
    DeltaTable(place.path("sales")).update(predicate="id = 3", updates={"price": "100"})
    plan_by_hand(run, Selection(states=(State.ACKED,)), "a price was wrong", "me")
    run_cycle(run)
    assert [row[:3] for row in place.rows("revenue")] == [("Köln", 1, 7), ("Ulm", 2, 105), (None, 1, 13)]
    assert judged(run) == NOTHING


def test_smallest_and_largest_are_compared_as_spark_sees_them(place):
    place.add("sales", id=[1, 2, 3], city=["Ulm", "Ulm", "Köln"], price=[1.5, float("nan"), None])
    run = place.run(topology_of(place, {"low": Min("price"), "high": Max("price"), "first": Min("city")}))
    run_cycle(run)
    assert judged(run) == NOTHING
    trim_all(place, run)
    place.add("sales", id=[4], city=["Ulm"], price=[-2.0])
    run_cycle(run)
    assert judged(run) == NOTHING
    table(place).update(predicate="city = 'Ulm'", updates={"high": "3.0"})
    assert judged(run)["unexpected"] == [("city=Ulm", "high is 3.0 instead of nan")]


def test_tuples_of_no_message_count_once_also_between_the_counting_and_the_deletion(place, monkeypatch):
    place.add("sales", **SOLD)
    run = place.run(topology_of(place, SUMS, reliable=False))
    run_cycle(run)
    place.clock.advance(60)
    with monkeypatch.context() as patch:
        patch.setattr(
            "acker.operations.maintenance.trim._delete", lambda *args: None
        )  # as if it was killed before
        trim_streams(run, timedelta(0))
    assert judged(run) == NOTHING
    trim_streams(run, timedelta(0))
    assert judged(run) == NOTHING


def test_what_a_renamed_bolt_had_published_is_counted_when_it_is_trimmed(place, run):
    run_cycle(run)
    renamed = place.run(topology_of(place, SUMS, bolt="sold_again"))
    place.add("sales", id=[5], city=["Ulm"], price=[1])
    run_cycle(renamed)
    assert judged(renamed) == NOTHING
    place.clock.advance(60)
    trim_streams(renamed, timedelta(0))
    assert judged(renamed) == NOTHING


def test_tuples_that_an_older_version_trimmed_are_counted_alone(place, run):
    run_cycle(run)
    trim_all(place, run)
    shutil.rmtree(run.store.path(trimmed("sold")))  # which it did not have
    place.add("sales", id=[5], city=["Ulm"], price=[1])
    run_cycle(run)
    assert judged(run) == NOTHING
    place.clock.advance(60)
    trim_streams(run, timedelta(0))
    assert run.store.open(trimmed("sold")) is None
    table(place).delete("city IS NULL")
    assert [why for _, why in judged(run)["lost"]] == ["aggregates 4 tuples, but 5 were acked"]


def test_a_key_that_has_its_row_twice_is_found(place, run):
    run_cycle(run)
    write_deltalake(place.path("revenue"), table(place).to_pyarrow_table(), mode="append")
    found = judged(run)
    assert found["lost"] == found["unexpected"] == []
    assert sorted(found["duplicated"]) == [
        (f"city={city}", "2 rows of one key") for city in ("Köln", "None", "Ulm")
    ]


def test_a_column_that_was_renamed_or_dropped_is_found(place, run, spark):
    run_cycle(run)
    name = f"delta.`{place.path('revenue')}`"
    spark.sql(f"ALTER TABLE {name} SET TBLPROPERTIES('delta.columnMapping.mode'='name')")
    assert judged(run) == NOTHING
    spark.sql(f"ALTER TABLE {name} RENAME COLUMN revenue TO income")
    spark.sql(f"UPDATE {name} SET income = 0")
    (found,) = judged(run)["unexpected"]
    assert found[1] == "has no revenue, which was dropped or renamed"
    spark.sql(f"ALTER TABLE {name} DROP COLUMN city")
    assert [why for _, why in judged(run)["unexpected"]] == [
        "has no city, revenue, which was dropped or renamed"
    ]


def test_a_table_whose_tuples_are_no_number_any_more_is_told(place, run):
    run_cycle(run)
    rows = table(place).to_pyarrow_table()
    texts = rows.set_column(rows.schema.get_field_index(COUNT), COUNT, rows[COUNT].cast("string"))
    write_deltalake(place.path("revenue"), texts, mode="overwrite", schema_mode="overwrite")
    (found,) = judged(run)["unexpected"]
    assert found[1] == f"has {COUNT} as string, and not as a number"


KEYS = {
    "binary": "cast(city AS binary)",
    "struct": "struct(city, price % 2 AS odd)",
    "array": "array(city, null)",
    "nested": "array(struct(cast(price % 3 AS float) AS rest))",
    "times": "timestamp'1500-01-01' + make_interval(cast(price % 3 * 3000 AS int))",
    "decimal": "cast(price % 3 / 3 AS decimal(20, 3))",
}


@pytest.mark.parametrize("kind", KEYS)
def test_keys_of_all_types_are_compared(place, kind):
    place.add("sales", **SOLD)
    run = place.run(keyed(place, KEYS[kind]))
    run_cycle(run)
    assert judged(run) == NOTHING
    trim_all(place, run)
    place.add("sales", id=[5], city=["Ulm"], price=[1])
    run_cycle(run)
    result = audit_report(run.topology, run.store)
    assert (result.vouches, [each.compared for each in result.streams.values()]) == (True, [5])
    table(place).update(updates={"revenue": "0"})
    rows = query("SELECT revenue FROM revenue", revenue=table(place))
    assert len(judged(run)["unexpected"]) == len(rows)


def test_keys_that_spark_cannot_compare_are_refused(place):
    place.add("sales", **SOLD)
    with pytest.raises(TopologyError, match="a column whose values can be compared"):
        run_cycle(place.run(keyed(place, "map(city, price)")))


def test_an_aggregate_of_nested_values_is_said_not_to_be_compared(place):
    place.add("sales", **SOLD)
    run = place.run(keyed(place, "city", {"n": Count(), "low": Min("pair")}))
    run_cycle(run)
    result = audit_report(run.topology, run.store)
    (stream,) = result.streams.values()
    assert (result.passed, result.vouches) == (True, False)
    assert (stream.compared, stream.by_count, stream.why) == (0, 4, ("low, which cannot be made anew",))


def keyed(place, sql, aggregates=None):
    """Sales by a key of any type."""
    topology = Topology("keyed", message_timeout=None)
    sales = topology.spout("sales", DeltaSpout(place.path("sales"), key="id"))

    @topology.bolt(sales)
    def sold(tuples):
        return tuples.select(
            "anchor", "price", F.expr(sql).alias("key"), F.struct("price", "city").alias("pair")
        )

    topology.publish(
        sold, to=place.path("revenue"), by="key", aggregates=aggregates or {"revenue": Sum("price")}
    )
    return topology
