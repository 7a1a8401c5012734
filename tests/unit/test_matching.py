"""Messages to replay, in parts."""

import polars as pl

from acker.operations.selection.matching import parted


def emissions(*rows):
    """Messages from (source_offset, group)."""
    found = pl.DataFrame(rows, {"source_offset": pl.Int64, "group": pl.Int64}, orient="row")
    return found.with_columns(
        source_partition=pl.lit("0"), attempt=pl.lit(2, pl.Int32), replaces=pl.lit(None, pl.Int64)
    )


def parts(rows, *messages):
    """The offsets of each part."""
    return [part["source_offset"].to_list() for part in parted(emissions(*messages), rows)]


def test_messages_are_parted_and_no_group_is():
    alone = [(offset, None) for offset in range(1, 6)]
    assert parts(2, *alone) == [[1, 2], [3, 4], [5]]
    assert parts(5, *alone) == [[1, 2, 3, 4, 5]]
    assert parts(2) == []
    mixed = [(1, None), (2, 7), (3, None), (4, 7), (5, 7), (6, None), (7, -7)]
    assert parts(2, *mixed) == [[7, 2, 4, 5], [1, 3], [6]]
    assert parts(1, *mixed) == [[7], [2, 4, 5], [1], [3], [6]]


def test_a_part_has_what_is_to_be_recorded():
    (part,) = parted(emissions((1, 5)), 10)
    assert part.rows(named=True) == [
        {"source_partition": "0", "source_offset": 1, "attempt": 2, "replaces": None}
    ]
