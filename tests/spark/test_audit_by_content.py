"""The audit of published rows by what they say, of tables as Spark writes them."""

from datetime import timedelta

import pytest
from pyspark.sql import functions as F

from acker.operations.cycle import run_cycle
from acker.operations.maintenance.trim import trim_streams
from acker.reports.audit import audit_report
from acker.spouts import DeltaSpout
from acker.topology.topology import Topology

NOTHING = {"lost": [], "unexpected": [], "duplicated": []}

# Of every type that a stream can hold, with what lies outside of what nanoseconds can tell.
COLUMNS = {
    "whole": "cast(id AS int)",
    "share": "cast(id AS double) / 3",
    "price": "cast(id / 8 AS decimal(20, 6))",
    "large": "cast(pow(10, 20) * id AS decimal(38, 10))",
    "name": "concat('n', id)",
    "bytes": "cast(concat('b', id) AS binary)",
    "even": "id % 2 = 0",
    "at": "timestamp'1500-01-01 00:00:00.000001' + make_interval(cast(id * 200 AS int))",
    "local": "timestamp_ntz'0001-01-01 00:00:00' + make_interval(cast(id * 1000 AS int))",
    "day": "cast(timestamp_ntz'0001-01-01 00:00:00' + make_interval(cast(id * 1000 AS int)) AS date)",
    "pair": "named_struct('number', id, 'name', concat('n', id))",
    "list": "array(id, null, id + 1)",
    "times": "array(struct(timestamp'9999-12-31 23:59:59.999999' AS at))",
    "map": "map('k', id, 'l', null)",
    "nothing": "cast(null AS string)",
}


def typed(place):
    topology = Topology("typed", message_timeout=None)
    numbers = topology.spout("numbers", DeltaSpout(place.path("numbers"), key="id"))

    @topology.bolt(numbers)
    def rows(tuples):
        return tuples.select("anchor", "id", *(F.expr(sql).alias(name) for name, sql in COLUMNS.items()))

    topology.publish(rows, to=place.path("rows"))
    return topology


@pytest.fixture
def run(place):
    place.add("numbers", id=[1, 2, 3, 4])
    run = place.run(typed(place))
    run_cycle(run)
    return run


def judged(run):
    """The findings by kind, each as what and why, and how many messages were compared."""
    result = audit_report(run.topology, run.store)
    found = {
        kind: sorted((each.message.rpartition("/")[2], each.why.partition(" in ")[0]) for each in found)
        for kind, found in result.findings.items()
    }
    (stream,) = result.streams.values()
    return found, (stream.compared, stream.by_count, stream.not_compared)


@pytest.mark.extended
def test_values_of_every_type_are_compared_also_those_that_were_trimmed(place, run, spark):
    assert judged(run) == (NOTHING, (4, 0, 0))
    path = place.path("rows")
    changes = {
        name: sql.replace("id", "(id + 7)")
        for name, sql in COLUMNS.items()
        if name not in ("times", "nothing")
    }
    for name, sql in {**changes, "times": "array(null)", "nothing": "''"}.items():
        spark.sql(f"UPDATE delta.`{path}` SET {name} = {sql} WHERE id = 2")
        assert (name, judged(run)[0]) == (name, NOTHING | {"unexpected": [("numbers:0:2", "its rows")]})
        spark.sql(f"RESTORE delta.`{path}` TO VERSION AS OF 0")
    place.clock.advance(60)
    trim_streams(run, timedelta(0))
    assert judged(run) == (NOTHING, (4, 0, 0))
    spark.sql(f"UPDATE delta.`{path}` SET at = timestamp'1700-01-01' WHERE id = 2")
    assert judged(run)[0] == NOTHING | {"unexpected": [("fold 1 of rows", "its trimmed rows")]}


@pytest.mark.extended
def test_a_table_that_says_the_same_in_another_way_passes(place, run, spark):
    path = place.path("rows")
    table = f"delta.`{path}`"
    for change in (
        f"ALTER TABLE {table} ADD COLUMN note string",
        f"UPDATE {table} SET note = 'seen' WHERE id = 1",
        f"OPTIMIZE {table} ZORDER BY (name)",
        f"ALTER TABLE {table} SET TBLPROPERTIES('delta.enableDeletionVectors'='true')",
        f"UPDATE {table} SET note = 'seen' WHERE id = 2",
        f"ALTER TABLE {table} SET TBLPROPERTIES('delta.columnMapping.mode'='name')",
    ):
        spark.sql(change)
        assert (change, *judged(run)) == (change, NOTHING, (4, 0, 0))
    again = spark.read.format("delta").load(path).write.format("delta").mode("overwrite")
    again.option("overwriteSchema", "true").partitionBy("even", "at").save(path)
    assert judged(run) == (NOTHING, (4, 0, 0))
    spark.sql(f"UPDATE {table} SET even = NOT even WHERE id = 1")
    assert judged(run)[0] == NOTHING | {"unexpected": [("numbers:0:1", "its rows")]}


def test_a_column_that_was_renamed_is_told_once(place, run, spark):
    table = f"delta.`{place.path('rows')}`"
    spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES('delta.columnMapping.mode'='name')")
    spark.sql(f"ALTER TABLE {table} RENAME COLUMN share TO part")
    spark.sql(f"UPDATE {table} SET part = 0.0")
    (finding,) = audit_report(run.topology, run.store).findings["unexpected"]
    assert finding.why == (
        "has no share, which was dropped or renamed: the rows of 4 messages do not say what was acked"
    )


def test_a_table_with_a_feature_that_cannot_be_read_here_is_not_compared_and_that_is_said(place, run, spark):
    table = f"delta.`{place.path('rows')}`"
    spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES('delta.enableTypeWidening'='true')")
    result = audit_report(run.topology, run.store)
    (stream,) = result.streams.values()
    assert (stream.compared, stream.not_compared, result.passed, result.vouches) == (0, 4, True, False)
    assert "TypeWidening" in stream.why[0]
