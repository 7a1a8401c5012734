import polars as pl
import pytest

from acker.core.store.ids import hash64, tuple_ids


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", -1970711489451281740),
        ("wordcount/sentences", 1909599792971290052),
        ("ä", -1131041350483206087),
    ],
)
def test_a_hash_never_changes_since_tables_hold_it(text: str, expected: int) -> None:
    assert hash64(text) == expected


def ids(emitter: str, consumers: list[str], file: str = "part-0.parquet", rows: int = 3) -> list[int]:
    row = pl.int_range(rows, eager=True)
    return pl.select(tuple_ids(emitter, consumers, file, pl.lit(row))).to_series().to_list()


def test_a_tuple_id_never_changes_since_tables_hold_it() -> None:
    assert ids("sentences", ["words"]) == [7369460471012225273, -1380812010693619613, 1911602309649635578]


def test_a_tuple_id_is_splitmix64_of_its_edge_and_file() -> None:
    def splitmix64(seed: int, index: int) -> int:
        z = (seed + index * 0x9E3779B97F4A7C15) % 2**64
        z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 % 2**64
        z = (z ^ z >> 27) * 0x94D049BB133111EB % 2**64
        return z ^ z >> 31

    seed = hash64("sentences>words/part-0.parquet")
    assert [n % 2**64 for n in ids("sentences", ["words"])] == [splitmix64(seed, n) for n in range(3)]


def test_a_tuple_that_two_bolts_read_is_two_edges() -> None:
    left, right, both = ids("a", ["b"]), ids("a", ["c"]), ids("a", ["b", "c"])
    assert both == [one ^ other for one, other in zip(left, right, strict=True)]


def test_a_tuple_that_nobody_reads_has_no_id() -> None:
    assert ids("a", [], rows=1) == [0]


def test_ids_differ_by_row_file_edge_and_direction() -> None:
    rows = 1000
    every = [
        *ids("a", ["b"], rows=rows),
        *ids("b", ["a"], rows=rows),
        *ids("a", ["c"], rows=rows),
        *ids("a", ["b"], "part-1.parquet", rows=rows),
    ]
    assert len(set(every)) == 4 * rows


def test_hashes_fill_all_64_bits() -> None:
    hashes = [hash64(str(n)) for n in range(1000)]
    assert len(set(hashes)) == 1000
    # Each bit, the sign among them, is set in about half of the hashes.
    ones = [sum(h >> bit & 1 for h in hashes) for bit in range(64)]
    assert all(400 < count < 600 for count in ones)
