"""Spouts by themselves: which range comes next, what is in it, and what the source still holds of it."""

import os

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from pyspark.sql import functions as F

from acker.core.errors import SettingsError, SourceError
from acker.core.events import State
from acker.core.retry import ExponentialBackoff
from acker.operations.cycle import drain
from acker.operations.replay import replay_by_hand
from acker.operations.selection.selection import Selection
from acker.reports.audit import audit_report
from acker.spouts import DeltaSpout, FileSpout
from acker.spouts.files import local_reads
from acker.spouts.files.listing import list_folder
from acker.topology.topology import Topology
from tests.kit.messages import after, messages, positions
from tests.kit.places import states


def reports(frame):
    """What could not be read, and why."""
    return messages(frame.where("_kind IS NOT NULL"), "_kind", "_error")


def parts(planned):
    """(file, after, upto, end) of a range of files."""
    return [(file["path"], file["after"], file["upto"], file["end"]) for file in planned["files"]]


def test_a_range_ends_one_past_the_last_position_of_each_partition_that_it_reads():
    table = {"after": 3, "upto": 6, "end": 9, "version": 0}
    sizes = {"a": (2, 5, 5), "b": (0, 0, 0), "c": (0, 1, 4)}
    files = [
        {"path": path, "mark": "", "after": after, "upto": upto, "end": end}
        for path, (after, upto, end) in sizes.items()
    ]
    assert DeltaSpout("table", key="id").ends(table) == {"0": 7}
    assert FileSpout("folder").ends({"files": files}) == {"a": 6, "c": 2}


# Delta tables


@pytest.fixture(scope="module")
def tracked(shared_place):
    """A table of a, b, c, d, e with row tracking, to which f is added and from which b is deleted."""
    spark, path = shared_place.spark, shared_place.path("tracked")
    letters = spark.createDataFrame([(letter,) for letter in "abcde"], "letter string").coalesce(1)
    letters.write.format("delta").option("delta.enableRowTracking", "true").save(path)
    spout = DeltaSpout(path)
    first = spout.next_range(spark, after(), 2)
    second = spout.next_range(spark, after(first), 9)
    idle = spout.next_range(spark, after(second), 9)
    spark.createDataFrame([("f",)], "letter string").coalesce(1).write.format("delta").mode("append").save(
        path
    )
    spark.sql(f"DELETE FROM delta.`{path}` WHERE letter = 'b'")
    return spout, first, second, idle, spout.next_range(spark, after(second), 9)


def test_rows_of_a_tracked_table_are_read_by_row_id_up_to_the_limit(tracked, spark):
    spout, first, second, idle, _ = tracked
    assert (first["after"], first["upto"], second["after"], second["upto"], idle) == (None, 1, 1, 4, None)
    assert messages(spout.read_range(spark, second), "letter") == [
        ("0", 2, "c"),
        ("0", 3, "d"),
        ("0", 4, "e"),
    ]


def test_rows_that_are_added_later_come_next(tracked, spark):
    spout, *_, added = tracked
    assert messages(spout.read_range(spark, added), "letter") == [("0", 5, "f")]


def test_a_replay_by_row_id_finds_what_was_not_deleted(tracked, spark):
    found = tracked[0].read_positions(spark, positions(("0", 1), ("0", 3)), after())
    assert messages(found, "letter") == [("0", 3, "d")]


@pytest.mark.extended
def test_a_tracked_table_is_planned_by_its_log_and_counted_where_that_does_not_tell(place, spark):
    path = place.path("letters")

    def write(letters):
        frame = spark.createDataFrame([(letter,) for letter in letters], "letter string").coalesce(1)
        frame.write.format("delta").option("delta.enableRowTracking", "true").mode("append").save(path)

    write("ab")
    spout = DeltaSpout(path)
    first = spout.next_range(spark, after(), 9)
    spark.sql(f"UPDATE delta.`{path}` SET letter = upper(letter)")
    assert spout.next_range(spark, after(first), 9) is None
    write("cde")
    # The update has drawn ids for two rows that it wrote again, so there are five positions for three rows.
    by_log, counted = (spout.next_range(spark, after(first), limit) for limit in (5, 3))
    assert (by_log["upto"], by_log["end"]) == (counted["upto"], counted["end"]) == (6, 6)
    assert messages(spout.read_range(spark, by_log), "letter") == [
        ("0", 4, "c"),
        ("0", 5, "d"),
        ("0", 6, "e"),
    ]
    spark.sql(f"ALTER TABLE delta.`{path}` SET TBLPROPERTIES (delta.enableRowTracking = false)")
    with pytest.raises(SourceError, match="have no stable position"):
        spout.next_range(spark, after(first), 9)


def test_positions_of_a_tracked_table_that_are_unread_are_told_without_spark(tracked):
    spout, first, second, _, added = tracked
    histories = (after(), after(first), after(first, second), after(first, second, added))
    assert [spout.backlog(history).unread for history in histories] == [
        {"positions": 6},
        {"positions": 4},
        {"positions": 1},
        {},
    ]


def test_rows_of_a_table_with_a_key_are_read_in_its_order(place, spark):
    path = place.add("keyed", id=[30, 10, 40, 20])
    spout = DeltaSpout(path, key="id")
    first = spout.next_range(spark, after(), 3)
    assert messages(spout.read_range(spark, first), "id") == [("0", 10, 10), ("0", 20, 20), ("0", 30, 30)]
    place.add("keyed", id=[50, 60])
    second = spout.next_range(spark, after(first), 2)
    assert messages(spout.read_range(spark, second)) == [("0", 40), ("0", 50)]
    DeltaTable(path).delete("id = 20")
    assert messages(spout.read_positions(spark, positions(("0", 20), ("0", 30)), after())) == [("0", 30)]


KINDS = {  # of a table with a key -> how it is made of another, and changed
    "shallow clone": ("SHALLOW CLONE {other}", None),
    "partitioned": ("USING delta PARTITIONED BY (part) AS SELECT * FROM {other}", None),
    "deletion vectors": (
        "USING delta TBLPROPERTIES ('delta.enableDeletionVectors' = 'true') AS SELECT * FROM {other}",
        "DELETE FROM {table} WHERE id = 9",
    ),
    "column mapping": (
        "USING delta TBLPROPERTIES ('delta.columnMapping.mode' = 'name') AS SELECT id, part p FROM {other}",
        "ALTER TABLE {table} RENAME COLUMN p TO part",
    ),
}


@pytest.mark.parametrize(
    "kind",
    [
        pytest.param(each, marks=pytest.mark.extended if each == "deletion vectors" else pytest.mark.thorough)
        for each in KINDS
    ],
)
def test_a_table_of_any_kind_with_a_key_is_planned_and_read(kind, place, spark):
    other = place.add("other", id=[1, 2, 9], part=["a", "b", "c"])
    path = place.path("[x] table")
    made, change = KINDS[kind]
    source = f"delta.`{other}`"
    spark.sql(f"CREATE TABLE delta.`{path}` {made.format(other=source)}")
    if change:
        spark.sql(change.format(table=f"delta.`{path}`"))
    left = [("0", 1, "a"), ("0", 2, "b"), ("0", 9, "c")][: 2 if kind == "deletion vectors" else 3]
    spout = DeltaSpout(path, key="id")
    planned = spout.next_range(spark, after(), limit=2)
    assert (planned["upto"], planned["end"]) == (2, left[-1][1])
    assert messages(spout.read_range(spark, planned), "part") == left[:2]
    assert messages(spout.read_positions(spark, positions(("0", 1), ("0", 9)), after(planned)), "part") == [
        each for each in left if each[1] != 2
    ]


def test_a_new_spout_of_a_table_begins_with_the_rows_of_its_start_version(place, spark):
    path = place.add("begun", id=[1, 2])
    spouts = [DeltaSpout(path, key="id", start_version=version) for version in (1, 2)]
    assert [spout.next_range(spark, after(), 9) for spout in spouts] == [None, None]
    place.add("begun", id=[3])
    place.add("begun", id=[4])
    first, second = (spout.next_range(spark, after(), 9) for spout in spouts)
    assert messages(spouts[0].read_range(spark, first)) == [("0", 3), ("0", 4)]
    assert messages(spouts[1].read_range(spark, second)) == [("0", 4)]
    assert spouts[1].next_range(spark, after(first), 9) is None


def test_a_new_spout_of_a_tracked_table_begins_with_the_rows_of_its_start_version(tracked, spark):
    spout = DeltaSpout(tracked[0].path, start_version=1)
    found = spout.next_range(spark, after(), 9)
    assert messages(spout.read_range(spark, found), "letter") == [("0", 5, "f")]


def test_an_empty_table_has_no_range(place, spark):
    path = place.add("empty", id=pa.array([], pa.int64()))
    assert DeltaSpout(path, key="id").next_range(spark, after(), 9) is None


def test_a_table_without_row_tracking_or_key_is_told_how_to_get_them(place, spark):
    path = place.add("plain", id=[1])
    with pytest.raises(
        SourceError, match=r"ALTER TABLE delta\..*'delta.enableRowTracking' = 'true'.*key=\.\.\."
    ):
        DeltaSpout(path).next_range(spark, after(), 9)


@pytest.mark.parametrize(
    ("key", "why"),
    [
        ("maybe", r"1 rows of .* have no maybe"),
        ("name", "must be an integer column; it is of type string"),
        ("missing", "must be an integer column; it is not there"),
    ],
)
def test_a_key_that_cannot_tell_rows_apart_is_refused(place, spark, key, why):
    path = place.add("keyless", maybe=[1, None], name=["a", "b"])
    with pytest.raises(SourceError, match=why):
        DeltaSpout(path, key=key).next_range(spark, after(), 9)


def test_a_column_with_a_reserved_name_is_refused(place, spark):
    path = place.add("reserved", id=[1], _root_id=[1])
    with pytest.raises(SourceError, match="_root_id; names that begin with an underscore are reserved"):
        DeltaSpout(path, key="id").next_range(spark, after(), 9)


def test_a_missing_table_is_named(place, spark):
    with pytest.raises(SourceError, match=r"There is no Delta table at .*/nowhere"):
        DeltaSpout(place.path("nowhere"), key="id").next_range(spark, after(), 9)


# Files

ODD_NAMES = {
    "._hidden twice": b"one\n",
    ".h/_i {j}+%20 #ü?.txt": b"one\ntwo",
    "a b.txt": b"one\ntwo\n",
    "c [d].txt": b"one\r\ntwo\r\n",
    "e 100%.txt": b"one\n\ntwo",
    "f/g/h+i.txt": b"deep\n",
    "f/j%20k.txt": b"per cent\n",
    "l.txt": b"",
    "m{n}?*.txt": b"pattern\n",
    "naïve ü.txt": "grüße\n".encode(),
    "o#p.txt": b"uri\n",
}


@pytest.fixture(scope="module")
def folder(shared_place):
    """A folder of text files whose names and ends of line are all that a file system allows."""
    root = shared_place.folder / "odd names"
    for name, content in ODD_NAMES.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(content)
    spout = FileSpout(str(root))
    return spout, spout.next_range(shared_place.spark, after(), 100)


def test_lines_of_files_are_counted_whatever_their_names_and_ends_and_empty_files_left_out(folder):
    assert parts(folder[1]) == [
        ("._hidden twice", 0, 1, 1),
        (".h/_i {j}+%20 #ü?.txt", 0, 2, 2),
        ("a b.txt", 0, 2, 2),
        ("c [d].txt", 0, 2, 2),
        ("e 100%.txt", 0, 3, 3),
        ("f/g/h+i.txt", 0, 1, 1),
        ("f/j%20k.txt", 0, 1, 1),
        ("m{n}?*.txt", 0, 1, 1),
        ("naïve ü.txt", 0, 1, 1),
        ("o#p.txt", 0, 1, 1),
    ]


def test_each_line_is_a_message_at_its_file_and_number(folder, spark):
    spout, planned = folder
    assert messages(spout.read_range(spark, planned), "value") == [
        ("._hidden twice", 1, "one"),
        (".h/_i {j}+%20 #ü?.txt", 1, "one"),
        (".h/_i {j}+%20 #ü?.txt", 2, "two"),
        ("a b.txt", 1, "one"),
        ("a b.txt", 2, "two"),
        ("c [d].txt", 1, "one"),
        ("c [d].txt", 2, "two"),
        ("e 100%.txt", 1, "one"),
        ("e 100%.txt", 2, ""),
        ("e 100%.txt", 3, "two"),
        ("f/g/h+i.txt", 1, "deep"),
        ("f/j%20k.txt", 1, "per cent"),
        ("m{n}?*.txt", 1, "pattern"),
        ("naïve ü.txt", 1, "grüße"),
        ("o#p.txt", 1, "uri"),
    ]


def test_lines_are_read_back_by_their_positions(folder, spark):
    spout, planned = folder
    hidden = (".h/_i {j}+%20 #ü?.txt", 2)
    wanted = positions(hidden, ("c [d].txt", 2), ("e 100%.txt", 3), ("f/j%20k.txt", 1), ("unknown.txt", 1))
    found = spout.read_positions(spark, wanted, after(planned))
    expected = [
        (*hidden, "two"),
        ("c [d].txt", 2, "two"),
        ("e 100%.txt", 3, "two"),
        ("f/j%20k.txt", 1, "per cent"),
    ]
    assert messages(found.where("_kind IS NULL"), "value") == expected
    assert reports(found) == [("unknown.txt", 1, "lost", "file changed or vanished: unknown.txt")]


@pytest.mark.parametrize("schema", [None, "id bigint, name string"])
def test_lines_that_are_read_back_without_spark_are_those_that_spark_reads(place, spark, monkeypatch, schema):
    root = place.folder / "odd, of 100%"
    (root / "below").mkdir(parents=True)
    good = '{"id": 1, "name": "caf\u00e9"}'.encode()
    for name, lines in {
        "a.txt": [good, good + b"\r", b"", b" ", b"\r", b"{", b'{"id": "x"}', b"\xff" + good, b"a\x00b"],
        "below/b \u00fc": [b"\xef\xbb\xbf" + good, b"caf\xe9\r", good],
    }.items():
        (root / name).write_bytes(b"\n".join(lines))
    spout = FileSpout(str(root), format="json" if schema else "text", schema=schema)
    planned = spout.next_range(spark, after(), 100)
    wanted = positions(*((file["path"], n) for file in planned["files"] for n in range(1, file["end"] + 2)))
    frame = spout.read_positions(spark, wanted, after(planned))
    found = sorted(frame.toArrow().to_pylist(), key=repr)
    monkeypatch.setattr(local_reads, "MOST_MESSAGES", 0)
    by_spark = spout.read_positions(spark, wanted, after(planned))
    assert frame.schema.toNullable() == by_spark.schema.toNullable()
    assert found == sorted(by_spark.toArrow().to_pylist(), key=repr)
    assert found == sorted(spout.read_range(spark, planned).toArrow().to_pylist(), key=repr)
    assert {row["_kind"] for row in found} == {None, "fail"}


def test_a_folder_without_new_files_has_no_range(folder, spark):
    spout, planned = folder
    assert spout.next_range(spark, after(planned), 100) is None


def test_a_file_has_the_mark_that_sparks_own_listing_gave_it(folder, spark):
    spout, planned = folder
    listed = spark.read.format("binaryFile").option("recursiveFileLookup", "true").load(spout.folder)
    marks = listed.select(F.concat_ws(":", "length", F.unix_millis("modificationTime")))
    assert {mark for (mark,) in marks.collect()} <= {file["mark"] for file in planned["files"]}


def test_files_that_earlier_plans_passed_over_come_next_and_begun_ones_are_finished(place, spark):
    root = place.folder / "earlier"
    root.mkdir()
    for name in ("_a.txt", "b.txt", "c.tmp"):
        (root / name).write_text(f"{name} 1\n{name} 2\n")
    spout = FileSpout(str(root))
    marks = {path: file.mark for path, file in list_folder(str(root)).files.items()}
    earlier = [
        {"path": "b.txt", "mark": marks["b.txt"], "after": 0, "upto": 2, "end": 2},
        {"path": "c.tmp", "mark": marks["c.tmp"], "after": 0, "upto": 1, "end": 2},
    ]
    planned = spout.next_range(spark, after({"files": earlier}), 9)
    assert parts(planned) == [("c.tmp", 1, 2, 2), ("_a.txt", 0, 2, 2)]
    assert messages(spout.read_range(spark, planned), "value") == [
        ("_a.txt", 1, "_a.txt 1"),
        ("_a.txt", 2, "_a.txt 2"),
        ("c.tmp", 2, "c.tmp 2"),
    ]


def test_a_line_that_is_not_utf8_is_failed_and_a_long_one_is_not(place, spark):
    root = place.folder / "lines"
    root.mkdir()
    (root / "a.txt").write_bytes(b"fine\ncaf\xe9\nfine\n")
    (root / "b.txt").write_bytes(b"x" * 10_000_000 + b"\ny\n")
    spout = FileSpout(str(root))
    found = spout.read_range(spark, spout.next_range(spark, after(), 100)).withColumn("n", F.length("value"))
    assert messages(found, "_kind", "_error", "n") == [
        ("a.txt", 1, None, None, 4),
        ("a.txt", 2, "fail", "not valid UTF-8", 4),
        ("a.txt", 3, None, None, 4),
        ("b.txt", 1, None, None, 10_000_000),
        ("b.txt", 2, None, None, 1),
    ]


def test_a_limit_ends_a_range_in_the_middle_of_a_file_and_the_next_one_goes_on(place, spark):
    root = place.folder / "many"
    root.mkdir()
    (root / "a.txt").write_text("1\n2\n3\n4\n5\n")
    (root / "b.txt").write_text("6\n7\n")
    spout, history = FileSpout(str(root)), []
    while planned := spout.next_range(spark, after(*history), 3):
        history.append(planned)
    expected = [[("a.txt", 0, 3, 5)], [("a.txt", 3, 5, 5), ("b.txt", 0, 1, 2)], [("b.txt", 1, 2, 2)]]
    assert [parts(planned) for planned in history] == expected
    assert messages(spout.read_range(spark, history[1]), "value") == [
        ("a.txt", 4, "4"),
        ("a.txt", 5, "5"),
        ("b.txt", 1, "6"),
    ]


def test_a_new_file_is_picked_up_and_one_that_changed_or_vanished_is_lost(place, spark):
    root = place.folder / "unsteady"
    root.mkdir()
    for name in "abc":
        (root / name).write_text(f"{name}1\n{name}2\n")
    spout = FileSpout(str(root))
    planned = spout.next_range(spark, after(), 100)
    (root / "a").write_text("a1\na2\na3\n")
    (root / "b").unlink()
    (root / "d").write_text("d1\n")
    changed = "file changed or vanished: "
    lost = [(name, line, "lost", changed + name) for name in "ab" for line in (1, 2)]
    found = spout.read_range(spark, planned)
    assert (reports(found), messages(found.where("_kind IS NULL"), "value")) == (
        lost,
        [("c", 1, "c1"), ("c", 2, "c2")],
    )
    assert parts(spout.next_range(spark, after(planned), 100)) == [("d", 0, 1, 1)]
    wanted = positions(("a", 1), ("b", 1), ("c", 1))
    again = spout.read_positions(spark, wanted, after(planned))
    assert messages(again.where("_kind IS NULL"), "value") == [("c", 1, "c1")]
    assert reports(again) == lost[::2]


def test_a_file_that_changed_at_the_same_length_is_lost(place, spark):
    root = place.folder / "touched"
    root.mkdir()
    (root / "a").write_text("a1\n")
    spout = FileSpout(str(root))
    planned = spout.next_range(spark, after(), 100)
    os.utime(root / "a", (0, 0))
    lost = [("a", 1, "lost", "file changed or vanished: a")]
    assert reports(spout.read_range(spark, planned)) == lost
    assert reports(spout.read_positions(spark, positions(("a", 1)), after(planned))) == lost


def test_json_lines_that_do_not_parse_are_failed(place, spark):
    root = place.folder / "json"
    root.mkdir()
    lines = ['{"id": 1, "name": "a"}', "{broken", "", '{"id": "x"}', '{"name": "b", "more": 0}', "  ", "[1]"]
    (root / "a.json").write_text("\n".join(lines))
    (root / "a.csv").write_text("not taken")
    spout = FileSpout(str(root), format="json", schema="id bigint, name string", glob="*.json")
    planned = spout.next_range(spark, after(), 100)
    found = spout.read_range(spark, planned)
    assert messages(found.where("_kind IS NULL"), "id", "name") == [
        ("a.json", 1, 1, "a"),
        ("a.json", 5, None, "b"),
    ]
    bad = "not valid JSON for the schema: "
    of_id = 'id: "x" is no bigint: {"id": "x"}'
    failed = [("a.json", 2, "fail", bad + "{broken"), ("a.json", 4, "fail", bad + of_id)]
    assert (parts(planned), reports(found)) == (
        [("a.json", 0, 7, 7)],
        [*failed, ("a.json", 7, "fail", bad + "[1]")],
    )


def csv(place, text, **options):
    """A spout of one file of CSV, and the range of its lines."""
    root = place.folder / "csv"
    root.mkdir()
    (root / "a.csv").write_bytes(text)
    spout = FileSpout(str(root), format="csv", schema="id bigint, name string", **options)
    return spout, spout.next_range(place.spark, after(), 100)


@pytest.mark.extended
def test_rows_of_csv_are_messages_at_their_lines_and_read_back_by_these(place, spark):
    text = b'\xef\xbb\xbfID,"name"\r\n1,a\r\n\r\n2,"b, ""c"""\r\n3,\r\n4,""\r\n'
    spout, planned = csv(place, text)
    expected = [("a.csv", 2, 1, "a"), ("a.csv", 4, 2, 'b, "c"'), ("a.csv", 5, 3, None), ("a.csv", 6, 4, None)]
    found = spout.read_range(spark, planned)
    assert (parts(planned), messages(found, "id", "name"), reports(found)) == (
        [("a.csv", 0, 6, 6)],
        expected,
        [],
    )
    wanted = positions(("a.csv", 4), ("a.csv", 1), ("a.csv", 3))
    assert messages(spout.read_positions(spark, wanted, after(planned)), "id", "name") == [expected[1]]


def test_a_file_of_csv_may_have_no_header_and_another_delimiter(place, spark):
    spout, planned = csv(place, b"1;a,b\n2;c\n", header=False, delimiter=";")
    found = spout.read_range(spark, planned)
    assert messages(found, "id", "name") == [("a.csv", 1, 1, "a,b"), ("a.csv", 2, 2, "c")]


def test_rows_of_csv_that_do_not_parse_are_failed(place, spark):
    spout, planned = csv(place, b"id,name\nx,a\n1\n2,b,c\n3,d\n4,caf\xe9\n")
    found = spout.read_range(spark, planned)
    bad = "not valid CSV for the schema: "
    assert reports(found) == [
        ("a.csv", 2, "reject", bad + 'id: "x" is no bigint: x,a'),
        ("a.csv", 3, "reject", bad + "fields: 1 instead of 2: 1"),
        ("a.csv", 4, "reject", bad + "fields: 3 instead of 2: 2,b,c"),
        ("a.csv", 6, "reject", "not valid UTF-8"),
    ]
    assert messages(found.where("_kind IS NULL"), "id", "name") == [("a.csv", 5, 3, "d")]


@pytest.mark.extended
@pytest.mark.parametrize(
    ("text", "failed", "good"),
    [
        (b'1,"a\nb\nc"\n2,d\n', [(1, '1,"a'), (1, "b"), (1, 'c"')], [("a.csv", 4, 2, "d")]),
        (
            b'1,"a\r\n\r\nb"\r\n2,d\r\n',
            [(1, '1,"a\r'), (1, "\r"), (1, 'b"')],
            [("a.csv", 4, 2, "d")],
        ),
        (b'1,a\n2,5" pipe\n3,b\n', [(2, '2,5" pipe'), (2, "3,b")], [("a.csv", 1, 1, "a")]),
        (b'1,a\n2,"b', [(2, '2,"b')], [("a.csv", 1, 1, "a")]),
        (b'1,"a""\n"",b""\nc"\n', [(1, '1,"a""'), (1, '"",b""'), (1, 'c"')], []),
        (b'1,"a\nb","c\nd"\n', [(1, '1,"a'), (1, 'b","c'), (2, 'd"')], []),
    ],
    ids=["three lines", "a blank line", "a stray quote", "at the end", "doubled", "one after the other"],
)
def test_each_line_that_a_quoted_field_of_csv_goes_across_names_the_line_that_opens_it(
    place, spark, text, failed, good
):
    spout, planned = csv(place, text, header=False)
    found = spout.read_range(spark, planned)
    why = "a row must be one line, and here a quoted field goes on in another or is not closed; line "
    assert [error for *_, error in reports(found)] == [
        f"{why}{line} opens it: {text}" for line, text in failed
    ]
    assert messages(found.where("_kind IS NULL"), "id", "name") == good


def test_a_character_of_zero_in_a_row_of_csv_is_one_of_its_field(place, spark):
    spout, planned = csv(place, b'id,name\n1,a\0\n2,"\0(\0)""\0"\n\0,b\n3,"\0\nc"\n')
    found = spout.read_range(spark, planned)
    assert messages(found.where("_kind IS NULL"), "id", "name") == [
        ("a.csv", 2, 1, "a\0"),
        ("a.csv", 3, 2, '\0(\0)"\0'),
    ]
    assert [(line, why[:40]) for _, line, _, why in reports(found)] == [
        (4, 'not valid CSV for the schema: id: "\0" is'),
        (5, "a row must be one line, and here a quote"),
        (6, "a row must be one line, and here a quote"),
    ]


def test_a_row_of_csv_has_the_nulls_the_escapes_and_the_required_columns_that_it_is_told(place, spark):
    root = place.folder / "csv"
    root.mkdir()
    text = b'NA,a\n1,NA\n2,"b \\"c\\", d"\n3,"e\\\\"\n4,C:\\new\n5,"f\\"\ng"\n6,"x""y"\n'
    (root / "a.csv").write_bytes(text)
    options = {"header": False, "null": "NA", "escape": "\\"}
    spout = FileSpout(str(root), format="csv", schema="id bigint NOT NULL, name string", **options)
    found = spout.read_range(spark, spout.next_range(spark, after(), 100))
    assert messages(found.where("_kind IS NULL"), "id", "name") == [
        ("a.csv", 2, 1, None),
        ("a.csv", 3, 2, 'b "c", d'),
        ("a.csv", 4, 3, "e\\"),
        ("a.csv", 5, 4, "C:\\new"),
        ("a.csv", 8, 6, 'x"y'),
    ]
    assert [(line, why.rpartition("; ")[2]) for _, line, _, why in reports(found)] == [
        (1, "not valid CSV for the schema: id: null, and it is NOT NULL: NA,a"),
        (6, 'line 6 opens it: 5,"f\\"'),
        (7, 'line 6 opens it: g"'),
    ]


@pytest.mark.parametrize(
    ("text", "failed"),
    [
        (b"name,id\n1,2\n3,4\n", [(1, "name,id"), (2, "name,id"), (3, "name,id")]),
        (b"1,a", [(1, "1,a")]),
        (b"id,name\r1,a\r2,b\r", [(1, "id,name\r1,a\r2,b\r")]),
        (b"id,name,\n1,a,\n", [(1, "id,name,"), (2, "id,name,")]),
        (b'id,"na\nme"\n', [(1, 'id,"na'), (2, 'id,"na')]),
    ],
    ids=["other names", "no header", "carriage returns", "an empty last name", "a name across lines"],
)
def test_all_lines_of_a_file_without_the_header_are_failed(place, spark, text, failed):
    spout, planned = csv(place, text)
    why = "the header is not id,name but "
    expected = [("a.csv", line, "reject", why + header) for line, header in failed]
    assert reports(spout.read_range(spark, planned)) == expected


@pytest.mark.extended
def test_a_row_of_csv_that_is_failed_is_a_dead_letter_and_a_replay_reads_it_again(place, spark):
    root = place.folder / "shop"
    root.mkdir()
    (root / "a.csv").write_text("id,name\n1,a\nx,b\n2,c\n")
    topology = Topology("shop", retry=ExponentialBackoff(initial_seconds=1, limit=1))
    spout = topology.spout("rows", FileSpout(str(root), format="csv", schema="id bigint, name string"))
    topology.publish(topology.bolt(spout, name="same")(lambda tuples: tuples), to=place.path("same"))
    run = place.run(topology)
    drain(run, sleep=place.clock.advance)
    assert place.rows("same") == [(1, "a"), (2, "c")]
    others = [each for each in states(run) if each[2] not in ("acked", "pending")]
    assert others == [(3, 1, "dead_letter"), (3, 1, "failed")]  # for good, so it is not tried again
    acked = Selection(states=(State.ACKED,), positions=(("a.csv", 2),), spout="rows")
    assert replay_by_hand(run, acked, "why", "somebody").replayed == 1
    drain(run, sleep=place.clock.advance)
    assert (place.rows("same"), audit_report(topology, run.store).verdict) == ([(1, "a"), (2, "c")], "pass")


@pytest.mark.extended
def test_rows_of_parquet_files_are_messages(place, spark):
    root = place.folder / "parquet"
    (root / "day=1").mkdir(parents=True)
    pq.write_table(pa.table({"id": [7, 8, 9]}), root / "a b.parquet")
    pq.write_table(pa.table({"id": [10]}), root / "day=1" / "_c.parquet")
    spout = FileSpout(str(root), format="parquet", glob="*.parquet")
    planned = spout.next_range(spark, after(), 2)
    assert messages(spout.read_range(spark, planned), "id") == [("a b.parquet", 1, 7), ("a b.parquet", 2, 8)]
    rest = spout.next_range(spark, after(planned, {"files": [{**planned["files"][0], "upto": 3}]}), 9)
    assert messages(spout.read_range(spark, rest), "id") == [("day=1/_c.parquet", 1, 10)]
    assert messages(spout.read_positions(spark, positions(("a b.parquet", 3)), after(planned)), "id") == [
        ("a b.parquet", 3, 9)
    ]


def test_when_every_parquet_file_is_gone_all_of_its_rows_are_lost(place, spark):
    root = place.folder / "gone"
    root.mkdir()
    pq.write_table(pa.table({"id": [7, 8]}), root / "a.parquet")
    spout = FileSpout(str(root), format="parquet")
    planned = spout.next_range(spark, after(), 9)
    (root / "a.parquet").unlink()
    lost = [("a.parquet", offset, "lost", "file changed or vanished: a.parquet") for offset in (1, 2)]
    assert reports(spout.read_range(spark, planned)) == lost


def test_a_missing_folder_is_named(place, spark):
    with pytest.raises(SourceError, match=r"The folder .*/nowhere cannot be read"):
        FileSpout(place.path("nowhere")).next_range(spark, after(), 9)


@pytest.mark.parametrize(
    "wrong",
    [
        {"format": "xml"},
        {"format": "json"},
        {"format": "csv"},
        {"schema": "id bigint"},
        {"header": False},
        {"format": "json", "schema": "id bigint", "delimiter": ";"},
        {"format": "csv", "schema": "id bigint", "delimiter": ""},
        {"format": "csv", "schema": "id bigint", "delimiter": '"'},
        {"format": "csv", "schema": "id bigint", "delimiter": "||"},
    ],
    ids=str,
)
def test_a_format_that_cannot_be_read_is_refused(wrong):
    with pytest.raises((SourceError, SettingsError)):
        FileSpout("folder", **wrong)
