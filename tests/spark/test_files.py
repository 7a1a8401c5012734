"""Folders with files of every name, packing and kind: each is read whole, or left out with its name."""

import bz2
import gzip
import os
import unicodedata
import zlib
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from acker.core.retry import ExponentialBackoff
from acker.operations.cycle import drain, run_spout
from acker.reports.audit import audit_report
from acker.spouts import FileSpout
from acker.spouts.files.columns import OtherTypeError, united
from acker.spouts.files.listing import open_folder
from acker.topology.topology import Topology
from tests.kit.messages import after, messages, positions
from tests.kit.object_store import BUCKET

TWO = b'{"id": 1}\n{"id": 2}\n'
ODD_NAMES = [
    *("2026-01-01T00:00:00.json", "a:b.json", "C:\\x.json", ":", "_:.json", "back\\slash", "\\", "a\\"),
    *("line\nfeed", "%41", "%", "100%25:", "a+b", "[a]", "{a,b}", "*", "?", "*?[a]{b}", "'", '"', "`"),
    *(" lead", "trail ", "dot.", "~", "a=b", "#a", "a#b", "&;|<>", "tab\t", "\x01", "x" * 255, "ü" * 127),
    *(unicodedata.normalize("NFD", "ü"), "ü", "😀", "\u200b", "\ufeff", "$(a)", "viewfs:", "file:", "root"),
    *("day=1/a:b", "a:b/c", "[d]/*/{e}", " / ", "_a/_b", ".a/.b", "a.gz:b"),
]


def made(place, name, files):
    """A folder with these files, by their paths."""
    root = place.folder / name
    root.mkdir()
    for path, content in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(content)
    return str(root)


def parquet(compression="snappy", **columns) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table(columns), sink, compression=compression)
    return sink.getvalue().to_pybytes()


def everything(spark, spout, *columns, limit=1_000):
    """All messages, batch by batch, as they are read first; and what was left out."""
    history, found = [], []
    while planned := spout.next_range(spark, after(*history), limit):
        history.append(planned)
        found += messages(spout.read_range(spark, planned), *columns)
    return sorted(found), spout.backlog(after(*history))


@pytest.mark.parametrize("form", ["text", "parquet"])
@pytest.mark.parametrize("folder", ["names", "names, [all] {of} *"])
def test_a_file_is_read_whatever_its_name_is(place, spark, form, folder):
    content = b"1\n2\n" if form == "text" else parquet(value=["1", "2"])
    spout = FileSpout(made(place, folder, dict.fromkeys(ODD_NAMES, content)), format=form, ignore=())
    expected = sorted((name, number, str(number)) for name in ODD_NAMES for number in (1, 2))
    found, backlog = everything(spark, spout, "value")
    assert set(expected) ^ set(found) == set()
    assert (found, backlog.unread, backlog.left_out) == (expected, {}, {})
    planned = spout.next_range(spark, after(), 1_000)
    wanted = positions(*((name, 2) for name in ODD_NAMES))
    assert messages(spout.read_positions(spark, wanted, after(planned)), "value") == expected[1::2]


def zstd(content: bytes) -> bytes:
    return pa.compress(content, codec="zstd", asbytes=True)


def hadoop(content: bytes, codec: str) -> bytes:
    packed = pa.compress(content, codec=codec, asbytes=True)
    return len(content).to_bytes(4, "big") + len(packed).to_bytes(4, "big") + packed


PACKED = {
    "a.gz": gzip.compress(TWO),
    "b.json.GZ": gzip.compress(TWO),
    "c.gzip": gzip.compress(TWO[:10]) + gzip.compress(TWO[10:]),
    "d.json": gzip.compress(TWO),
    "e.gz.json": bz2.compress(TWO),
    "f.Bz2": bz2.compress(TWO[:10]) + bz2.compress(TWO[10:]),
    "g.zst": zstd(TWO),
    "h.ZSTD": zstd(TWO),
    "_i.gz": gzip.compress(TWO),
    ".j": zstd(TWO),
    "k:.deflate": zlib.compress(TWO),
    "l.Deflate": zlib.compress(TWO),
    "m.lz4": hadoop(TWO, "lz4_raw"),
    "n.SNAPPY": hadoop(TWO, "snappy"),
    "o.gz": bz2.compress(TWO),
    "p.bzip2": bz2.compress(TWO),
    "q.xz": gzip.compress(TWO),
    "r": TWO,
    "s.gz": gzip.compress(b""),
    "t.bz2": bz2.compress(b""),
}
LEFT_OUT = {
    "1.json.lz4": pa.compress(TWO, codec="lz4", asbytes=True),
    "2.xz": b"\xfd7zXZ\0" + TWO,
    "3.zip": b"PK\x03\x04" + TWO,
    "4.br": TWO,
    "5.gz": TWO,
    "6.json": TWO.decode().encode("utf-16"),
    "7.gz": gzip.compress(TWO.decode().encode("utf-16")),
    "8.json.gz.gz": gzip.compress(gzip.compress(TWO)),
    "9.tar.gz": gzip.compress(TWO),
    "A.json": parquet(id=[1, 2]),
    "B.gz": gzip.compress(os.urandom(10_000))[:5_000],
    "C.bz2": bz2.compress(os.urandom(10_000))[:-9],
    "I.bz2": bz2.compress(TWO) + bz2.compress(TWO).replace(b"BZh9", b"BZx9"),
    "D.zst": zstd(os.urandom(10_000))[:5_000],
    "E.deflate": zlib.compress(os.urandom(10_000))[:5_000],
    "F.snappy": hadoop(os.urandom(10_000), "snappy")[:-9],
    "G.lz4": hadoop(TWO, "lz4_raw")[:-5],
    "H.gz": gzip.compress(os.urandom(10_000))[:12],
}


def test_a_file_is_unpacked_as_it_is_packed_and_one_that_cannot_be_is_left_out_by_name(place, spark):
    spout = FileSpout(made(place, "packed", PACKED | LEFT_OUT), format="json", schema="id bigint")
    found, backlog = everything(spark, spout, "id")
    full = sorted(set(PACKED) - {"s.gz", "t.bz2"})
    assert found == [(name, number, number) for name in full for number in (1, 2)]
    assert backlog.unread == {}
    told = " ".join(f"{count} {why}" for why, count in backlog.left_out.items())
    assert sum(backlog.left_out.values()) == len(LEFT_OUT)
    assert [name for name in LEFT_OUT if name not in told] == ["G.lz4"], told  # the fourth of one kind


@pytest.mark.extended
@pytest.mark.thorough
def test_files_on_s3_are_unpacked_and_left_out_as_those_on_a_disk_are(place, spark, spark_on_s3):
    packed = {name: content for name, content in (PACKED | LEFT_OUT).items() if ":" not in name}
    here, there = made(place, "packed", packed), f"s3a://{BUCKET}/a place, 50% wörds"
    system, root = open_folder(there)
    for name, content in packed.items():
        with system.open_output_stream(f"{root}/{name}", compression=None) as file:
            file.write(content)
    spouts = (FileSpout(folder, format="json", schema="id bigint") for folder in (here, there))
    on_disk, on_s3 = (
        everything(session, spout, "id") for session, spout in zip((spark, spark_on_s3), spouts, strict=True)
    )
    assert on_s3[0] == on_disk[0]
    assert (on_s3[1].left_out, on_s3[1].unread) == (on_disk[1].left_out, {})


def test_a_message_of_a_packed_file_is_recovered_whatever_case_its_ending_has(place, spark):
    names = ["a.GZ", "b.Gz", "c.gzip", "d.json"]
    spout = FileSpout(made(place, "retried", dict.fromkeys(names, gzip.compress(b"one\ntwo\n"))))
    planned = spout.next_range(spark, after(), 100)
    wanted = positions(*((name, 2) for name in names))
    assert spout.read_locally(wanted, after(planned)) is None
    assert messages(spout.read_positions(spark, wanted, after(planned)), "value") == [
        (name, 2, "two") for name in names
    ]


def test_a_file_that_was_left_out_is_read_once_it_is_mended(place, spark):
    root = made(place, "mended", {"a.xz": b"\xfd7zXZ\0", "b": TWO})
    spout = FileSpout(root)
    planned = spout.next_range(spark, after(), 100)
    assert spout.next_range(spark, after(planned), 100) is None
    (place.folder / "mended" / "a.xz").write_bytes(gzip.compress(b"one\n"))
    again = spout.next_range(spark, after(planned), 100)
    assert messages(spout.read_range(spark, again), "value") == [("a.xz", 1, "one")]
    assert spout.backlog(after(planned, again)).left_out == {}


def test_columns_are_those_of_all_parquet_files_whatever_share_a_batch(place, spark):
    struct = pa.struct([("a", pa.int32())])
    wider = pa.struct([("A", pa.int64()), ("b", pa.string())])
    files = {
        "1": parquet(id=pa.array([1], pa.int32()), note=pa.nulls(1), n=pa.array([{"a": 1}], struct)),
        "2": parquet(ID=pa.array([2], pa.int64()), email=["x"], n=pa.array([{"A": 2, "b": "y"}], wider)),
        "3": parquet(note=["z"], id=pa.array([3], pa.int16())),
        "4": parquet(id=pa.array([], pa.int64()), late=pa.array([], pa.float64())),
        "5": parquet(id=["text"]),
        "6": parquet(id=[6], _x=[1]),
        "7": b"PAR1 but no more",
        "8": parquet(other=[8.5]),
    }
    spout = FileSpout(made(place, "columns", files), format="parquet")
    columns = ("id", "note", "n", "email", "late", "other")
    whole, backlog = everything(spark, spout, *columns)
    assert whole == [
        ("1", 1, 1, None, {"a": 1, "b": None}, None, None, None),
        ("2", 1, 2, None, {"a": 2, "b": "y"}, "x", None, None),
        ("3", 1, 3, "z", None, None, None, None),
        ("8", 1, None, None, None, None, None, 8.5),
    ]
    told = " ".join(backlog.left_out)
    assert all(each in told for each in ("column id is string", "_x have reserved names (6)", "no Parquet"))
    assert everything(spark, spout, *columns, limit=1)[0] == whole
    planned = spout.next_range(spark, after(), 1_000)
    wanted = positions(*((name, 1) for name in files))
    again = spout.read_positions(spark, wanted, after(planned))
    assert messages(again.where("_kind IS NULL"), *columns) == whole


def test_a_column_of_a_later_batch_is_published_and_a_type_that_does_not_fit_stops_nothing(place, spark):
    root = place.folder / "daily"
    root.mkdir()
    topology = Topology("daily", retry=ExponentialBackoff(limit=0))
    read = topology.spout("read", FileSpout(str(root), format="parquet"))
    topology.publish(topology.bolt(read, name="same")(lambda tuples: tuples), to=place.path("rows"))
    run = place.run(topology)
    days = [
        {"id": pa.array([1], pa.int32()), "note": pa.nulls(1)},
        {"id": pa.array([2], pa.int16()), "note": ["x"]},
        {"id": pa.array([3], pa.int64())},
        {"id": pa.array([4], pa.int32()), "price": [Decimal("1.5")]},
    ]
    for number, columns in enumerate(days):
        (root / f"{number}.parquet").write_bytes(parquet(**columns))
        drain(run)
    report = audit_report(run.topology, run.store)
    assert (report.passed, report.acked) == (True, 3)
    assert report.left_out == {
        "read": {"whose column id is bigint, and that of files before them int (2.parquet)": 1}
    }
    assert place.rows("rows") == [
        (1, None, None),
        (2, "x", None),
        (4, None, Decimal("1.5")),
    ]


@pytest.mark.parametrize(
    ("columns", "more", "both"),
    [
        ("a int", "A int, b string", "a int, b string"),
        ("a int", "a smallint", "a int"),
        ("a smallint", "a bigint", None),
        ("a bigint", "a double", None),
        ("a int", "a string", None),
        ("a float", "a double", None),
        ("a double", "a int", "a double"),
        ("a decimal(10,2)", "a decimal(5,2)", "a decimal(10,2)"),
        ("a decimal(10,2)", "a decimal(10,4)", None),
        ("a decimal(10,2)", "a int", None),
        ("a decimal(12,2)", "a int", "a decimal(12,2)"),
        ("a date", "a timestamp", None),
        ("a struct<x: int>", "a struct<X: smallint, y: int>", "a struct<x: int, y: int>"),
        ("a struct<X: int>", "a struct<x: bigint>", None),
        ("a array<struct<x: int>>", "a array<struct<y: int>>", "a array<struct<x: int, y: int>>"),
        ("a map<string, struct<x: int>>", "a map<string, struct<x: string>>", None),
        ("a struct<x: int>", "a array<int>", None),
    ],
)
def test_a_column_keeps_its_type_and_takes_what_fits_into_it(spark, columns, more, both):
    have, new = (spark.createDataFrame([], each).schema for each in (columns, more))
    try:
        found = united(have, new, {"a"})
    except OtherTypeError:
        found = None
    assert found == (both and spark.createDataFrame([], both).schema)


def test_types_of_a_first_plan_are_the_widest(spark):
    have, new, both = (
        spark.createDataFrame([], each).schema
        for each in ("a int, b decimal(9,0)", "a bigint, b decimal(20,0)", "a bigint, b decimal(20,0)")
    )
    assert united(have, new, set()) == both


def test_rows_of_a_file_with_broken_pages_are_lost_and_the_others_are_read(place):
    folder = place.folder / "pages"
    folder.mkdir()
    for name in "abc":
        pq.write_table(pa.table({"id": list(range(1_000))}), folder / name, compression="none")
    content = bytearray((folder / "b").read_bytes())
    content[10:40] = bytes(30)
    (folder / "b").write_bytes(content)
    topology = Topology("pages", retry=ExponentialBackoff(limit=0))
    read = topology.spout("read", FileSpout(str(folder), format="parquet"))
    topology.publish(topology.bolt(read, name="same")(lambda tuples: tuples), to=place.path("rows"))
    run = place.run(topology)
    drain(run)
    report = audit_report(run.topology, run.store)
    assert (report.acked, report.lost) == (2_000, 1_000)
    with pq.ParquetFile(folder / "a") as whole:
        assert sorted(place.rows("rows")) == sorted([(id,) for id in whole.read()["id"].to_pylist()] * 2)


def test_rows_of_a_file_at_which_sparks_reader_alone_fails_are_lost_and_the_others_are_read(place):
    rows = parquet(id=list(range(10)), compression="lz4")
    packed = {"a": rows, "b": rows.replace(b"\x15\x0e", b"\x15\x0a"), "c": rows}  # Hadoop's LZ4, it says
    spout = FileSpout(made(place, "refused", packed), format="parquet")
    topology = Topology("refused", retry=ExponentialBackoff(limit=0))
    topology.publish(topology.spout("read", spout), to=place.path("rows"))
    run = place.run(topology)
    drain(run)
    report = audit_report(run.topology, run.store)
    assert (report.acked, report.lost) == (20, 10)
    assert place.rows("rows") == sorted([(id,) for id in range(10)] * 2)
    (why,) = {finding.why for finding in report.findings["lost"]}
    assert why == "attempt 1: file cannot be read, at which Spark's reader fails: FAILED_READ_FILE.NO_HINT: b"


def test_messages_that_a_file_had_when_it_was_planned_and_has_no_more_are_lost(place):
    folder = made(place, "fewer", {"a": b"1\n2\n3\n4\n5\n", "b": b"6\n"})
    topology = Topology("fewer", batch_rows=3, retry=ExponentialBackoff(limit=0))
    spout = topology.spout("read", FileSpout(folder))
    run = place.run(topology)
    run_spout(run, spout)
    before = os.stat(f"{folder}/a")
    (place.folder / "fewer" / "a").write_bytes(b"1\n2xxxxx5\n")  # as large as it was
    os.utime(f"{folder}/a", ns=(before.st_atime_ns, before.st_mtime_ns))
    drain(run)
    report = audit_report(run.topology, run.store)
    assert (report.acked, report.lost) == (4, 2)
    (why,) = {finding.why for finding in report.findings["lost"]}
    assert why == "attempt 1: file cannot be read, of which Spark's reader returns 0 rows of 2: a"


@pytest.mark.parametrize("odd", [pa.decimal256(50, 2), pa.list_(pa.decimal256(39, 0))])
def test_a_file_with_too_many_digits_for_spark_is_left_out_and_the_others_are_read(place, spark, odd):
    nothing = pa.nulls(1, odd)
    files = {"a": parquet(id=[1]), "b": parquet(id=[2], x=nothing), "c": parquet(id=[3])}
    found, backlog = everything(spark, FileSpout(made(place, "digits", files), format="parquet"), "id")
    assert found == [("a", 1, 1), ("c", 1, 3)]
    (why,) = backlog.left_out
    assert "DECIMAL_PRECISION_EXCEEDS_MAX_PRECISION" in why


def test_a_file_whose_schema_spark_refuses_is_left_out_and_the_others_are_read(place, spark):
    kind = Wkb(pa.binary(), "geoarrow.wkb")
    pa.register_extension_type(kind)
    point = pa.ExtensionArray.from_storage(kind, pa.array([b"\x01\x01\0\0\0" + bytes(16)], pa.binary()))
    pa.unregister_extension_type("geoarrow.wkb")
    files = {"a": parquet(id=[1]), "b": parquet(id=[2], place=point), "c": parquet(id=[3])}
    found, backlog = everything(spark, FileSpout(made(place, "odd", files), format="parquet"), "id")
    assert found == [("a", 1, 1), ("c", 1, 3)]
    (why,) = backlog.left_out
    assert "Spark refuses: [ST_INVALID_CRS_VALUE]" in why


class Wkb(pa.ExtensionType):
    """A place in a system of coordinates that Spark does not know."""

    def __arrow_ext_serialize__(self):
        return b'{"crs": "srid:5070"}'

    @classmethod
    def __arrow_ext_deserialize__(cls, storage, serialized):
        return cls(storage, "geoarrow.wkb")
