"""Sources whose columns get another type after rows of them were read."""

import pytest
from deltalake import DeltaTable

from acker.core.errors import BoltError
from acker.operations.cycle import drain
from acker.operations.replay import replay_by_hand
from acker.operations.selection.selection import Selection
from acker.reports.audit import audit_report
from acker.spouts import DeltaSpout, FileSpout
from acker.topology.topology import Topology

NO_WAY = "give the spout its former schema, or another name, under which it begins anew."


def copied(place, source, publish=True):
    topology = Topology("typed")
    read = topology.spout("read", source)
    same = topology.bolt(read, name="same")(lambda tuples: tuples)
    if publish:
        topology.publish(same, to=place.path("rows"))
    return place.run(topology)


def published(place):
    return sorted(row.id for row in place.spark.read.format("delta").load(place.path("rows")).collect())


def test_a_table_whose_column_is_widened_is_read_on_and_its_rows_are_replayed(place, spark):
    path = place.path("source")
    spark.sql(
        f"CREATE TABLE delta.`{path}` (k INT, id INT) USING delta "
        "TBLPROPERTIES ('delta.enableTypeWidening' = 'true')"
    )
    spark.sql(f"INSERT INTO delta.`{path}` VALUES (1, 1), (2, 2)")
    drain(copied(place, DeltaSpout(path, key="k"), publish=False))
    spark.sql(f"ALTER TABLE delta.`{path}` ALTER COLUMN id TYPE BIGINT")
    spark.sql(f"INSERT INTO delta.`{path}` VALUES (3, {2**40})")
    run = copied(place, DeltaSpout(path, key="k"))
    drain(run)
    assert published(place) == [1, 2, 2**40]
    replay_by_hand(run, Selection(states=("acked",)), "again", "me")
    drain(run)
    assert published(place) == [1, 2, 2**40]
    assert audit_report(run.topology, run.store).passed


@pytest.mark.parametrize(("form", "line"), [("json", '{{"id": {}}}\n'), ("csv", "id\n{}\n")])
def test_a_schema_that_becomes_wider_goes_on_and_the_former_one_is_the_way_back(place, spark, form, line):
    root = place.folder / "in"
    root.mkdir()
    (root / "a").write_text(line.format(1))
    drain(copied(place, FileSpout(str(root), format=form, schema="id int")))
    (root / "b").write_text(line.format(2))
    with pytest.raises(BoltError) as refused:
        drain(copied(place, FileSpout(str(root), format=form, schema="id string")))
    assert str(refused.value) == f"read emits id as string, but its stream has it as int: {NO_WAY}"
    drain(copied(place, FileSpout(str(root), format=form, schema="id int")))
    (root / "c").write_text(line.format(2**40))
    spark.sql(
        f"ALTER TABLE delta.`{place.path('rows')}` SET TBLPROPERTIES ('delta.enableTypeWidening' = 'true')"
    )
    spark.sql(f"ALTER TABLE delta.`{place.path('rows')}` ALTER COLUMN id TYPE BIGINT")
    run = copied(place, FileSpout(str(root), format=form, schema="id bigint"))
    drain(run)
    assert published(place) == [1, 2, 2**40]
    assert audit_report(run.topology, run.store).passed


def test_a_spout_with_another_name_reads_a_table_whose_column_is_another_from_where_the_former_stopped(
    place, spark
):
    path = place.path("source")
    spark.sql(f"CREATE TABLE delta.`{path}` (k INT, id INT) USING delta")
    spark.sql(f"INSERT INTO delta.`{path}` VALUES (1, 1), (2, 2)")
    drain(copied(place, DeltaSpout(path, key="k")))
    frame = spark.read.format("delta").load(path).selectExpr("k", "cast(id as string) id")
    frame.write.format("delta").mode("overwrite").option("overwriteSchema", "true").save(path)
    version = DeltaTable(path).version() + 1
    spark.sql(f"INSERT INTO delta.`{path}` VALUES (3, 'three')")
    with pytest.raises(BoltError, match=f"as string, but its stream has it as int: {NO_WAY}"):
        drain(copied(place, DeltaSpout(path, key="k")))
    topology = Topology("typed")
    again = topology.spout("again", DeltaSpout(path, key="k", start_version=version))
    texts = topology.bolt(again, name="texts")(lambda tuples: tuples)
    topology.publish(texts, to=place.path("texts"))
    run = place.run(topology)
    drain(run)
    assert place.rows("texts") == [(3, "three")]
    assert audit_report(run.topology, run.store).passed
