"""A replay of a few messages that is read and written without Spark, against the same with Spark."""

from pathlib import Path
from random import Random

import polars as pl
import pyarrow as pa
import pytest
from pyspark.sql import functions as F

from acker.components import spout as spout_component
from acker.core.errors import SourceError
from acker.core.events import State
from acker.core.store.ids import root_ids
from acker.core.store.schemas import stream
from acker.operations.cycle import drain
from acker.operations.replay import replay_by_hand
from acker.operations.selection.selection import Selection
from acker.reports.audit import audit_report
from acker.spark.columns import root_id
from acker.spark.delta import read
from acker.spouts import DeltaSpout, FileSpout, History
from acker.topology.topology import Topology

NO_HISTORY = History(None, lambda: [])
EVERY_TYPE = """
    id, id % 2 = 0 AS bool, CAST(id AS tinyint) AS b, CAST(id AS smallint) AS s, CAST(id AS int) AS i,
    CAST(id AS float) AS f, CAST('NaN' AS double) AS d, CAST(id / 7 AS decimal(7, 3)) AS small,
    CAST(id AS decimal(38, 6)) AS large, concat('caf\u00e9 ', id) AS text, CAST('\u00ff' AS binary) AS bytes,
    DATE'1500-03-01' AS day, TIMESTAMP'0001-01-01 00:00:00.000001 UTC' AS first,
    TIMESTAMP'9999-12-31 23:59:59.999999 UTC' AS last, TIMESTAMP_NTZ'1600-02-29 12:00:00' AS local,
    CAST(NULL AS string) AS nothing, 2 AS `Dotted.Name`"""


def asked(*offsets: int, partition: str = "0") -> pa.Table:
    partitions = pa.repeat(partition, len(offsets))
    return pa.table({"source_partition": partitions, "source_offset": pa.array(offsets, pa.int64())})


def as_by_spark(spark, spout, positions, history=NO_HISTORY) -> list[str] | None:
    """What is read without Spark, having been compared with what Spark reads."""
    found = spout.read_locally(positions, history)
    if found is None:
        return None
    by_spark = spout.read_positions(spark, positions, history)
    without_reports = by_spark.drop("_kind", "_error").toArrow()
    assert {field.name: field.type for field in found.schema} == {
        field.name: field.type for field in without_reports.schema
    }
    rows = sorted(map(repr, found.select(without_reports.column_names).to_pylist()))
    assert rows == sorted(map(repr, without_reports.to_pylist()))
    return rows


def test_ids_of_roots_are_those_that_spark_makes(spark):
    rng = Random(1)
    offsets = [-(2**63), 2**63 - 1, 0, -1, *(rng.randrange(-(2**63), 2**63) for _ in range(30))]
    partitions = ["", "0", "caf\u00e9", "\x00", "x" * 100, "\U0001f600" * 9]
    rows = [(rng.choice(partitions), offset, rng.choice([1, 2, 2**31 - 1])) for offset in offsets]
    frame = spark.createDataFrame(rows, "_source_partition string, _source_offset bigint, _attempt int")
    of_spark = frame.select(root_id("shop", "orders", 7, F.col("_attempt")).alias("id"))
    columns = {"source_partition": pl.String, "source_offset": pl.Int64, "attempt": pl.Int32}
    emissions = pl.DataFrame(rows, columns, orient="row")
    assert root_ids("shop", "orders", 7, emissions).to_list() == of_spark.toArrow()["id"].to_pylist()


def test_rows_of_every_type_are_read_by_their_key_as_spark_reads_them(place, spark):
    path = place.path("types")
    for low in (0, 50):
        spark.sql(f"SELECT {EVERY_TYPE} FROM range({low}, {low + 50}, 1, 1)").write.format("delta").mode(
            "append"
        ).save(path)
    spark.sql(f"ALTER TABLE delta.`{path}` ADD COLUMNS (later string)")
    spark.sql(f"INSERT INTO delta.`{path}` (id, later) VALUES (NULL, 'no key'), (-1, 'x'), (3, 'twice')")
    spark.sql(f"INSERT INTO delta.`{path}` (id, b) VALUES (1000, -128)")
    assert as_by_spark(spark, DeltaSpout(path, key="b"), asked(-128)) is not None  # there is no lower tinyint
    for key in ("id", "b"):
        found = as_by_spark(spark, DeltaSpout(path, key=key), asked(3, 70, -1, 100))
        assert found is not None
        assert len(found) == {"id": 4, "b": 2}[key]


@pytest.mark.extended
def test_rows_are_read_by_their_row_ids_as_spark_reads_them_whatever_has_been_done_to_them(place, spark):
    path = place.path("tracked")
    ten = spark.range(0, 10, 1, 1).selectExpr("id", "concat('v', id) AS text")
    ten.write.format("delta").option("delta.enableRowTracking", "true").option(
        "delta.enableDeletionVectors", "false"
    ).save(path)
    spout, wanted = DeltaSpout(path), asked(0, 4, 9, 12, 99)
    counts = []
    for change in (
        None,
        f"INSERT INTO delta.`{path}` SELECT id, 'new' FROM range(10, 14, 1, 1)",
        f"UPDATE delta.`{path}` SET text = 'changed' WHERE id = 4",
        f"DELETE FROM delta.`{path}` WHERE id = 9",
        f"OPTIMIZE delta.`{path}`",
        f"INSERT INTO delta.`{path}` SELECT id, 'last' FROM range(14, 99, 1, 1)",
        f"ALTER TABLE delta.`{path}` SET TBLPROPERTIES ('delta.checkpointInterval' = '1')",
        f"INSERT INTO delta.`{path}` VALUES (7, 'after the checkpoint')",
    ):
        if change:
            spark.sql(change)
        found = as_by_spark(spark, spout, wanted)
        assert found is not None, change
        counts.append(len(found))
    assert counts[:4] == [3, 4, 4, 3]
    Path(path, "_delta_log", "_last_checkpoint").write_text("{torn")
    assert spout.read_locally(wanted, NO_HISTORY) is None


def test_lines_of_text_are_read_as_spark_reads_them(place, spark):
    root = place.folder / "lines"
    root.mkdir()
    (root / "a").write_bytes("caf\u00e9\r\n\n\r\r\nb".encode())
    spout = FileSpout(str(root))
    planned = spout.next_range(spark, NO_HISTORY, 9)
    history = History(planned, lambda: [planned])
    found = as_by_spark(spark, spout, asked(1, 2, 3, 4, 5, partition="a"), history)
    assert found is not None
    assert len(found) == 4
    (root / "b").write_bytes(b"caf\xe9")
    both = spout.next_range(spark, NO_HISTORY, 9)
    assert spout.read_locally(asked(1, partition="b"), History(both, lambda: [both])) is None


@pytest.mark.parametrize(
    "made",
    [
        "SELECT id, named_struct('a', id) AS nested FROM range(3)",
        "SELECT id, array(id) AS nested FROM range(3)",
        "SELECT id, CAST(id AS string) AS text FROM range(3)",
    ],
)
def test_what_one_process_had_better_leave_is_left_to_spark(place, spark, monkeypatch, made):
    path = place.path("table")
    spark.sql(made).write.format("delta").save(path)
    spout = DeltaSpout(path, key="id")
    if "nested" in made:
        assert spout.read_locally(asked(1), NO_HISTORY) is None
        return
    assert spout.read_locally(asked(1), NO_HISTORY) is not None
    assert DeltaSpout(path).read_locally(asked(1), NO_HISTORY) is None  # its rows have no ids
    monkeypatch.setattr("acker.spouts.delta.local.MOST_BYTES", 10)
    assert spout.read_locally(asked(1), NO_HISTORY) is None
    monkeypatch.undo()
    spark.sql(f"ALTER TABLE delta.`{path}` SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')")
    assert spout.read_locally(asked(1), NO_HISTORY) is None


def test_a_key_that_is_gone_or_no_integer_any_more_is_an_error_and_no_message_is_lost(place, spark):
    path = place.path("table")
    spark.sql("SELECT id, CAST(id AS string) AS text FROM range(3)").write.format("delta").save(path)
    for key, why in (("gone", "is not there"), ("text", "is of type string")):
        with pytest.raises(SourceError, match=why):
            DeltaSpout(path, key=key).read_locally(asked(1), NO_HISTORY)


class Louder(DeltaSpout):
    """Reads messages back in its own way."""

    def read_positions(self, spark, positions, history):
        return super().read_positions(spark, positions, history).withColumn("word", F.lit("LOUD"))


@pytest.mark.thorough
def test_a_subclass_that_reads_back_in_its_own_way_is_asked_for_that(place):
    topology = Topology("shop")
    words = topology.spout("words", Louder(place.add("words", id=[1], word=["quiet"]), key="id"))
    topology.publish(topology.bolt(words, name="same")(lambda tuples: tuples), to=place.path("same"))
    run = place.run(topology)
    drain(run, sleep=place.clock.advance)
    assert place.rows("same") == [(1, "quiet")]
    replay_by_hand(run, Selection(states=(State.ACKED,), spout="words"), "why", "somebody")
    drain(run, sleep=place.clock.advance)
    assert place.rows("same") == [(1, "LOUD")]


@pytest.mark.parametrize("most", [spout_component.MOST_MESSAGES, pytest.param(0, marks=pytest.mark.thorough)])
def test_a_replay_without_spark_leaves_the_rows_that_one_with_spark_leaves(place, spark, monkeypatch, most):
    monkeypatch.setattr(spout_component, "MOST_MESSAGES", most)
    path = place.path("orders")
    made = spark.sql("SELECT id, TIMESTAMP'2026-01-01 00:00:00 UTC' AS at FROM range(6)")
    made.write.format("delta").save(path)
    topology = Topology("shop")
    orders = topology.spout("orders", DeltaSpout(path, key="id"))
    topology.publish(topology.bolt(orders, name="same")(lambda tuples: tuples), to=place.path("same"))
    run = place.run(topology)
    drain(run, sleep=place.clock.advance)
    spark.sql(f"DELETE FROM delta.`{path}` WHERE id = 2")
    spark.sql(f"INSERT INTO delta.`{path}` VALUES (3, NULL)")  # the key twice
    again = Selection(states=(State.ACKED,), spout="orders", positions=tuple(("0", n) for n in (1, 2, 3)))
    assert replay_by_hand(run, again, "why", "somebody").replayed == 3
    rows = read(spark, run.store.path(stream("orders"))).where("_attempt = 2")
    found = sorted(
        rows.drop("_root_id", "_replaces").toArrow().to_pylist(), key=lambda row: row["_source_offset"]
    )
    assert [(row["_source_offset"], row["id"], row["_kind"]) for row in found] == [
        (1, 1, None),
        (2, None, "lost"),
        (3, 3, None),
        (3, 3, None),
    ]
    assert (rows.count(), rows.select("_root_id").distinct().count()) == (4, 3)
    assert rows.where("_replaces IS NULL").count() == 0
    drain(run, sleep=place.clock.advance)
    audit = audit_report(topology, run.store)
    assert (audit.acked, audit.lost, audit.dead_letter, audit.unexpected) == (4, 1, 1, 0)
    assert [id for id, _ in place.rows("same")] == [0, 1, 2, 3, 4, 5]
    by_client = list(Path(run.store.path(stream("orders"))).glob("*.parquet"))
    assert bool(by_client) == bool(most)  # Spark writes into a folder of the batch
