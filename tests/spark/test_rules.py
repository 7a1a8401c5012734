"""What a published table would refuse: a row fails its message, and a stream is told, before the ack."""

import json
from functools import partial
from pathlib import Path

import pytest
from deltalake import DeltaTable, Field, Schema
from deltalake.schema import ArrayType, MapType, StructType
from pyspark.sql import functions as F

from acker import RichBolt
from acker.core.errors import BoltError, TopologyError
from acker.core.events import State
from acker.core.retry import ExponentialBackoff
from acker.operations.cycle import run_bolt, run_cycle, run_spout
from acker.operations.fold import fold
from acker.operations.publish import publish
from acker.operations.replay import plan_by_hand
from acker.operations.selection.selection import Selection
from acker.reports.audit import audit_report
from acker.spouts import DeltaSpout
from acker.topology.topology import Topology

ACKED = Selection(states=(State.ACKED,))
GIVEN = {  # column -> its value in a row that breaks no rule
    "code": "'abc'",
    "two": "'ab'",
    "s": "named_struct('a', 1, 'tag', 'ab')",
    "list": "array('ab', null)",
    "named": "map('ab', named_struct('x', 'ab'))",
    "twice": "id * 2",
    "digits": "'7'",
    "share": "'5'",
    "city": "'Ulm'",
    "raw": "x'61'",
}
COLUMNS = """_root_id bigint, id bigint, code varchar(3), two char(2),
    s struct<a: int NOT NULL, tag: varchar(2)>, list array<varchar(2)>,
    named map<varchar(2), struct<x: char(2)>>, twice bigint GENERATED ALWAYS AS (id * 2), digits string,
    number int GENERATED ALWAYS AS (CAST(digits AS INT)), share string, city string,
    kept bigint NOT NULL DEFAULT 7, raw binary"""
BREAKS = {  # what a row has instead, and what is said of it
    "a varchar": ({"code": "'äbcd'"}, "code is longer than varchar(3)"),
    "a varchar with spaces": ({"code": "'abc '"}, "code is longer than varchar(3)"),
    "a char": ({"two": "'abc'"}, "two is longer than char(2)"),
    "a varchar in a struct": ({"s": "named_struct('a', 1, 'tag', 'abc')"}, "s.tag is longer than varchar(2)"),
    "a varchar in an array": ({"list": "array('abc')"}, "list.element is longer than varchar(2)"),
    "a varchar as a key": (
        {"named": "map('abc', named_struct('x', 'a'))"},
        "named.key is longer than varchar(2)",
    ),
    "a char in a map": (
        {"named": "map('a', named_struct('x', 'abc'))"},
        "named.value.x is longer than char(2)",
    ),
    "not null in a struct": ({"s": "named_struct('a', cast(null AS int), 'tag', 'a')"}, "s.a is null"),
    "a struct of not null": ({"s": "cast(null AS struct<a: int, tag: string>)"}, "s.a is null"),
    "bytes that are no text": (
        {"raw": "x'fffe'"},
        "raw has bytes that are no text, which no folder has in its name",
    ),
    "a generated column": ({"twice": "id * 3"}, "twice is not what it is generated as: id * 2"),
    "a constraint": ({"share": "'9'"}, "breaks the constraint few: CAST ( share AS INT ) < 9"),
    "a null in a constraint": ({"share": "null"}, "breaks the constraint few: CAST ( share AS INT ) < 9"),
    "a constraint on a default": ({"id": "8L"}, "breaks the constraint other: id <> kept + 1"),
    "an empty partition": ({"city": "''"}, "city is empty, which as a partition would be null"),
    "a long partition": ({"city": "repeat('ü', 126)"}, "city is too long for the name of a folder"),
    "an escaped partition": ({"city": "repeat(':', 84)"}, "city is too long for the name of a folder"),
    "a partition with U+0000": (
        {"city": "concat('U', char(256), 'm')"},
        "city has a character U+0000, which no folder has in its name",
    ),
}
RAISES = {  # what Spark itself says of a row for which a rule of the table raises
    "a generated column that does not cast": ({"digits": "'seven'"}, "The value 'seven' of the type"),
    "a constraint that raises": ({"share": "'many'"}, "The value 'many' of the type"),
}


def make_table(place, spark):
    """Make the table of rules."""
    target = place.path("target")
    spark.sql(
        f"CREATE TABLE delta.`{target}` ({COLUMNS}) USING delta PARTITIONED BY (city, raw) "
        "TBLPROPERTIES ('delta.feature.allowColumnDefaults' = 'supported')"
    )
    spark.sql(f"ALTER TABLE delta.`{target}` ADD CONSTRAINT few CHECK (CAST(share AS INT) < 9)")
    spark.sql(f"ALTER TABLE delta.`{target}` ADD CONSTRAINT other CHECK (id <> kept + 1)")


def ruled(place, breaks):
    """A topology that publishes a row for each break, and one that breaks nothing."""
    names = ["nothing", *breaks]
    place.add("lines", n=[*range(1, len(names) + 1)], name=names)
    topology = Topology("ruled", retry=ExponentialBackoff(limit=0))
    lines = topology.spout("lines", DeltaSpout(place.path("lines"), key="n"))

    @topology.bolt(lines)
    def made(tuples):
        frame = tuples.select("anchor", "name", (F.col("n") + 100).alias("id"))
        for column, usual in {"id": "id", **GIVEN}.items():
            cases = [
                f"WHEN '{name}' THEN {each[column]}" for name, (each, _) in breaks.items() if column in each
            ]
            value = f"CASE name {' '.join(cases)} ELSE {usual} END" if cases else usual
            frame = frame.withColumn(column, F.expr(value))
        return frame.drop("name")

    topology.publish(made, to=place.path("target"))
    return place.run(topology), names


def test_a_row_that_breaks_any_rule_of_its_table_fails_its_message_alone(place, spark):
    make_table(place, spark)
    run, names = ruled(place, BREAKS)
    run_cycle(run)
    found = audit_report(run.topology, run.store)
    why = {names[int(each.message.rpartition(":")[2]) - 1]: each.why for each in found.dead_letters}
    said = f"attempt 1 in made: {place.path('target')}: "
    assert why == {name: said + reason for name, (_, reason) in BREAKS.items()}
    rows = spark.read.format("delta").load(place.path("target")).select("id", "number", "kept", "city")
    assert [tuple(row) for row in rows.collect()] == [(101, 7, 7, "Ulm")]
    assert (found.verdict, found.acked, publish(run)) == ("pass", 1, 0)


def test_a_row_for_which_a_rule_of_its_table_raises_fails_its_message_alone(place, spark):
    make_table(place, spark)
    run, names = ruled(place, RAISES)
    run_cycle(run)
    found = audit_report(run.topology, run.store)
    said = {names[int(each.message.rpartition(":")[2]) - 1]: each.why for each in found.dead_letters}
    assert {name: RAISES[name][1] in why for name, why in said.items()} == dict.fromkeys(RAISES, True)
    assert (found.verdict, found.acked, publish(run)) == ("pass", 1, 0)


@pytest.mark.extended
@pytest.mark.parametrize("breaks", [BREAKS, RAISES], ids=["breaks", "raises"])
def test_a_row_that_breaks_any_rule_of_a_table_that_is_made_after_the_ack_is_a_dead_letter(
    breaks, place, spark
):
    run, names = ruled(place, breaks)
    for component in run.topology.order():
        (run_spout if component.is_spout else run_bolt)(run, component)
    fold(run)
    make_table(place, spark)
    for _ in range(2):  # what is refused after the ack is a dead letter of the next fold
        run_cycle(run)
    found = audit_report(run.topology, run.store)
    assert {names[int(each.message.rpartition(":")[2]) - 1] for each in found.dead_letters} == {*breaks}
    rows = spark.read.format("delta").load(place.path("target")).select("id", "number", "kept", "city")
    assert [tuple(row) for row in rows.collect()] == [(101, 7, 7, "Ulm")]
    assert (found.verdict, found.acked, publish(run)) == ("pass", 1, 0)


REFUSED = {  # how a table is made to which no row of the stream can go, and what is said
    "lacks": (
        "(id bigint, day date NOT NULL)",
        r"same emits no day, which is NOT NULL in .*: emit it, or give",
    ),
    "type": ("(id int)", r"same emits id as bigint, but .* has it as int\. Cast it"),
    "type in another case": ("(ID int)", r"same emits id as bigint, but .* has it as int\. Cast it"),
    "narrower decimal": (
        "(price decimal(5,2))",
        r"price as decimal\(9,2\), but .* as decimal\(5,2\)\. Cast it",
    ),
    "void": ("(id void)", r"same emits id as bigint, but .* has it as void\. Cast it"),
    "a constraint on what is not there": (
        "(id bigint, day date)",
        r"Each row of same breaks the constraint dated: day IS NOT NULL of .*, since it has none of these",
    ),
    "a feature": (
        "(id bigint)",
        r"asks its writers for strange, which the Delta of this Spark does not know",
    ),
    "a number": ("(id bigint)", r"same emits id, which .* numbers itself \(GENERATED ALWAYS AS IDENTITY\)"),
    "root": ("(id bigint, _root_id string)", r"same emits _root_id as bigint, but .* has it as string\."),
    "time zone": ("(id bigint)", r"same emits at as timestamp_ntz, and .* has not the feature timestampNtz"),
}


def amend(path, features, metadata):
    """Give a table that was just made features, and its only column metadata, which Spark's SQL cannot."""
    log = Path(path) / "_delta_log"
    actions = [json.loads(line) for line in (log / f"{0:020d}.json").read_text().splitlines()]
    (table,) = (action["metaData"] for action in actions if "metaData" in action)
    schema = json.loads(table["schemaString"])
    schema["fields"][0]["metadata"] = metadata
    protocol = {"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": features}
    added = [{"protocol": protocol}, {"metaData": {**table, "schemaString": json.dumps(schema)}}]
    (log / f"{1:020d}.json").write_text("\n".join(map(json.dumps, added)))


@pytest.mark.parametrize(("columns", "said"), REFUSED.values(), ids=REFUSED)
def test_a_table_to_which_no_row_can_go_is_told_before_the_ack_and_no_message_fails(
    columns, said, place, spark
):
    spark.sql(f"CREATE TABLE delta.`{place.path('target')}` {columns} USING delta")
    if "dated" in said:
        spark.sql(f"ALTER TABLE delta.`{place.path('target')}` ADD CONSTRAINT dated CHECK (day IS NOT NULL)")
    if "strange" in said:
        amend(place.path("target"), ["strange"], {})
    if "numbers" in said:
        amend(
            place.path("target"), ["identityColumns"], {"delta.identity.start": 1, "delta.identity.step": 1}
        )
    topology = Topology("refused")
    lines = topology.spout("lines", DeltaSpout(place.add("lines", id=[1]), key="id"))

    @topology.bolt(lines)
    def same(tuples):
        price, at = F.expr("1.5BD").cast("decimal(9,2)"), F.expr("timestamp_ntz'2026-01-01 00:00:00'")
        more = {"price": price} if "price" in columns else {"at": at} if "feature" in said else {}
        return tuples.withColumns(more or {"kept": F.col("id")})

    topology.publish(same, to=place.path("target"))
    run = place.run(topology)
    with pytest.raises(BoltError, match=said):
        run_cycle(run)
    assert (run.snapshot().logged("lines"), run.snapshot().logged("same")) == (1, 0)


@pytest.mark.parametrize("is_rich", [False, True], ids=["spout", "rich bolt"])
def test_a_rule_that_raises_for_a_row_of_a_spout_or_a_rich_bolt_fails_its_message(is_rich, place, spark):
    target = place.path("target")
    spark.sql(f"CREATE TABLE delta.`{target}` (_root_id bigint, id bigint, share string) USING delta")
    spark.sql(f"ALTER TABLE delta.`{target}` ADD CONSTRAINT few CHECK (CAST(share AS INT) < 9)")
    topology = Topology("raising", retry=ExponentialBackoff(limit=0))
    source = DeltaSpout(place.add("lines", id=[1, 2, 3], share=["1", "many", "9"]), key="id")
    published = topology.spout("lines", source)
    if is_rich:
        published = topology.rich_bolt(published, schema="id bigint, share string", name="kept")(Kept)
    topology.publish(published, to=target)
    run = place.run(topology)
    run_cycle(run)
    found = audit_report(run.topology, run.store)
    raised, broken = (letter.why for letter in found.dead_letters)
    assert "The value 'many' of the type" in raised
    assert broken.endswith(f"{target}: breaks the constraint few: CAST ( share AS INT ) < 9")
    assert (place.rows("target"), found.verdict) == ([(1, "1")], "pass")


class Kept(RichBolt):
    def execute(self, tup, collector):
        collector.emit(tup, {"id": tup.id, "share": tup.share})
        collector.ack(tup)


class Several(RichBolt):
    """Joins tuples of a key, so many at a time, into one with their texts one behind the other."""

    def __init__(self, count):
        self.count = count
        self.waiting = {}

    def execute(self, tup, collector):
        found = self.waiting.setdefault(tup.key, [])
        found.append(tup)
        if len(found) == self.count:
            share = "".join(sorted(each.share for each in found))
            collector.emit(found, {"key": tup.key, "share": share})
            for each in self.waiting.pop(tup.key):
                collector.ack(each)


@pytest.mark.extended
@pytest.mark.parametrize("count", [2, 3])
def test_a_rule_that_raises_only_for_tuples_that_met_fails_their_messages(count, place, spark):
    target = place.path("target")
    spark.sql(f"CREATE TABLE delta.`{target}` (_root_id bigint, key bigint, share string) USING delta")
    spark.sql(f"ALTER TABLE delta.`{target}` ADD CONSTRAINT few CHECK (CAST(share AS INT) < 999)")
    topology = Topology("raising", retry=ExponentialBackoff(limit=0))
    keys = [key for key in range(8) for _ in range(count)]
    shares = ["many" if key == 5 and number % count == 1 else "1" for number, key in enumerate(keys)]
    source = DeltaSpout(place.add("lines", id=[*range(len(keys))], key=keys, share=shares), key="id")
    lines = topology.spout("lines", source).fields_grouping("key")
    joined = topology.rich_bolt(lines, schema="key bigint, share string", name="joined")(
        partial(Several, count)
    )
    topology.publish(joined, to=target)
    run = place.run(topology)

    run_cycle(run)

    found = audit_report(run.topology, run.store)
    assert (found.verdict, found.acked, found.dead_letter) == ("pass", 7 * count, count)
    assert all("of the type" in letter.why for letter in found.dead_letters)
    assert place.rows("target") == [(key, "1" * count) for key in range(8) if key != 5]


FEATURES = {  # a table of each feature of Delta that adds to what a writer has to do
    "append only": "(id bigint) USING delta TBLPROPERTIES ('delta.appendOnly' = 'true')",
    "change data feed": "(id bigint) USING delta TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')",
    "column mapping": "(id bigint, `a b` int) USING delta "
    "TBLPROPERTIES ('delta.columnMapping.mode' = 'name')",
    "mapped partitions": "(id bigint, city string) USING delta PARTITIONED BY (city) "
    "TBLPROPERTIES ('delta.columnMapping.mode' = 'name')",
    "deletion vectors": "(id bigint) USING delta TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')",
    "row tracking": "(id bigint) USING delta TBLPROPERTIES ('delta.enableRowTracking' = 'true')",
    "type widening": "(id bigint) USING delta TBLPROPERTIES ('delta.enableTypeWidening' = 'true')",
    "in-commit times": "(id bigint) USING delta TBLPROPERTIES ('delta.enableInCommitTimestamps' = 'true')",
    "v2 checkpoints": "(id bigint) USING delta TBLPROPERTIES ('delta.checkpointPolicy' = 'v2')",
    "iceberg": "(id bigint) USING delta TBLPROPERTIES ('delta.enableIcebergCompatV2' = 'true', "
    "'delta.columnMapping.mode' = 'name')",
    "clustering": "(id bigint, city string) USING delta CLUSTER BY (city)",
    "variant": "(id bigint, other variant) USING delta",
    "times without zone": "(id bigint, at timestamp_ntz) USING delta",
    "void": "(id bigint, nothing void) USING delta",
}


@pytest.mark.extended
@pytest.mark.parametrize("made", FEATURES.values(), ids=FEATURES)
def test_a_table_of_any_feature_is_published_to_and_a_replay_replaces_its_rows(made, place, spark):
    spark.sql(f"CREATE TABLE delta.`{place.path('target')}` {made}")
    topology = Topology("featured")
    lines = topology.spout("lines", DeltaSpout(place.add("lines", id=[1], city=["x" * 300]), key="id"))
    topology.publish(lines, to=place.path("target"))
    run = place.run(topology)
    run_cycle(run)
    found = spark.read.format("delta").load(place.path("target"))
    assert [tuple(row) for row in found.select("id", "city").collect()] == [(1, "x" * 300)]
    assert audit_report(run.topology, run.store).verdict == "pass"
    if "appendOnly" in made:
        with pytest.raises(
            TopologyError, match=r"has the property delta\.appendOnly, so that no row leaves it"
        ):
            plan_by_hand(run, ACKED, "again", "tester")
        return
    plan_by_hand(run, ACKED, "again", "tester")
    run_cycle(run)
    found = spark.read.format("delta").load(place.path("target"))
    assert [tuple(row) for row in found.select("id", "city").collect()] == [(1, "x" * 300)]


@pytest.mark.extended
@pytest.mark.parametrize("by_default", [True, False], ids=["by default", "always"])
def test_a_table_that_numbers_its_rows_is_published_to_and_a_replay_replaces_its_rows(
    by_default, place, spark
):
    target = place.path("target")
    spark.sql(f"CREATE TABLE delta.`{target}` (number bigint, id bigint) USING delta")
    metadata = {"delta.identity.start": 7, "delta.identity.step": 1}
    amend(target, ["identityColumns"], metadata | {"delta.identity.allowExplicitInsert": by_default})
    topology = Topology("numbered")
    given = {"number": [70, 80]} if by_default else {}
    lines = topology.spout("lines", DeltaSpout(place.add("lines", id=[1, 2], **given), key="id"))
    topology.publish(lines, to=target)
    run = place.run(topology)
    for replays in (False, True):
        if replays:
            plan_by_hand(run, ACKED, "again", "tester")
        run_cycle(run)
        rows = spark.read.format("delta").load(target).select("id", "number").orderBy("id").collect()
        assert [row.id for row in rows] == [1, 2]
        numbers = [row.number for row in rows]
        assert numbers == [70, 80] if by_default else len(set(numbers)) == 2 and min(numbers) >= 7
        found = audit_report(run.topology, run.store)
        assert (found.verdict, found.vouches) == ("pass", True)


@pytest.mark.parametrize(
    ("kind", "value", "said"),
    [
        (ArrayType("integer", contains_null=False), "array(1, null)", "s.element is null"),
        (MapType("string", "integer", False), "map('a', cast(null AS int))", "s.value is null"),
        (
            ArrayType(StructType([Field("a", "integer", nullable=False)])),
            "array(named_struct('a', cast(null AS int)))",
            "s.element.a is null",
        ),
    ],
    ids=["array", "map", "struct in array"],
)
def test_a_null_within_an_array_or_a_map_that_may_have_none_fails_its_message(kind, value, said, place):
    fields = [Field("_root_id", "long"), Field("id", "long"), Field("s", kind)]
    DeltaTable.create(place.path("target"), Schema(fields))
    topology = Topology("within", retry=ExponentialBackoff(limit=0))
    lines = topology.spout("lines", DeltaSpout(place.add("lines", id=[1]), key="id"))
    bolt = topology.bolt(lines, name="made")(lambda tuples: tuples.withColumn("s", F.expr(value)))
    topology.publish(bolt, to=place.path("target"))
    run = place.run(topology)
    run_cycle(run)
    (letter,) = audit_report(run.topology, run.store).dead_letters
    assert letter.why == f"attempt 1 in made: {place.path('target')}: {said}"


@pytest.mark.extended
def test_a_time_before_the_year_1_is_no_partition_and_other_values_are_as_they_were(place, spark):
    target = place.path("target")
    spark.sql(
        f"CREATE TABLE delta.`{target}` (_root_id bigint, id bigint, at timestamp) USING delta "
        "PARTITIONED BY (at)"
    )
    micros = [-62_135_596_800_000_001, -62_135_596_800_000_000, 0, 253_402_300_800_000_000, None]
    source = DeltaSpout(place.add("lines", id=[1, 2, 3, 4, 5], micros=micros), key="id")
    topology = Topology("years", retry=ExponentialBackoff(limit=0))
    lines = topology.spout("lines", source)
    topology.publish(topology.bolt(lines, name="made")(_at), to=target)
    run = place.run(topology)
    run_cycle(run)
    found = audit_report(run.topology, run.store)
    (letter,) = found.dead_letters
    assert letter.why.endswith("at is before the year 1, which as a partition would be another year")
    rows = spark.read.format("delta").load(target).selectExpr("id", "unix_micros(at)").orderBy("id")
    assert [tuple(row) for row in rows.collect()] == [(n, micros[n - 1]) for n in (2, 3, 4, 5)]
    assert (found.verdict, found.vouches) == ("pass", True)


def _at(tuples):
    return tuples.select("anchor", "id", F.expr("timestamp_micros(micros)").alias("at"))


@pytest.mark.extended
@pytest.mark.parametrize("mode", ["none", "name"])
def test_a_text_that_as_a_partition_would_be_null_fails_its_message(mode, place, spark):
    target = place.path("target")
    spark.sql(
        f"CREATE TABLE delta.`{target}` (_root_id bigint, id bigint, city string) USING delta "
        f"PARTITIONED BY (city) TBLPROPERTIES ('delta.columnMapping.mode' = '{mode}')"
    )
    cities = ["Ulm", "", "__HIVE_DEFAULT_PARTITION__", None, "a/b%41"]
    topology = Topology("cities", retry=ExponentialBackoff(limit=0))
    source = DeltaSpout(place.add("lines", id=[1, 2, 3, 4, 5], city=cities), key="id")
    topology.publish(topology.spout("lines", source), to=target)
    run = place.run(topology)
    run_cycle(run)
    found = audit_report(run.topology, run.store)
    assert [letter.why.rpartition(": ")[2] for letter in found.dead_letters] == [
        "city is empty, which as a partition would be null",
        "city is __HIVE_DEFAULT_PARTITION__, which as a partition would be null",
    ]
    rows = spark.read.format("delta").load(target).select("id", "city").orderBy("id")
    assert [tuple(row) for row in rows.collect()] == [(1, "Ulm"), (4, None), (5, "a/b%41")]
    assert (found.verdict, found.vouches) == ("pass", True)


@pytest.mark.extended
def test_a_table_with_a_widened_column_is_published_to_and_not_compared(place, spark):
    target = place.path("target")
    spark.sql(
        f"CREATE TABLE delta.`{target}` (_root_id bigint, id int) USING delta "
        "TBLPROPERTIES ('delta.enableTypeWidening' = 'true')"
    )
    spark.sql(f"ALTER TABLE delta.`{target}` ALTER COLUMN id TYPE bigint")
    topology = Topology("widened")
    source = DeltaSpout(place.add("lines", id=[1, 5_000_000_000]), key="id")
    topology.publish(topology.spout("lines", source), to=target)
    run = place.run(topology)
    run_cycle(run)
    rows = spark.read.format("delta").load(target).select("id").orderBy("id").collect()
    assert [row.id for row in rows] == [1, 5_000_000_000]
    found = audit_report(run.topology, run.store)
    assert (found.verdict, found.vouches, found.streams["lines"].not_compared) == ("pass", False, 2)
    assert run_cycle(run).commits == 0
