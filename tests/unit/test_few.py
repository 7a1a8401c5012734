"""Lines that are read back without Spark, against Python's own splitting of the same bytes."""

import gzip
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest

from acker.spouts.files import local_reads as few
from acker.spouts.files.listing import look_at
from acker.spouts.files.local_reads import lines_of

TEXTS = {
    "one": b"a\nb\r\n\nd\n",
    "two": b"\n",
    "below/three": b"no end",
    "with \xc3\xbc, a comma": b"caf\xe9\n\x00\n\xef\xbb\xbfx",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in TEXTS.items():
        path = tmp_path / "files" / name.encode("latin-1").decode()
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text)
    return tmp_path / "files"


def asked(*positions: tuple[str, int]) -> pa.Table:
    paths, offsets = zip(*positions, strict=True)
    return pa.table({"source_partition": paths, "source_offset": pa.array(offsets, pa.int64())})


def read(folder: Path, positions: pa.Table) -> dict[tuple[str, int], bytes] | None:
    paths = sorted(set(positions["source_partition"].to_pylist()))
    found = lines_of(str(folder), look_at(str(folder), paths), positions)
    if found is None:
        return None
    rows = found.to_pylist()
    assert found.num_rows == len({(row["_source_partition"], row["_source_offset"]) for row in rows})
    return {(row["_source_partition"], row["_source_offset"]): row["value"] for row in rows}


def test_every_line_is_there_at_its_number_and_no_other(folder: Path) -> None:
    texts = {name.encode("latin-1").decode(): text for name, text in TEXTS.items()}
    lines = {(name, n): line for name, text in texts.items() for n, line in enumerate(text.split(b"\n"), 1)}
    beyond = [(name, n) for name in texts for n in (-1, 0, 9)]
    assert read(folder, asked(*lines, *beyond)) == lines
    for position, line in lines.items():
        assert read(folder, asked(position)) == {position: line}


def test_lines_of_a_text_of_several_blocks_are_found(tmp_path: Path) -> None:
    rng = Random(1)
    lines = [b"x" * rng.choice((0, 1, 30, 500_000)) for _ in range(20)] + [b"y" * 20] * 100_000
    rng.shuffle(lines)
    (tmp_path / "long").write_bytes(b"\n".join(lines))
    numbers = [1, len(lines), *rng.sample(range(2, len(lines)), 2_000)]
    found = read(tmp_path, asked(*(("long", n) for n in numbers)))
    assert found == {("long", n): lines[n - 1] for n in numbers}


def test_what_spark_had_better_read_is_left_to_it(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "packed.gz").write_bytes(gzip.compress(b"a\n"))
    assert read(folder, asked(("packed.gz", 1))) is None
    three = asked(*(("one", n) for n in (1, 2, 4)))
    for limit, most in (("MOST_MESSAGES", 3), ("MOST_BYTES", 8), ("MOST_LINE_BYTES", 4)):
        monkeypatch.setattr(few, limit, most)
        assert len(read(folder, three) or ()) == 3
        monkeypatch.setattr(few, limit, most - 1)
        assert read(folder, three) is None
        monkeypatch.undo()


def test_a_file_that_changes_between_the_look_and_the_read_is_left_to_spark(folder: Path) -> None:
    looked = look_at(str(folder), ["one"])
    with (folder / "one").open("ab") as more:
        more.write(b"e\n")
    assert lines_of(str(folder), looked, asked(("one", 1))) is None
    (folder / "one").unlink()
    assert lines_of(str(folder), looked, asked(("one", 1))) is None
