"""A Delta source that is vacuumed, or whose log is cleaned, between the plan of a batch and its write."""

from fnmatch import fnmatch

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from pyarrow import fs

from acker.core.errors import SourceError
from acker.operations.cycle import run_cycle
from acker.reports.audit import audit_report
from acker.spouts import DeltaSpout, History
from acker.spouts.files.listing import open_folder
from acker.topology.topology import Topology
from tests.kit.object_store import BUCKET
from tests.kit.places import states
from tests.kit.stops import Stop, stopping_at

GONE = "the row was deleted from the source before it was read"


@pytest.fixture(params=["here", pytest.param("on S3", marks=[pytest.mark.extended, pytest.mark.thorough])])
def source(request, place, tmp_path):
    """Path or URI of a table that is not there yet, and a session that may make it."""
    if request.param == "here":
        return place.path("source"), place.spark
    return f"s3a://{BUCKET}/a place, 50% wörds/{tmp_path.name}", request.getfixturevalue("spark_on_s3")


def add(path, **columns):
    write_deltalake(path, pa.table(columns), mode="append")


def files(folder, pattern):
    """A folder's file system, and those of its files whose names fit."""
    system, root = open_folder(folder)
    found = system.get_file_info(fs.FileSelector(root))
    return system, [each for each in found if fnmatch(each.base_name, pattern)]


def after(*planned):
    return History(planned[-1] if planned else None, lambda: list(planned))


def read(spout, spark, planned):
    """(position, _kind, _error) of each row of a range, sorted."""
    rows = spout.read_range(spark, planned).toArrow().to_pylist()
    return sorted((row["_source_offset"], row.get("_kind"), row.get("_error")) for row in rows)


def vacuum(spark, path):
    unchecked = "spark.databricks.delta.retentionDurationCheck.enabled"
    spark.conf.set(unchecked, "false")
    spark.sql(f"VACUUM delta.`{path}` RETAIN 0 HOURS")
    spark.conf.unset(unchecked)


def clean_log(spark, path):
    """Forget all versions before the newest, which has a checkpoint."""
    spark.sql(f"ALTER TABLE delta.`{path}` SET TBLPROPERTIES ('delta.checkpointInterval' = '1')")
    system, found = files(f"{path}/_delta_log", "0*")
    for file in found:
        if file.base_name < f"{DeltaTable(path).version():020}":
            system.delete_file(file.path)


def tracked(spark, path, *groups):
    """A table with row tracking, to which each group of numbers is appended as one file."""
    for group in groups:
        frame = spark.createDataFrame([(number,) for number in group], "number bigint").coalesce(1)
        frame.write.format("delta").option("delta.enableRowTracking", "true").mode("append").save(path)
    return path


def optimize(spark, path):
    spark.sql(f"OPTIMIZE delta.`{path}`")


@pytest.mark.parametrize("forget", [vacuum, clean_log], ids=["vacuumed", "log cleaned"])
def test_a_range_whose_files_were_rewritten_and_vacuumed_is_read_as_it_was_planned(source, forget):
    path, spark = source
    add(path, id=[10, 20])
    add(path, id=[30])
    spout = DeltaSpout(path, key="id")
    planned = spout.next_range(spark, after(), 9)
    DeltaTable(path).optimize.compact()
    add(path, id=[40])
    forget(spark, path)
    assert read(spout, spark, planned) == [(10, None, None), (20, None, None), (30, None, None)]


def test_rows_that_were_deleted_and_vacuumed_are_lost_where_each_position_was_one(source):
    path, spark = source
    add(path, id=[1, 2, 3, 4])
    spout = DeltaSpout(path, key="id")
    first, second = spout.next_range(spark, after(), 2), None
    second = spout.next_range(spark, after(first), 2)
    DeltaTable(path).delete("id IN (1, 4)")
    assert read(spout, spark, first) == [(1, None, None), (2, None, None)]
    vacuum(spark, path)
    assert read(spout, spark, first) == [(1, "lost", GONE), (2, None, None)]
    assert read(spout, spark, second) == [(3, None, None), (4, "lost", GONE)]


def test_of_keys_with_gaps_one_lost_row_says_how_many_rows_are_gone(place, spark):
    path = place.add("source", id=[10, 20, 30, 40])
    spout = DeltaSpout(path, key="id")
    planned = spout.next_range(spark, after(), 9)
    DeltaTable(path).delete("id IN (20, 40)")
    vacuum(spark, path)
    why = "2 of 4 rows were deleted from the source before they were read; which is not known"
    assert read(spout, spark, planned) == [(10, None, None), (11, "lost", why), (30, None, None)]


def test_of_a_range_that_nobody_counted_one_lost_row_says_that_rows_may_be_gone(place, spark):
    path = place.add("source", id=[1, 2, 3])
    spout = DeltaSpout(path, key="id")
    planned = {"after": 0, "upto": 3, "end": 3, "version": 0}
    DeltaTable(path).delete("id = 2")
    vacuum(spark, path)
    why = (
        "rows up to position 3 may have been deleted from the source before they were read; how many were "
        "there was not counted"
    )
    assert read(spout, spark, planned) == [(1, None, None), (2, "lost", why), (3, None, None)]
    place.add("source", id=[2])
    assert read(spout, spark, planned) == [(1, None, None), (2, None, None), (3, None, None)]


@pytest.mark.parametrize("limit", [9, 2], ids=["told by the log", "counted"])
def test_rows_of_a_tracked_table_keep_their_ids_or_are_lost(source, limit):
    path, spark = source
    tracked(spark, path, [1, 2, 3], [4])
    spout = DeltaSpout(path)
    planned = spout.next_range(spark, after(), limit)
    spark.sql(f"DELETE FROM delta.`{path}` WHERE number = 2")
    optimize(spark, path)
    vacuum(spark, path)
    there = [(0, None, None), (1, "lost", GONE), (2, None, None), (3, None, None)]
    assert read(spout, spark, planned) == there[: 4 if limit == 9 else 2]


@pytest.mark.extended
def test_ids_that_an_update_was_offered_are_no_rows(place, spark):
    path = tracked(spark, place.path("source"), [1, 2])
    spout = DeltaSpout(path)
    first = spout.next_range(spark, after(), 9)
    spark.sql(f"UPDATE delta.`{path}` SET number = number + 10")
    tracked(spark, path, [3, 4])
    second = spout.next_range(spark, after(first), 9)
    assert (second["after"], second["upto"]) == (1, 5)
    optimize(spark, path)
    vacuum(spark, path)
    assert read(spout, spark, second) == [(4, None, None), (5, None, None)]
    spark.sql(f"DELETE FROM delta.`{path}` WHERE number = 4")
    optimize(spark, path)
    vacuum(spark, path)
    assert read(spout, spark, second) == [(4, None, None), (5, "lost", GONE)]


@pytest.mark.extended
def test_a_tracked_table_whose_log_was_cleaned_says_what_it_no_longer_knows(place, spark):
    path = tracked(spark, place.path("source"), [1, 2, 3])
    spout = DeltaSpout(path)
    planned = spout.next_range(spark, after(), 9)
    spark.sql(f"DELETE FROM delta.`{path}` WHERE number = 2")
    clean_log(spark, path)
    (one, lost, other) = read(spout, spark, planned)
    assert (one, lost[:2], other) == ((0, None, None), (1, "lost"), (2, None, None))
    assert lost[2].startswith("rows up to position 2 may have been deleted")


@pytest.mark.extended
def test_a_deletion_vector_that_was_vacuumed_is_not_needed(source):
    path, spark = source
    spark.range(1, 6, 1, 1).write.format("delta").option("delta.enableDeletionVectors", "true").save(path)
    spark.sql(f"DELETE FROM delta.`{path}` WHERE id = 2")
    spout = DeltaSpout(path, key="id")
    planned = spout.next_range(spark, after(), 9)
    spark.sql(f"DELETE FROM delta.`{path}` WHERE id = 4")
    vacuum(spark, path)
    assert len(files(path, "deletion_vector_*")[1]) == 1
    why = "1 of 4 rows were deleted from the source before they were read; which is not known"
    found = [(1, None, None), (2, "lost", why), (3, None, None), (5, None, None)]
    assert read(spout, spark, planned) == found


def test_a_table_that_is_behind_what_was_planned_is_still_an_error(place, spark):
    path = place.add("source", id=[1])
    with pytest.raises(SourceError, match=r"source is at version 0, and version 3 was read: it was put back"):
        DeltaSpout(path, key="id").read_range(
            spark, {"after": None, "upto": 1, "end": 1, "version": 3, "rows": 1, "first": 1}
        )


@pytest.mark.parametrize("key", ["id", None], ids=["key", "row ids"])
def test_a_run_that_was_killed_before_its_write_accounts_for_all_messages_of_a_vacuumed_source(
    place, spark, key
):
    path = place.path("source")
    for low in (1, 4):
        frame = spark.range(low, low + 3, 1, 1)
        frame.write.format("delta").option("delta.enableRowTracking", "true").mode("append").save(path)
    topology = Topology("kept")
    numbers = topology.spout("numbers", DeltaSpout(path, key=key))
    kept = topology.bolt(numbers, name="kept")(lambda tuples: tuples)
    topology.publish(kept, to=place.path("published"))
    with pytest.raises(Stop):
        run_cycle(place.run(topology, on_step=stopping_at("planned", "numbers")))
    spark.sql(f"DELETE FROM delta.`{path}` WHERE id = 5")
    optimize(spark, path)
    vacuum(spark, path)
    run = place.run(topology)
    run_cycle(run)
    assert place.rows("published") == [(1,), (2,), (3,), (4,), (6,)]
    found = audit_report(run.topology, run.store)
    first = 1 if key else 0
    assert states(run) == [(first + n, 1, "lost" if n == 4 else "acked") for n in range(6)]
    assert (found.emitted, found.acked, found.lost, found.verdict) == (6, 5, 1, "fail")
    assert [finding.why for finding in found.findings["lost"]] == [f"attempt 1: {GONE}"]
