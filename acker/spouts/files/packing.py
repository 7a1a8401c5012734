"""How files of text are unpacked: by their first bytes, whatever their names.

Spark unpacks by name. So a file that is packed otherwise than its name tells is given to Spark under another
name (`acker/spouts/files/reading.py`). A file that Spark cannot unpack to text is left out with the reason,
as is a file whose name tells of a packing that its bytes do not have.
"""

import bisect
import bz2
import re
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyarrow import ArrowException

from acker.spouts.files.listing import read_each

ENDINGS = {  # a way of packing -> an ending by which Spark knows it
    "gzip": ".gz",
    "bzip2": ".bz2",
    "zstd": ".zst",
    "deflate": ".deflate",
    "lz4": ".lz4",
    "snappy": ".snappy",
}
_BY_ENDING = {ending: way for way, ending in ENDINGS.items()} | {".gzip": "gzip", ".zstd": "zstd"}
_OTHER_ENDINGS = (
    *(".bz", ".bzip2", ".xz", ".lzma", ".7z", ".zip", ".z", ".br", ".lzo", ".lz", ".sz", ".rar", ".tar"),
)
_ARCHIVE = re.compile(r"\.(tar(\.\w+)?|tgz|tbz2?|txz|tzst)$", re.IGNORECASE)
_MAGIC = (
    (re.compile(rb"\x1f\x8b\x08"), "gzip"),
    (re.compile(rb"BZh[1-9](1AY&SY|\x17rE8P\x90)"), "bzip2"),
    (re.compile(rb"\x28\xb5\x2f\xfd|[\x50-\x5f]\x2a\x4d\x18"), "zstd"),
)
_FOREIGN = (
    (re.compile(rb"\xfd7zXZ\0"), "packed as xz"),
    (re.compile(rb"PK(\x03\x04|\x05\x06)"), "packed as zip"),
    (re.compile(rb"7z\xbc\xaf\x27\x1c"), "packed as 7z"),
    (re.compile(rb"Rar!\x1a\x07"), "packed as RAR"),
    (re.compile(rb"\x04\x22\x4d\x18|\x02\x21\x4c\x18"), "packed as LZ4 frames"),
    (re.compile(rb"\xff\x06\0\0sNaPpY"), "packed as Snappy frames"),
    (re.compile(rb"\x89LZO\0"), "packed as LZO"),
    (re.compile(rb"\x1f[\x9d\xa0]"), "packed by compress"),
    (re.compile(rb"PAR[1E]\x15"), "Parquet"),
    (re.compile(rb"Obj\x01"), "Avro"),
    (re.compile(rb"SQLite format 3\0"), "SQLite"),
    (re.compile(rb"\xff\xfe|\xfe\xff|\0\0\xfe\xff"), "UTF-16 or UTF-32"),
    (re.compile(rb".{257}ustar", re.DOTALL), "an archive of tar"),
)
_ANY_MAGIC = re.compile(b"|".join(magic.pattern for magic, _ in (*_MAGIC, *_FOREIGN)), re.DOTALL)
_ENDINGS = (*_BY_ENDING, *_OTHER_ENDINGS, ".tgz", ".tbz", ".tbz2", ".txz", ".tzst")
_LARGEST_BLOCK = 1 << 26  # of Hadoop's codecs, as they write each block's two lengths before it
HEAD_BYTES = 512
_BLOCK_BYTES = 1 << 20
_TORN = "it ends before what is packed does"
OF_HADOOP = {"lz4": "lz4_raw", "snappy": "snappy"}
# Ways of which Spark reads what is torn, or has more behind it that it cannot unpack, as if it were whole.
IN_SILENCE = frozenset({*OF_HADOOP, "bzip2"})


@dataclass(frozen=True)
class Packing:
    """How a file is unpacked.

    Args:
        way: one of `ENDINGS`, or empty where it is not packed.
        why: the reason why the file is left out; None where it is read.
    """

    way: str = ""
    why: str | None = None


def way_of_name(path: str) -> str:
    """The way in which Spark unpacks a file for its name; empty where Spark takes the file as it is."""
    return next((way for ending, way in _BY_ENDING.items() if path.lower().endswith(ending)), "")


def packing(path: str, head: bytes) -> Packing:
    """How a file is unpacked.

    Args:
        head: the file's first bytes, 512 if it has as many.
    """
    if not _ANY_MAGIC.match(head) and not path.lower().endswith(_ENDINGS):
        return Packing()  # as nearly all are
    way = next((way for magic, way in _MAGIC if magic.match(head)), None)
    named = way_of_name(path)
    if way is None and (why := _foreign(head)):
        return Packing(why=why)
    if _ARCHIVE.search(path):
        return Packing(why="named as archives of tar")
    if way is not None:
        within = _unpacked(way, head)
        again = next((inner for magic, inner in _MAGIC if magic.match(within)), None)
        why = _foreign(within) if again is None else f"packed as {again}, which is not unpacked twice"
        return Packing(way, why and f"{way} of what is {why}")
    if named and _may_be(named, head):
        return Packing(named)
    ending = named or next((each for each in _OTHER_ENDINGS if path.lower().endswith(each)), None)
    return Packing(why="named as if they were packed, and are not as Spark reads it") if ending else Packing()


def _foreign(head: bytes) -> str | None:
    return next((f"{name}, which is not read as text" for magic, name in _FOREIGN if magic.match(head)), None)


def _may_be(way: str, head: bytes) -> bool:
    """Whether bytes may be packed in a way that has no magic number."""
    if way == "deflate":
        return len(head) > 1 and head[0] & 15 == 8 and int.from_bytes(head[:2], "big") % 31 == 0
    if way not in ("lz4", "snappy"):
        return False
    whole, packed = int.from_bytes(head[:4], "big"), int.from_bytes(head[4:8], "big")
    fits = len(head) > 8 and 0 < packed <= whole + whole // 6 + 64
    return whole == 0 or (whole < _LARGEST_BLOCK and fits)


def _unpacked(way: str, head: bytes) -> bytes:
    """The first unpacked bytes of a file, as far as its head has them."""
    try:
        if way == "gzip":
            return zlib.decompressobj(31).decompress(head, HEAD_BYTES)
        if way == "zstd":
            return bytes(pa.CompressedInputStream(pa.BufferReader(head), "zstd").read(HEAD_BYTES // 2))
    except (zlib.error, ArrowException, OSError):
        pass  # the job that counts the lines tells
    return b""


def packings(folder: str, paths: Sequence[str]) -> dict[str, Packing]:
    """How some files of a folder are unpacked, without those that cannot be opened at the moment.

    Args:
        folder: path or URI.

    Raises:
        SourceError: none of them can be opened.
    """
    heads = read_each(folder, paths, lambda source, _: bytes(source.read(HEAD_BYTES)))
    return {path: packing(path, head) for path, head in heads.items()}


def broken(folder: str, ways: Mapping[str, str]) -> dict[str, str]:
    """Path -> the reason, for each packed file that cannot be unpacked to its end.

    Args:
        folder: path or URI.
        ways: path -> how it is packed.

    Raises:
        SourceError: none of the files can be opened, and some are there.
    """

    def why(source: pa.NativeFile, path: str) -> str | None:
        try:
            _read_through(source, ways[path])
        except (ArrowException, OSError, EOFError, zlib.error, ValueError) as error:
            return f"that cannot be unpacked: {error}"
        return None

    return {path: each for path, each in read_each(folder, ways, why).items() if each}


def _read_through(source: pa.NativeFile, way: str) -> None:
    if way in ("gzip", "zstd"):
        whole = pa.CompressedInputStream(source, way)
        while whole.read(_BLOCK_BYTES):
            pass
    elif way == "bzip2":
        _read_bzip2(source)
    elif way == "deflate":
        inflater = zlib.decompressobj()
        while block := source.read(_BLOCK_BYTES):
            inflater.decompress(block)
        if not inflater.eof:
            raise EOFError(_TORN)
    elif way in OF_HADOOP:
        while length := source.read(4):
            _read_block(source, OF_HADOOP[way], _number(length))


def _read_bzip2(source: pa.NativeFile) -> None:
    """Read the streams of bzip2 in a file, one after the other, up to the end of the file.

    Python's own reader passes over bytes after a stream that are no stream.

    Raises:
        EOFError: a stream ends too early.
        OSError: bytes of the file are no stream of bzip2.
    """
    inflater, rest = bz2.BZ2Decompressor(), b""
    while rest or (rest := source.read(_BLOCK_BYTES)):
        inflater = bz2.BZ2Decompressor() if inflater.eof else inflater
        inflater.decompress(rest, _BLOCK_BYTES)
        while not (inflater.eof or inflater.needs_input):
            inflater.decompress(b"", _BLOCK_BYTES)
        rest = inflater.unused_data if inflater.eof else b""
    if not inflater.eof:
        raise EOFError(_TORN)


def _read_block(source: pa.NativeFile, codec: str, left: int) -> None:
    """Read a block of Hadoop's codecs: packed chunks, each after its length.

    Args:
        left: the length of all chunks of the block together when they are unpacked.

    Raises:
        EOFError: the file ends within the block.
        ValueError: a chunk is not packed as `codec`, or is too long.
    """
    while left:
        packed = _number(source.read(4))
        chunk = source.read(packed)
        if len(chunk) < packed:
            raise EOFError(_TORN)
        left -= _unpacked_size(pa.Codec(codec), chunk, left)


def _number(length: bytes) -> int:
    if len(length) < 4:
        raise EOFError(_TORN)
    return int.from_bytes(length, "big")


def _unpacked_size(codec: pa.Codec, chunk: bytes, most: int) -> int:
    """The length of a chunk when it is unpacked.

    LZ4 does not tell this length. So it is searched for, as the least room that the unpacked chunk fits into.

    Args:
        most: the most that the length can be.

    Raises:
        ValueError: the chunk cannot be unpacked into `most` bytes.
    """

    def fits(size: int) -> bool:
        try:
            codec.decompress(chunk, decompressed_size=size)
        except (ArrowException, OSError):
            return False
        return True

    if not fits(most):
        raise ValueError("it is not what its ending tells")
    if not fits(most - 1):  # nearly always, as a block has one chunk
        return most
    return bisect.bisect_left(range(most), True, lo=1, key=fits)
