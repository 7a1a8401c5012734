"""A few lines of text files, read back without Spark, whose job would take longer than the read."""

import zlib
from collections.abc import Iterator, Mapping

import numpy as np
import polars as pl
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import ArrowException

from acker.core.paths import absolute
from acker.spouts.base import MOST_BYTES, MOST_MESSAGES
from acker.spouts.files.growing import Part
from acker.spouts.files.listing import open_folder
from acker.spouts.files.packing import way_of_name
from acker.spouts.files.walking import SourceFile

MOST_LINE_BYTES = 32 << 20  # of the messages together, which go to Spark in one request

LINES = "_source_partition string, _source_offset bigint, value binary"

_BLOCK = 1 << 20
_LINE_FEED = 10


def lines_of(folder: str, files: Mapping[str, SourceFile], positions: pa.Table) -> pa.Table | None:
    """Lines of text files: _source_partition, _source_offset and value, the line's bytes.

    A line that its file does not have is left out.

    Args:
        folder: path or URI.
        files: files of the folder, by their paths below it, as `look_at` found them.
        positions: source_partition, the path, and source_offset, the line's number from 1, each once.

    Returns:
        The lines; None where Spark had better read them, since they are many, or their files are large or
        packed, have changed since they were looked at, or cannot be read from here.
    """
    size = sum(file.bytes for file in files.values())
    if positions.num_rows > MOST_MESSAGES or size > MOST_BYTES or any(map(way_of_name, files)):
        return None
    wanted = pl.DataFrame(positions).sort("source_partition", "source_offset")
    found: list[tuple[str, int, bytes]] = []
    room = MOST_LINE_BYTES
    try:
        system, root = open_folder(absolute(folder))
        for path, file in files.items():
            part = file if isinstance(file, Part) else None
            with system.open_input_file(f"{root}/{part.at if part else path}") as source:
                read = source.read_buffer(file.bytes if part else None)
            if read.size != file.bytes or (part and zlib.crc32(read) != part.crc):  # it has changed since
                return None
            raw = np.frombuffer(read, np.uint8)
            numbers = wanted.filter(source_partition=path)["source_offset"].to_numpy()
            for number, line in _lines(raw, numbers):
                room -= len(line)
                if room < 0:
                    return None
                found.append((path, number, line))
    except (ArrowException, OSError):
        return None
    schema = {"_source_partition": pl.String, "_source_offset": pl.Int64, "value": pl.Binary}
    return pl.DataFrame(found, schema, orient="row").to_arrow()


def _lines(raw: NDArray[np.uint8], numbers: NDArray[np.int64]) -> Iterator[tuple[int, bytes]]:
    """The number of each wanted line that a text has, and the line's bytes without its line feed.

    Args:
        raw: the bytes of the text.
        numbers: the numbers of the wanted lines, from 1, in rising order.
    """
    ordinals = np.union1d(numbers - 1, numbers)
    ends, count = _ends(raw, ordinals)
    at = dict(zip(ordinals.tolist(), ends.tolist(), strict=True))
    for number in numbers.tolist():
        if 1 <= number <= count + 1:
            yield number, raw[at[number - 1] + 1 : at[number]].tobytes()


def _ends(raw: NDArray[np.uint8], ordinals: NDArray[np.int64]) -> tuple[NDArray[np.int64], int]:
    """The places of the line feeds of a text that have the given ordinals, and the number of all line feeds.

    Args:
        raw: the bytes of the text.
        ordinals: sorted; the first line feed of the text has 1. The place of ordinal 0 is -1, before the
            first line. The place of an ordinal above the number of line feeds is the end of the text.
    """
    found = np.where(ordinals < 1, -1, len(raw))
    seen = 0
    for start in range(0, len(raw), _BLOCK):
        ends = np.flatnonzero(raw[start : start + _BLOCK] == _LINE_FEED) + start
        low, high = np.searchsorted(ordinals, [seen + 1, seen + len(ends) + 1])
        found[low:high] = ends[ordinals[low:high] - seen - 1]
        seen += len(ends)
    return found, seen
