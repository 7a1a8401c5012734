"""Streams as files that Spark writes and the client commits: what they hold, and what is read back."""

import datetime
import decimal
from pathlib import Path

import polars as pl
import pytest
from pyspark.sql import functions as F

from acker.core.errors import BoltError
from acker.core.snapshot.snapshot import Snapshot
from acker.core.snapshot.streams import all_tuples, rows_by_batch
from acker.core.store.schemas import STREAM_PROPERTIES, properties_at
from acker.core.store.store import Store
from acker.core.store.tables import files_of, path_of, query
from acker.spark.streams import append, rows, stamped

REPORT = "_root_id bigint, _kind string, _error string"
NOON = datetime.datetime(2026, 3, 29, 12, 30, 0, 123456, datetime.UTC)


@pytest.fixture
def store(place):
    found = Store(str(place.folder / "store"), "typed")
    found.create()
    return found


@pytest.fixture
def write(place, store):
    """Writes a batch of a component's stream: the user's columns as DDL, and rows of them."""

    def write(batch, columns, *values, component="typed"):
        given = [(1, None, None, *each) for each in values]
        frame = place.spark.createDataFrame(given, f"{REPORT}, {columns}")
        table = store.open(f"streams/{component}")
        append(stamped(frame, table, component, batch), store, component, batch)

    return write


@pytest.fixture
def read(place, store):
    """The user's columns of some batches, as Spark reads them."""

    def read(*batches):
        frame = rows(place.spark, Snapshot(store), "typed", batches)
        users = [name for name in frame.columns if not name.startswith("_")]
        quoted = [F.col(f"`{name}`") for name in users]
        return [tuple(row) for row in frame.orderBy("_batch", *quoted[:1]).select(*quoted).collect()]

    return read


VALUES = {
    "timestamp": NOON,
    "timestamp_ntz": NOON.replace(tzinfo=None),
    "date": datetime.date(1899, 12, 31),
    "decimal(38,10)": decimal.Decimal("1234567890123456789.0123456789"),
    "binary": bytearray(b"\0\xff"),
    "tinyint": -128,
    "float": 0.5,
    "boolean": True,
    "array<struct<a:int,b:array<string>>>": [(1, ["x", None])],
    "map<string,struct<a.b:bigint>>": None,
    "struct<a:struct<b:timestamp>>": ((NOON,),),
}


@pytest.mark.parametrize("kind", VALUES)
def test_a_value_of_each_type_comes_back(kind, place, write, read, store):
    value = VALUES[kind]
    ddl = kind.replace("a.b", "`a.b`")
    write(1, f"id int, `a.value` {ddl}", (1, value), (2, None))
    at_utc = place.spark.conf.get("spark.sql.session.timeZone")
    assert at_utc in ("UTC", "Etc/UTC")
    found = [row[1] for row in read(1)]
    expected = [value, None]
    if isinstance(value, datetime.datetime):
        found = [each and each.replace(tzinfo=value.tzinfo) for each in found]
    elif kind == "struct<a:struct<b:timestamp>>":
        found = [each and each.a.b.replace(tzinfo=datetime.UTC) for each in found]
        expected = [NOON, None]
    elif isinstance(value, list):
        found = [each and [(one.a, one.b) for one in each] for each in found]
    assert found == expected
    table = store.require("streams/typed")
    assert [row["id"] for row in query("SELECT id FROM t ORDER BY id", t=table)] == [1, 2]
    assert pl.scan_parquet(files_of(table)).select("id").collect()["id"].sort().to_list() == [1, 2]


def test_a_new_column_and_a_new_field_are_null_in_what_was_there_before(write, read):
    write(1, "id int, s struct<a:int>", (1, (1,)))
    write(2, "id int, s struct<b:string>, more array<int>", (2, ("x",), [3]))
    write(3, "id int", (3,))
    assert read(1, 2, 3) == [(1, (1, None), None), (2, (None, "x"), [3]), (3, None, None)]


def test_a_narrower_type_is_cast_and_a_name_is_written_as_the_stream_has_it(write, read, store):
    write(1, "id bigint, n decimal(10,2)", (1, decimal.Decimal("1.25")))
    write(2, "ID int, N decimal(4,1)", (2, decimal.Decimal("1.5")))
    assert read(1, 2) == [(1, decimal.Decimal("1.25")), (2, decimal.Decimal("1.50"))]
    names = [field.name for field in store.require("streams/typed").schema().fields]
    assert names == ["_batch", "_root_id", "_kind", "_error", "id", "n"]


def test_a_column_gets_a_wider_type_and_what_was_there_before_is_read_in_it(write, read, store):
    write(1, "id int, b tinyint, f float, s struct<a:int>", (1, 1, 0.5, (1,)))
    write(2, "id bigint, b smallint, f double, more int", (2**40, 300, 0.1, 7))
    write(3, "id int, b bigint", (3, 2**50))
    nothing = (None, None)
    assert [tuple(row) for row in read(1, 2, 3)] == [
        (1, 1, 0.5, (1,), None),
        (2**40, 300, 0.1, None, 7),
        (3, 2**50, *nothing, None),
    ]
    table = store.require("streams/typed")
    assert [row["id"] for row in query("SELECT id FROM t ORDER BY id", t=table)] == [1, 3, 2**40]
    kept = all_tuples("typed", table, pl.Schema({"id": pl.Int64(), "f": pl.Float64()}))
    assert kept.select("id", "f").sort("id").collect().rows() == [(1, 0.5), (3, None), (2**40, 0.1)]
    assert rows_by_batch(Snapshot(store), "typed") == {1: 1, 2: 1, 3: 1}
    assert table.metadata().configuration == properties_at(path_of(table), STREAM_PROPERTIES)


@pytest.mark.parametrize(
    ("columns", "sentence"),
    [
        ("id decimal(20,0)", "typed emits id as decimal(20,0), but its stream has it as int"),
        ("id double", "typed emits id as double, but its stream has it as int"),
        ("id string", "typed emits id as string, but its stream has it as int"),
        ("id int, s struct<a:string>", "typed emits s as struct<a:string>, but its stream has it as"),
        ("id int, v void", "typed emits a column of type void, which streams cannot hold"),
        ("id int, `a=b` int", "typed emits a column 'a=b'"),
    ],
)
def test_a_column_that_the_stream_cannot_hold_is_refused_and_nothing_is_written(
    columns, sentence, write, read, store
):
    write(1, "id int, s struct<a:int>", (1, (1,)))
    value = (None,) * (columns.count(", ") + 1)
    with pytest.raises(BoltError) as raised:
        write(2, columns, value)
    assert str(raised.value).startswith(sentence)
    assert (read(1, 2), rows_by_batch(Snapshot(store), "typed")) == ([(1, (1,))], {1: 1})


def test_a_batch_that_is_written_twice_is_there_once_and_vacuum_takes_the_rest(write, read, store):
    write(1, "id int", (1,))
    write(1, "id int, other int", (2, 2))
    write(2, "id int", (3,))
    write(2, "id int", (4,))
    write(3, "id int")
    assert (read(1, 2, 3), rows_by_batch(Snapshot(store), "typed")) == ([(1,), (3,)], {1: 1, 2: 1})
    assert Snapshot(store).written("typed") == 3
    folder = Path(store.path("streams/typed"))
    assert len(list(folder.glob("b*/*.parquet"))) > 1
    store.require("streams/typed").vacuum(0, dry_run=False, enforce_retention_duration=False, full=True)
    left = sorted(map(str, folder.glob("b*/*.parquet")))
    assert left == sorted(files_of(store.require("streams/typed")))
    assert read(1, 2, 3) == [(1,), (3,)]


def test_of_a_stream_that_somebody_rewrote_only_the_batches_meant_are_read(place, write, read, store):
    for batch in (1, 2, 3):
        write(batch, "n bigint", (batch,), (batch * 10,))
    store.require("streams/typed").optimize.compact()
    assert read(1, 3) == [(1,), (10,), (3,), (30,)]
    found = rows(place.spark, Snapshot(store), "typed", [2]).select("n", "_metadata.file_name").collect()
    assert sorted(row.n for row in found) == [2, 20]
    assert len({row.file_name for row in found}) == 1
