"""Published tables: whole folds in order, each once, and a later acked attempt in place of the earlier."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import functions as F

from acker.core.errors import BoltError, StoreError, TopologyError
from acker.core.events import State
from acker.core.retry import ExponentialBackoff
from acker.core.store.schemas import LEDGER
from acker.core.store.tables import open_table
from acker.operations.cycle import run_bolt, run_cycle, run_spout
from acker.operations.fold import fold
from acker.operations.publish import publish, published_through
from acker.operations.replay import plan_by_hand
from acker.operations.selection.selection import Selection
from acker.reports.audit import audit_report
from acker.reports.sources import source_backlogs
from acker.spouts import DeltaSpout
from acker.targets.base import Publisher
from acker.targets.functions import Count, Max, Min, Sum
from acker.topology.topology import Topology

EXPIRY = "delta.setTransactionRetentionDuration"
ACKED = Selection(states=(State.ACKED,), positions=(("0", 1), ("0", 2)))


def sales(place, extremes):
    """Sales as rows and by city; while the file `bug` is there, amounts are ten times too high."""
    bug = Path(place.path("bug"))
    topology = Topology("sales")
    lines = topology.spout("lines", DeltaSpout(place.path("lines"), key="id"))

    @topology.bolt(lines)
    def amounts(tuples):
        factor = 10 if bug.exists() else 1
        return tuples.select("anchor", "id", "city", (F.col("amount") * factor).alias("amount"))

    @topology.bolt(amounts)
    def by_city(tuples):
        return tuples.select("anchor", "city", "amount")

    topology.publish(amounts, to=place.path("amounts"))
    more = {"lowest": Min("amount"), "highest": Max("amount")} if extremes else {}
    aggregates = {"sales": Count(), "sum": Sum("amount"), **more}
    topology.publish(by_city, to=place.path("by_city"), by="city", aggregates=aggregates)
    return topology


@pytest.fixture(scope="module")
def corrected(shared_place):
    """Two folds published at once, then a bug is mended and messages 1 and 2 are replayed by hand."""
    place = shared_place
    place.add("lines", id=[1, 2, 3], city=["Ulm", "Bonn", None], amount=[1, 2, 3])
    Path(place.path("bug")).touch()
    run = place.run(sales(place, extremes=False))
    told = {}
    for rows in ({"id": [4], "city": ["Ulm"], "amount": [4]}, None):
        run_spout(run, run.topology.components["lines"])
        for bolt in run.topology.bolts:
            run_bolt(run, bolt)
        fold(run)
        if rows:
            place.add("lines", **rows)
    told["passed before"] = published_through(run.topology, run.snapshot())
    told["commits"] = publish(run), publish(run)
    told["passed after"] = published_through(run.topology, run.snapshot())
    told["wrong"] = place.rows("amounts"), place.rows("by_city")
    Path(place.path("bug")).unlink()
    told["replayed"], _ = plan_by_hand(run, ACKED, "bug in amounts", "tester")
    run_cycle(run)
    told["right"] = place.rows("amounts"), place.rows("by_city")
    told["audit"] = audit_report(run.topology, run.store)
    told["again"] = publish(run)
    return told


def test_folds_are_published_one_by_one_and_once(corrected):
    assert (corrected["commits"], corrected["again"]) == ((4, 0), 0)
    assert (corrected["passed before"], corrected["passed after"]) == (0, 2)


def test_rows_are_appended_and_aggregates_add_up_over_folds(corrected):
    assert corrected["wrong"] == (
        [(1, "Ulm", 10), (2, "Bonn", 20), (3, None, 30), (4, "Ulm", 40)],
        [("Bonn", 1, 20), ("Ulm", 2, 50), (None, 1, 30)],
    )


def test_a_replay_after_a_mended_bug_replaces_rows_and_corrects_counts_and_sums(corrected):
    assert corrected["replayed"].count == 2
    assert corrected["right"] == (
        [(1, "Ulm", 1), (2, "Bonn", 2), (3, None, 30), (4, "Ulm", 40)],
        [("Bonn", 1, 2), ("Ulm", 2, 41), (None, 1, 30)],
    )


def test_the_audit_passes_after_a_replay_of_acked_messages(corrected):
    found = corrected["audit"]
    assert (found.verdict, found.emitted, found.acked, found.unpublished) == ("pass", 4, 4, 0)


def test_a_replay_is_refused_where_a_minimum_is_published(corrected, shared_place):
    run = shared_place.run(sales(shared_place, extremes=True))
    with pytest.raises(
        TopologyError, match=r"lowest of .*/by_city is a Min, and what it took in cannot be taken back"
    ):
        plan_by_hand(run, ACKED, "bug in amounts", "tester")


@pytest.mark.parametrize(
    ("by", "column", "sentence"),
    [
        ("city", "amuont", r"^Sum\('amuont'\) of what lines publishes: lines has no column amuont; it has "),
        (
            "ctiy",
            "amount",
            r"^by='ctiy' of what lines publishes: .* it has id, city, amount\. Did you mean city\?",
        ),
        (
            "city",
            "city",
            r"^Sum\('city'\) needs an integer or decimal column, and lines has it as string; cast",
        ),
    ],
)
def test_an_aggregate_of_what_is_not_there_stops_before_anything_is_acked(place, by, column, sentence):
    topology = Topology("wrong")
    source = DeltaSpout(place.add("lines", id=[1], city=["Ulm"], amount=[3]), key="id")
    topology.publish(
        topology.spout("lines", source), to=place.path("t"), by=by, aggregates={"n": Sum(column)}
    )
    run = place.run(topology)
    with pytest.raises(TopologyError, match=sentence):
        run_cycle(run)
    assert (run.snapshot().logged("lines"), run.store.open("streams/lines")) == (0, None)


@pytest.mark.extended
def test_a_fold_is_published_once_although_its_transaction_number_has_expired(place):
    run = place.run(sales(place, extremes=False))
    totals = []
    for number in (1, 2):
        place.add("lines", id=[number], city=["Ulm"], amount=[number])
        run_cycle(run)
        open_table(place.path("by_city")).alter.set_table_properties({EXPIRY: "interval 0 seconds"})
        assert publish(run) == 0
        totals += place.rows("by_city")
    assert totals == [("Ulm", 1, 1), ("Ulm", 2, 3)]
    assert audit_report(run.topology, run.store).passed


def test_a_table_that_forgets_what_was_published_is_refused_before_anything_is(place):
    place.add("lines", id=[1], city=["Ulm"], amount=[1])
    numbers = {name: pa.array([], pa.int64()) for name in ("sales", "sum", "_tuples")}
    place.add("by_city", city=pa.array([], pa.string()), **numbers)
    open_table(place.path("by_city")).alter.set_table_properties({EXPIRY: "interval 1 days"})
    run = place.run(sales(place, extremes=False))
    with pytest.raises(StoreError, match=f"by_city has the property {EXPIRY}.* Unset it"):
        run_cycle(run)
    assert place.rows("by_city") == []


def test_extremes_are_kept_over_folds(place):
    place.add("lines", id=[1, 2], city=["Ulm", "Ulm"], amount=[3, 5])
    run = place.run(sales(place, extremes=True))
    run_cycle(run)
    place.add("lines", id=[3, 4], city=["Ulm", "Bonn"], amount=[1, None])
    run_cycle(run)
    assert place.rows("by_city") == [("Bonn", 1, 0, None, None), ("Ulm", 3, 9, 1, 5)]


def constrained(place, amount):
    """A topology that publishes to a table that was there before, with rules of its own."""
    topology = Topology("constrained", retry=ExponentialBackoff(limit=0))
    lines = topology.spout("lines", DeltaSpout(place.path("lines"), key="id"))
    bolt = topology.bolt(lines, name="kept")(lambda tuples: tuples.withColumn("amount", amount))
    topology.publish(bolt, to=place.path("target"))
    return topology


def test_a_row_that_the_table_would_refuse_fails_its_message_alone(place, spark):
    target = place.path("target")
    place.add("lines", id=[1, 2, 3, 4], name=["a", None, "c", "d"], amount=[1, 2, -3, None])
    spark.sql(f"CREATE TABLE delta.`{target}` (id bigint, name string NOT NULL, amount bigint) USING delta")
    spark.sql(f"ALTER TABLE delta.`{target}` ADD CONSTRAINT positive CHECK (amount > 0)")
    run = place.run(constrained(place, F.col("amount")))
    run_cycle(run)
    found = audit_report(run.topology, run.store)
    assert place.rows("target") == [(1, "a", 1)]
    broken = f"{target}: breaks the constraint positive: amount > 0"
    assert [(letter.message, letter.why) for letter in found.dead_letters] == [
        ("lines:0:2", f"attempt 1 in kept: {target}: name is null"),
        ("lines:0:3", f"attempt 1 in kept: {broken}"),
        ("lines:0:4", f"attempt 1 in kept: {broken}"),
    ]
    assert (found.verdict, found.acked) == ("pass", 1)


def test_a_column_of_another_type_than_the_tables_stops_the_bolt_before_anything_is_acked(place, spark):
    place.add("target", id=[0], amount=["0"])
    place.add("lines", id=[1], amount=[1])
    run = place.run(constrained(place, F.col("amount")))
    run_spout(run, run.topology.components["lines"])
    with pytest.raises(BoltError, match=r"kept emits amount as bigint, but .*/target has it as string"):
        run_bolt(run, run.topology.components["kept"])
    assert run.snapshot().logged("kept") == 0


COLUMNS = "(_root_id bigint, id bigint, city string, amount bigint)"
TARGETS = {  # how a table that was there before is made, and whether Spark has to append to it
    "plain": ("(amount bigint COMMENT 'euros', _root_id bigint, id bigint, city string)", False),
    "partitioned": (f"{COLUMNS} USING delta PARTITIONED BY (city)", True),
    "not null": ("(_root_id bigint, id bigint NOT NULL, city string, amount bigint)", True),
    "one more column": ("(_root_id bigint, id bigint, city string, amount bigint, more int)", True),
    "another case": ("(_root_id bigint, id bigint, City string, amount bigint)", True),
    "generated": (
        "(_root_id bigint, id bigint, city string, amount bigint GENERATED ALWAYS AS (id * 1))",
        True,
    ),
    "varchar": ("(_root_id bigint, id bigint, city varchar(9), amount bigint)", True),
    "change data feed": (f"{COLUMNS} USING delta TBLPROPERTIES (delta.enableChangeDataFeed = true)", True),
    "optimized": (f"{COLUMNS} USING delta TBLPROPERTIES (delta.autoOptimize.optimizeWrite = true)", True),
}


ALWAYS = ("plain", "partitioned")
OFTEN = ("not null", "generated")


def of_targets():
    """All of them, of which some are extended and most thorough."""
    for name, each in TARGETS.items():
        mark = pytest.mark.extended if name in OFTEN else pytest.mark.thorough
        yield pytest.param(*each, id=name, marks=[] if name in ALWAYS else [mark])


@pytest.mark.parametrize(("columns", "by_spark"), [*of_targets()])
def test_a_small_fold_goes_without_spark_into_a_table_that_asks_for_nothing_more(
    columns, by_spark, place, spark
):
    using = "" if "USING" in columns else "USING delta"
    spark.sql(f"CREATE TABLE delta.`{place.path('amounts')}` {columns} {using}")
    place.add("lines", id=[1, 2], city=["Ulm", None], amount=[1, 2])
    topology = Topology("small")
    lines = topology.spout("lines", DeltaSpout(place.path("lines"), key="id"))
    topology.publish(lines, to=place.path("amounts"))
    run = place.run(topology)
    run_cycle(run)
    found = spark.read.format("delta").load(place.path("amounts"))
    assert sorted(found.select("id", "city", "amount").collect()) == [(1, "Ulm", 1), (2, None, 2)]
    (newest,) = open_table(place.path("amounts")).history(1)
    assert newest["engineInfo"].startswith("Apache-Spark" if by_spark else "delta-rs")
    publisher = Publisher.of(run.store.require(LEDGER), "lines")
    target = topology.publications["lines"].target
    assert (target.position(publisher.app), target.published_at(publisher, 1) is None) == (1, False)
    assert (publish(run), audit_report(topology, run.store).verdict) == (0, "pass")


@pytest.mark.extended
def test_values_of_all_types_are_published_alike_with_and_without_spark(place, spark):
    place.add("lines", id=[1])
    topology = Topology("typed")
    lines = topology.spout("lines", DeltaSpout(place.path("lines"), key="id"))

    @topology.bolt(lines)
    def typed(tuples):
        values = {
            "ts": "timestamp'2026-03-29 12:30:00.123456'",
            "old": "timestamp'1890-01-01 00:00:00.5'",
            "day": "date'0123-12-31'",
            "money": "cast('1234567890123456789.0123456789' AS decimal(38,10))",
            "raw": "x'00ff'",
            "tiny": "cast(-128 AS tinyint)",
            "small": "cast(1 AS smallint)",
            "real": "cast('NaN' AS float)",
            "double": "cast('-Infinity' AS double)",
            "yes": "true",
            "words": "array('a', null)",
            "by_name": "map('a', named_struct('b', 1L, 'at', timestamp'2026-01-01 00:00:00'))",
            "nested": "named_struct('a', named_struct('b', array(date'2026-01-01')))",
            "`a.b`": "'ü'",
        }
        return tuples.select("anchor", "id", *(F.expr(f"{sql} AS {name}") for name, sql in values.items()))

    topology.publish(typed, to=place.path("typed"))
    run = place.run(topology)
    run_cycle(run)
    place.add("lines", id=[2])
    run_cycle(run)
    engines = [each["engineInfo"].partition("/")[0] for each in open_table(place.path("typed")).history(2)]
    assert [engine.partition(":")[0] for engine in engines] == ["delta-rs", "Apache-Spark"]
    found = spark.read.format("delta").load(place.path("typed"))
    first, second = found.drop("_root_id", "id").toArrow().to_pylist()
    assert str(first) == str(second)
    assert audit_report(topology, run.store).verdict == "pass"


def test_times_that_spark_publishes_can_be_read_by_others_whatever_their_year(place, spark):
    target = place.path("times")
    spark.sql(f"CREATE TABLE delta.`{target}` (id bigint, at timestamp) USING delta")
    spark.sql(
        f"ALTER TABLE delta.`{target}` ADD CONSTRAINT some CHECK (id > 0)"
    )  # so it is Spark that writes
    topology = Topology("times")
    lines = topology.spout("lines", DeltaSpout(place.add("lines", id=[1, 2], year=[1500, 9999]), key="id"))

    @topology.bolt(lines)
    def timed(tuples):
        return tuples.withColumn("at", F.make_timestamp_ntz("year", *[F.lit(1)] * 5).cast("timestamp"))

    topology.publish(timed.name, to=target)
    run_cycle(place.run(topology))
    files = Path(target).glob("*.parquet")
    times = [pq.read_table(file)["at"] for file in files]
    assert {each.type for each in times} == {pa.timestamp("us", "UTC")}
    assert sorted(time.year for each in times for time in each.to_pylist()) == [1500, 9999]


@pytest.mark.extended
def test_a_clone_is_read_from_and_published_to_as_any_table(place, spark):
    source, target = place.path("source"), place.path("target")
    spark.sql(f"CREATE TABLE delta.`{place.path('one')}` (id bigint, code char(3)) USING delta")
    spark.sql(
        f"CREATE TABLE delta.`{place.path('two')}` (_root_id bigint, id bigint, code char(3)) USING delta"
    )
    spark.sql(f"INSERT INTO delta.`{place.path('one')}` VALUES (1, 'a'), (2, 'abc')")
    for name, path in (("one", source), ("two", target)):
        spark.sql(f"CREATE TABLE delta.`{path}` SHALLOW CLONE delta.`{place.path(name)}`")
    topology = Topology("cloned")
    topology.publish(topology.spout("lines", DeltaSpout(source, key="id")), to=target)
    run = place.run(topology)
    run_cycle(run)
    plan_by_hand(run, Selection(states=(State.ACKED,)), "again", "tester")
    spark.sql(f"INSERT INTO delta.`{source}` VALUES (3, 'b')")
    assert [each.spout for each in source_backlogs(topology, run.snapshot()) if each.unread] == ["lines"]
    run_cycle(run)
    rows = spark.read.format("delta").load(target).selectExpr("id", "rtrim(code)").collect()
    assert sorted(tuple(row) for row in rows) == [(1, "a"), (2, "abc"), (3, "b")]
    assert audit_report(topology, run.store).verdict == "pass"
