import pytest

from acker.ids import edge_id, hash64


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


def test_an_edge_never_changes_since_tables_hold_it() -> None:
    assert edge_id("sentences", "words") == 3628523647016040228


def test_an_edge_has_a_direction() -> None:
    assert (edge_id("a", "b"), edge_id("b", "a")) == (-9051425155926050910, -7632133109620913494)


def test_hashes_fill_all_64_bits() -> None:
    hashes = [hash64(str(n)) for n in range(1000)]
    assert len(set(hashes)) == 1000
    # Each bit, the sign among them, is set in about half of the hashes.
    ones = [sum(h >> bit & 1 for h in hashes) for bit in range(64)]
    assert all(400 < count < 600 for count in ones)
