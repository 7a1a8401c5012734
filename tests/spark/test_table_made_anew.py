"""A Delta source that is another table than the one whose rows were read."""

import shutil

import pyarrow as pa
import pytest
from deltalake import DeltaTable, Field, write_deltalake
from deltalake.schema import PrimitiveType

from acker.core.errors import SourceError
from acker.operations.cycle import drain
from acker.reports.audit import audit_report
from acker.reports.sources import source_backlogs
from acker.spouts import DeltaSpout, History
from acker.topology.topology import Topology

ANEW = "Give the spout another name, under which it begins anew."


def after(*planned):
    return History(planned[-1] if planned else None, lambda: list(planned))


def write(path, *ids, **options):
    write_deltalake(path, pa.table({"id": pa.array(ids, pa.int64())}), mode="append", **options)


def tracked(spark, path):
    """A table with row tracking, of three rows."""
    spark.sql(
        f"CREATE TABLE delta.`{path}` (id BIGINT) USING delta "
        "TBLPROPERTIES ('delta.enableRowTracking' = 'true')"
    )
    spark.sql(f"INSERT INTO delta.`{path}` VALUES (1), (2), (3)")


def ids(spout, spark, planned):
    return sorted(row["id"] for row in spout.read_range(spark, planned).toArrow().to_pylist())


@pytest.mark.parametrize("anew", [(1, 2, 3), (101, 102, 103), (4,)], ids=str)
def test_a_table_that_was_dropped_and_made_anew_is_refused_by_all_that_looks_at_it(place, spark, anew):
    path = place.path("source")
    write(path, 1, 2, 3)
    spout = DeltaSpout(path, key="id")
    planned = spout.next_range(spark, after(), 9)
    shutil.rmtree(path)
    write(path, *anew)
    wanted = pa.table({"source_partition": ["0"], "source_offset": [1]})
    looks = {
        "plan": lambda: spout.next_range(spark, after(planned), 9),
        "read": lambda: spout.read_range(spark, planned),
        "replay": lambda: spout.read_positions(spark, wanted, after(planned)),
        "replay of few": lambda: spout.read_locally(wanted, after(planned)),
        "status": lambda: spout.backlog(after(planned)),
    }
    for look in looks.values():
        with pytest.raises(SourceError) as refused:
            look()
        assert str(refused.value) == (
            f"The table {path} was deleted or replaced and made anew: its rows would be taken for those of "
            f"the former one, which were read. {ANEW}"
        )


def test_a_table_with_row_tracking_that_was_made_anew_is_refused(place, spark):
    path = place.path("source")
    tracked(spark, path)
    spout = DeltaSpout(path)
    planned = spout.next_range(spark, after(), 9)
    shutil.rmtree(path)
    tracked(spark, path)
    with pytest.raises(SourceError, match="was deleted or replaced and made anew"):
        spout.next_range(spark, after(planned), 9)


@pytest.mark.extended
def test_a_table_that_was_put_back_is_refused_also_when_it_went_on_from_there(place, spark):
    path = place.path("source")
    write(path, 1)
    shutil.copytree(path, place.path("backup"))
    write(path, 2)
    spout = DeltaSpout(path, key="id")
    planned = spout.next_range(spark, after(), 9)
    shutil.rmtree(path)
    shutil.copytree(place.path("backup"), path)
    with pytest.raises(SourceError, match="is at version 0, and version 1 was read: it was put back"):
        spout.next_range(spark, after(planned), 9)
    write(path, 3)
    with pytest.raises(SourceError, match=r"Version 1 of .* is another than the one that was read"):
        spout.next_range(spark, after(planned), 9)


CHANGES = {
    "a column is added": lambda spark, path: spark.sql(f"ALTER TABLE delta.`{path}` ADD COLUMNS (c INT)"),
    "a column is added by deltalake": lambda spark, path: DeltaTable(path).alter.add_columns(
        [Field("d", PrimitiveType("integer"))]
    ),
    "a property is set": lambda spark, path: spark.sql(
        f"ALTER TABLE delta.`{path}` SET TBLPROPERTIES ('delta.logRetentionDuration' = 'interval 9 days')"
    ),
    "its rows are overwritten with another schema": lambda spark, path: (
        spark.range(4, 6).write.format("delta").mode("overwrite").option("overwriteSchema", "true").save(path)
    ),
    "it is restored": lambda spark, path: spark.sql(f"RESTORE TABLE delta.`{path}` TO VERSION AS OF 0"),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.extended
def test_a_table_that_is_changed_and_stays_the_same_is_read_on(place, spark, change):
    path = place.path("source")
    write(path, 1)
    write(path, 2)
    spout = DeltaSpout(path, key="id")
    planned = spout.next_range(spark, after(), 9)
    CHANGES[change](spark, path)
    write(path, 9, schema_mode="merge")
    again = spout.next_range(spark, after(planned), 9)
    assert ids(spout, spark, again)[-1] == 9
    assert again["table"] == planned["table"]


@pytest.mark.extended
def test_a_replaced_table_is_read_on_by_row_ids_which_go_on_and_refused_by_keys(place, spark):
    path = place.path("source")
    tracked(spark, path)
    by_id, by_key = DeltaSpout(path), DeltaSpout(path, key="id")
    planned, of_key = (spout.next_range(spark, after(), 9) for spout in (by_id, by_key))
    spark.sql(
        f"REPLACE TABLE delta.`{path}` USING delta TBLPROPERTIES ('delta.enableRowTracking' = 'true') "
        "AS SELECT id FROM range(2)"
    )
    again = by_id.next_range(spark, after(planned), 9)
    assert (ids(by_id, spark, again), again["table"] == planned["table"]) == ([0, 1], False)
    assert ids(by_id, spark, planned) == [1, 2, 3]
    with pytest.raises(SourceError, match="was deleted or replaced and made anew"):
        by_key.next_range(spark, after(of_key), 9)


def test_a_plan_of_before_goes_on_and_the_next_one_knows_the_table(place, spark):
    path = place.path("source")
    write(path, 1)
    spout = DeltaSpout(path, key="id")
    old = {"after": None, "upto": 1, "end": 1, "version": 0, "rows": 1, "first": 1}
    write(path, 2)
    planned = spout.next_range(spark, after(old), 9)
    assert (planned["after"], planned["upto"]) == (1, 2)
    assert planned["table"] == str(DeltaTable(path).metadata().id)


def renamed(path, out, name):
    topology = Topology("anew")
    read = topology.spout(name, DeltaSpout(path, key="id"))
    same = topology.bolt(read, name="same")(lambda tuples: tuples)
    topology.publish(same, to=out)
    return topology


def test_a_spout_with_another_name_reads_the_table_that_was_made_anew(place, spark):
    path, out = place.path("source"), place.path("rows")
    write(path, 1, 2, 3)
    run = place.run(renamed(path, out, "read"))
    drain(run)
    shutil.rmtree(path)
    write(path, 2, 101)
    with pytest.raises(SourceError, match="another name"):
        drain(run)
    assert "made anew" in audit_report(run.topology, run.store).unknown["read"]
    again = place.run(renamed(path, out, "again"))
    drain(again)
    assert sorted(DeltaTable(out).to_pyarrow_table()["id"].to_pylist()) == [1, 2, 2, 3, 101]
    assert audit_report(again.topology, again.store).passed
    assert [each.unread for each in source_backlogs(again.topology, again.snapshot())] == [{}]
