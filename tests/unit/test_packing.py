"""What the first bytes and names of files tell of how they are unpacked, and what the footers of Parquet."""

import bz2
import gzip
import zlib

import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.parquet.encryption as encryption
import pytest
from hypothesis import given
from hypothesis import strategies as st

from acker.core.errors import SourceError
from acker.spouts.files.columns import decoded, footers
from acker.spouts.files.listing import open_folder
from acker.spouts.files.packing import Packing, broken, packing, packings, way_of_name
from tests.kit.object_store import BUCKET, running_object_store

TEXT = b'{"id": 1}\n'
GZIP, ZSTD = gzip.compress(TEXT), pa.compress(TEXT, codec="zstd", asbytes=True)


@pytest.mark.parametrize(
    ("name", "head", "way"),
    [
        ("a.json", TEXT, ""),
        ("a.gz", GZIP, "gzip"),
        ("a.GZIP", GZIP, "gzip"),
        ("a.json", GZIP, "gzip"),
        ("a.zst", GZIP, "gzip"),
        ("a", bz2.compress(TEXT), "bzip2"),
        ("a", bz2.compress(b""), "bzip2"),
        ("a", ZSTD, "zstd"),
        ("a", b"\x50\x2a\x4d\x18" + ZSTD, "zstd"),
        ("a.Deflate", zlib.compress(TEXT), "deflate"),
        ("a.lz4", b"\0\0\0\x06\0\0\0\x07`hello\n", "lz4"),
        ("a.snappy", b"\0\0\0\x06\0\0\0\x08\x06\x14hello\n", "snappy"),
        ("BZh.txt", b"BZh is a word", ""),
        ("PK", b"PK, PAR1 and Obj are words", ""),
        ("gz", TEXT, ""),
        ("a.gz.json", TEXT, ""),
        ("a", b"\xef\xbb\xbf" + TEXT, ""),
        ("a", b"\x1f", ""),
    ],
)
def test_a_file_is_unpacked_by_what_it_is(name, head, way):
    assert packing(name, head) == Packing(way)


@pytest.mark.parametrize(
    ("name", "head", "why"),
    [
        ("a.json.lz4", pa.compress(TEXT, codec="lz4", asbytes=True), "packed as LZ4 frames"),
        ("a.snappy", b"\xff\x06\0\0sNaPpY", "packed as Snappy frames"),
        ("a.xz", b"\xfd7zXZ\0", "packed as xz"),
        ("a", b"PK\x03\x04", "packed as zip"),
        ("a.json", b"PAR1\x15\x04", "Parquet"),
        ("a.json", TEXT.decode().encode("utf-16"), "UTF-16"),
        ("a", b"\0" * 257 + b"ustar", "an archive of tar"),
        ("a.tar", b"\0" * 257 + b"ustar", "an archive of tar"),
        ("a.tgz", GZIP, "named as archives of tar"),
        ("a.gz", TEXT, "named as if they were packed"),
        ("a.XZ", TEXT, "named as if they were packed"),
        ("a.deflate", TEXT, "named as if they were packed"),
        ("a.lz4", TEXT, "named as if they were packed"),
        ("a", gzip.compress(TEXT.decode().encode("utf-16")), "gzip of what is UTF-16"),
        ("a", gzip.compress(b"\0" * 257 + b"ustar"), "gzip of what is an archive of tar"),
        ("a.gz", gzip.compress(GZIP), "gzip of what is packed as gzip"),
        ("a.zst", pa.compress(GZIP, codec="zstd", asbytes=True), "zstd of what is packed as gzip"),
    ],
)
def test_a_file_that_is_no_text_or_not_packed_as_its_name_tells_is_left_out(name, head, why):
    assert str(packing(name, head).why).startswith(why)


@given(st.text(st.characters(exclude_categories=["Cs", "Cc"])))
def test_no_text_is_taken_for_packed(text):
    assert packing("a.json", text.encode()[:512]) == Packing()


def hadoop(*given):
    """A block as Hadoop writes it, of one chunk or several."""
    first, codec, *more = given
    chunks = [pa.compress(each, codec=codec, asbytes=True) for each in (first, *more) if each]
    whole = sum(map(len, (first, *more))).to_bytes(4, "big")
    return whole + b"".join(len(chunk).to_bytes(4, "big") + chunk for chunk in chunks)


@pytest.mark.parametrize("content", [b"", TEXT, TEXT * 100_000], ids=["empty", "short", "long"])
def test_what_is_torn_is_told_and_what_is_whole_is_not(tmp_path, content):
    packed = {
        "gzip": gzip.compress(content) + gzip.compress(content),
        "bzip2": bz2.compress(content) + bz2.compress(content),
        "zstd": pa.compress(content, codec="zstd", asbytes=True) + ZSTD,
        "deflate": zlib.compress(content),
        "lz4": hadoop(content, "lz4_raw") + hadoop(TEXT, "lz4_raw", TEXT * 9),
        "snappy": hadoop(content, "snappy") + hadoop(TEXT, "snappy", TEXT * 9),
    }
    for way, each in packed.items():
        (tmp_path / way).write_bytes(each)
        (tmp_path / f"torn {way}").write_bytes(each[:-3])
    ways = {f"{torn}{way}": way for way in packed for torn in ("", "torn ")}
    assert sorted(broken(str(tmp_path), ways)) == sorted(f"torn {way}" for way in packed)


def test_ways_of_names_are_those_of_spark():
    names = (
        "a.gz",
        "a.GZIP",
        "a.bz2",
        "a.Zst",
        "a.zstd",
        "a.deflate",
        "a.lz4",
        "a.snappy",
        "a.xz",
        "gz",
        "a.gz ",
    )
    ways = ["gzip", "gzip", "bzip2", "zstd", "zstd", "deflate", "lz4", "snappy", "", "", ""]
    assert [way_of_name(name) for name in names] == ways


def test_of_parquet_files_the_footers_tell_and_pages_that_are_no_rows_are_found(tmp_path):
    table = pa.table({"id": list(range(1_000)), "none": pa.nulls(1_000)})
    pq.write_table(table, tmp_path / "good", compression="none")
    content = bytearray((tmp_path / "good").read_bytes())
    content[10:40] = bytes(30)
    (tmp_path / "torn").write_bytes(content)
    pq.write_table(table, tmp_path / "brotli", compression="brotli")
    pq.write_table(
        table, tmp_path / "split", use_dictionary=False, column_encoding={"id": "BYTE_STREAM_SPLIT"}
    )
    (tmp_path / "text").write_bytes(TEXT)
    names = ["good", "torn", "brotli", "split", "text", "gone"]
    found = footers(str(tmp_path), names)
    assert {name: (each.rows, each.nulls) for name, each in found.items()} == {
        "good": (1_000, ("none",)),
        "torn": (1_000, ("none",)),
        "brotli": (0, ()),
        "split": (0, ()),
        "text": (0, ()),
    }
    no_rows = {path for path, why in decoded(str(tmp_path), names).items() if why}
    assert no_rows == {"torn", "text"}


class NoKeys(encryption.KmsClient):
    """Hands keys out as they are."""

    def wrap_key(self, key_bytes, master_key_identifier):
        return key_bytes.hex()

    def unwrap_key(self, wrapped_key, master_key_identifier):
        return bytes.fromhex(wrapped_key)


@pytest.mark.parametrize("is_footer_plain", [False, True])
def test_of_an_encrypted_parquet_file_that_is_said(is_footer_plain, tmp_path):
    factory = encryption.CryptoFactory(lambda _: NoKeys())
    keys = encryption.EncryptionConfiguration(
        footer_key="f", column_keys={"c": ["id"]}, plaintext_footer=is_footer_plain
    )
    properties = factory.file_encryption_properties(encryption.KmsConnectionConfig(), keys)
    pq.write_table(pa.table({"id": [1]}), tmp_path / "secret", encryption_properties=properties)
    pq.write_table(pa.table({"id": [1]}), tmp_path / "good")
    found = footers(str(tmp_path), ["good", "secret"])
    assert {name: (each.rows, each.why) for name, each in found.items()} == {
        "good": (1, None),
        "secret": (0, "encrypted"),
    }


def test_a_file_that_a_disk_or_a_network_refuses_is_tried_again_and_not_taken_for_another(tmp_path):
    pq.write_table(pa.table({"id": [1]}), tmp_path / "good")
    (tmp_path / "folder").mkdir()  # which opens and cannot be read
    for read in (footers, packings):
        assert list(read(str(tmp_path), ["good", "folder", "gone"])) == ["good"]
        assert read(str(tmp_path), ["gone"]) == {}
        with pytest.raises(SourceError, match=r"^No file of .* can be opened: "):
            read(str(tmp_path), ["folder"])


def test_files_on_s3_are_told_by_their_bytes_as_those_on_a_disk(tmp_path, monkeypatch):
    files = {"a.json": GZIP, "b.gz": TEXT, "c": TEXT, "d.gz": GZIP[:-6], "e 50%": ZSTD, "f.zip": b"PK\3\4"}
    (tmp_path / "in").mkdir()
    with running_object_store(tmp_path / "s3") as variables:
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        system, root = open_folder(f"s3a://{BUCKET}/a wörd")
        for name, content in files.items():
            (tmp_path / "in" / name).write_bytes(content)
            with system.open_output_stream(f"{root}/{name}", compression=None) as file:
                file.write(content)
        here, there = (
            (packings(folder, files), broken(folder, {"a.json": "gzip", "d.gz": "gzip", "e 50%": "zstd"}))
            for folder in (str(tmp_path / "in"), f"s3a://{BUCKET}/a wörd")
        )
    assert there == here
    assert list(here[1]) == ["d.gz"]


def test_a_parquet_file_has_the_rows_of_its_row_groups_whatever_its_footer_counts(tmp_path):
    pq.write_table(pa.table({"id": list(range(77))}), tmp_path / "good", use_dictionary=False)
    rows, none = b"\x16\x9a\x01", b"\x16\x80\x00"
    (tmp_path / "none").write_bytes((tmp_path / "good").read_bytes().replace(rows, none, 1))
    assert pq.read_metadata(tmp_path / "none").num_rows == 0
    assert {name: each.rows for name, each in footers(str(tmp_path), ["good", "none"]).items()} == {
        "good": 77,
        "none": 77,
    }


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (bz2.compress(TEXT) + bz2.compress(b""), None),
        (bz2.compress(bytes(1 << 24)) + bz2.compress(TEXT), None),
        (bz2.compress(TEXT)[:-1], "it ends before what is packed does"),
        (bz2.compress(TEXT) + bz2.compress(TEXT)[:-1], "it ends before what is packed does"),
        (bz2.compress(TEXT) + b"more", "Invalid data stream"),
        (bz2.compress(TEXT) + b"\n", "Invalid data stream"),
    ],
    ids=["two", "large", "torn", "a torn one more", "other bytes", "a line feed"],
)
def test_a_file_of_bzip2_is_whole_or_broken(content, why, tmp_path):
    (tmp_path / "a.bz2").write_bytes(content)
    found = broken(str(tmp_path), {"a.bz2": "bzip2"})
    assert found == ({} if why is None else {"a.bz2": f"that cannot be unpacked: {why}"})
