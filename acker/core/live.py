"""The files of a fold's live rows. The next fold takes over those in which nothing changes.

To take a file over is to say in the log that it belongs to the next fold's partition: no row is written.
So what a fold writes follows from what has happened, and not from what is live.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import xor
from typing import Any

import polars as pl
import pyarrow as pa
from deltalake.transaction import AddAction

from acker.core.checksums import checksum_of_ledger
from acker.core.commits import ROWS_OF_A_FILE, File, write_files
from acker.core.delta import arrow_table, path_of
from acker.core.ledger import Fold
from acker.core.parquet import collect, columns_of, scan
from acker.core.schemas import LEDGER, SCHEMAS

(PARTITION,) = SCHEMAS[LEDGER].partition_by
MOST_TAKEN_OVER = 32  # files that are not full; of more the smallest become one

_COLUMNS = columns_of(LEDGER)
_LOG: dict[str, pl.DataType | type[pl.DataType]] = {  # what the log says of a file
    "path": pl.String,
    "size_bytes": pl.Int64,
    "modification_time": pl.Int64,
    "num_records": pl.Int64,
    "min.fold": pl.Int64,
    "max.fold": pl.Int64,
    f"partition.{PARTITION}": pl.Int64,
}


@dataclass(frozen=True)
class LiveFile:
    """A file of live rows.

    Args:
        folds: the first and the last fold that wrote rows of it.
        checksum: of its rows.
    """

    file: File
    folds: tuple[int, int]
    checksum: int

    def taken_over(self, fold: int) -> AddAction:
        """What the commit of a fold says, to take it over."""
        return self.file.added({"fold": self.folds}, {PARTITION: str(fold)}, is_new=False)


@dataclass(frozen=True)
class LiveRows:
    """The live rows of a fold, as the next one finds them.

    Args:
        taken_over: files in which nothing changes.
        rows: those of all other files.
        count: how many they are.
        checksum: of all rows.
    """

    taken_over: Sequence[LiveFile]
    rows: pl.LazyFrame
    count: int
    checksum: int


def divided(fold: Fold | None, marked: Callable[[pl.LazyFrame], Iterable[pl.LazyFrame]]) -> LiveRows:
    """The live rows of a fold, by whether their file can be taken over.

    Args:
        marked: adds the column `changes` to live rows, of which it gives some after the other.

    Raises:
        StoreError: they cannot be read.
    """
    if fold is None:
        return LiveRows([], pl.LazyFrame(schema=_COLUMNS), 0, 0)
    folder = path_of(fold.ledger)
    files = _files(fold).with_columns(uri=pl.format("{}/{}", pl.lit(folder), "path"))
    rows = scan(files["uri"].to_list(), _COLUMNS, file="uri")
    changes, checksum = pl.col("changes").any(), checksum_of_ledger().alias("checksum")
    some = [collect(part.group_by("uri").agg(changes, checksum, count=pl.len())) for part in marked(rows)]
    sums = pl.concat(some).group_by("uri")
    each = sums.agg(changes, pl.col("checksum").bitwise_xor(), pl.col("count").sum())
    # A file of which the log does not say enough is written anew. So are the smallest where there are many.
    found = files.join(each, on="uri", how="left").sort("num_records", descending=True, nulls_last=True)
    is_known = pl.all_horizontal(pl.col("num_records", "min.fold", "max.fold").is_not_null())
    stays = (is_known & ~pl.col("changes")).fill_null(False)
    is_small = pl.col("num_records") < ROWS_OF_A_FILE
    stays &= ~is_small | ((stays & is_small).cum_sum() <= MOST_TAKEN_OVER)
    others = found.filter(~stays)
    return LiveRows(
        [_live_file(row) for row in found.filter(stays).rows(named=True)],
        scan(others["uri"].to_list(), _COLUMNS),
        int(others["count"].sum()),
        reduce(xor, found["checksum"].drop_nulls(), 0),
    )


def _files(fold: Fold) -> pl.DataFrame:
    """What the log says of the files of a fold's live rows; null where it says nothing."""
    actions = arrow_table(fold.ledger.get_add_actions(flatten=True))
    said = pl.DataFrame(actions.select([name for name in _LOG if name in actions.column_names]))
    missing = [pl.lit(None).cast(kind).alias(name) for name, kind in _LOG.items() if name not in said.columns]
    return said.with_columns(*missing).filter(pl.col(f"partition.{PARTITION}") == fold.number)


def _live_file(row: dict[str, Any]) -> LiveFile:
    file = File(row["path"], row["size_bytes"], row["modification_time"], row["num_records"])
    return LiveFile(file, (row["min.fold"], row["max.fold"]), row["checksum"])


def written(path: str, fold: int, parts: Sequence[pa.Table], is_live: bool) -> list[AddAction]:
    """Write rows of a fold into files of the ledger, and return what its commit says of them.

    Args:
        parts: the rows of each file.
    """
    partition = {PARTITION: str(fold) if is_live else None}
    return [file.added({"fold": (fold, fold)}, partition) for file in write_files(path, parts)]
