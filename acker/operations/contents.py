"""Folds that have tuples for a target, and folds that have none.

A fold whose acked messages have no tuple in the target's stream costs the target nothing, neither a job nor a
version. The target's position then stays behind, and whoever looks for folds to publish reads such folds
again. So of `MOST_PASSED_OVER` such folds in a row the newest is taken in all the same.
"""

from collections.abc import Collection, Iterator, Sequence

import polars as pl

from acker.core.snapshot.journal import Journal
from acker.core.snapshot.settled import acked_roots
from acker.core.snapshot.streams import Rows
from acker.core.store.parquet import collect, scan
from acker.core.store.schemas import is_tuple

MOST_PASSED_OVER = 32  # folds with nothing for a target, of which the last is taken in
_BYTES_AT_ONCE = 256 << 20  # of files, of whose rows one column is read


def folds_with_tuples(
    journal: Journal, name: str, batches: Sequence[int], folds: Collection[int]
) -> set[int]:
    """The folds, of some, that acked a message with a tuple in a stream.

    Args:
        batches: the batches of the stream that can hold such tuples.
    """
    rows = Rows.of(journal, name, batches)
    if not rows.files or not folds:
        return set()
    roots = acked_roots(journal, min(folds), max(folds))
    found: set[int] = set()
    for files in _some(rows):
        mine = _with_tuples(roots, name, rows, files)
        found |= {*collect(mine.select("fold").unique(), journal.files)["fold"]}
        roots = roots.filter(~pl.col("fold").is_in(list(found)))
        if roots.is_empty():
            break
    return found


def roots_with_tuples(
    journal: Journal, name: str, batches: Sequence[int], roots: pl.DataFrame
) -> pl.DataFrame:
    """The roots, of some (`fold`, `_root_id`), that have a tuple in a stream.

    Args:
        batches: the batches of the stream that can hold such tuples.
    """
    rows = Rows.of(journal, name, batches)
    found = [collect(_with_tuples(roots, name, rows, files), journal.files) for files in _some(rows)]
    return pl.concat([roots.clear(), *found]).unique()


def _with_tuples(roots: pl.DataFrame, name: str, rows: Rows, files: list[str]) -> pl.LazyFrame:
    tuples = rows.only(scan(files, rows.columns)).filter(pl.sql_expr(is_tuple(name, rows.columns)))
    return roots.lazy().join(tuples.select("_root_id"), on="_root_id", how="semi")


def _some(rows: Rows) -> Iterator[list[str]]:
    """The files of rows, in parts whose roots fit into memory."""
    count = max(1, -(-rows.size // _BYTES_AT_ONCE))
    step = max(1, -(-len(rows.files) // count))
    return (rows.files[first : first + step] for first in range(0, len(rows.files), step))
