"""The files of a fold's live rows. The next fold takes over those in which nothing changes.

To take a file over is to say in the log that it belongs to the next fold's partition: no row is written.
So what a fold writes follows from what has happened, and not from what is live.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import reduce
from operator import xor
from typing import Any

import polars as pl
import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError
from deltalake.transaction import AddAction

from acker.core.snapshot.ledger import APP, Fold
from acker.core.store.checksums import checksum_of_ledger
from acker.core.store.commits import ROWS_OF_A_FILE, File, write_files
from acker.core.store.parquet import collect, columns_of, scan
from acker.core.store.schemas import LEDGER, SCHEMAS
from acker.core.store.tables import arrow_table, last_number, open_table, path_of

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
        files: paths of all other files.
        count: how many rows these have.
        checksum: of all rows.
    """

    taken_over: Sequence[LiveFile] = ()
    files: Sequence[str] = ()
    count: int = 0
    checksum: int = 0


def live_files(fold: Fold) -> pl.DataFrame:
    """What the log says of the files of a fold's live rows, and the path of each, `uri`."""
    return _files_of(fold.ledger, fold.number)


def _files_of(ledger: DeltaTable, fold: int) -> pl.DataFrame:
    actions = arrow_table(ledger.get_add_actions(flatten=True))
    said = pl.DataFrame(actions.select([name for name in _LOG if name in actions.column_names]))
    missing = [pl.lit(None).cast(kind).alias(name) for name, kind in _LOG.items() if name not in said.columns]
    files = said.with_columns(*missing).filter(pl.col(f"partition.{PARTITION}") == fold)
    return files.with_columns(uri=pl.format("{}/{}", pl.lit(path_of(ledger)), "path"))


def live_count(ledger: DeltaTable, moment: datetime | None = None) -> int | None:
    """How many messages are not settled as of the newest fold in a ledger, by its log alone.

    Args:
        moment: as of the newest fold that there was then, by the times of the log's files.

    Returns:
        None before the first fold, and where the log does not go back to the moment.
    """
    found = ledger if moment is None else open_table(path_of(ledger))
    try:
        if found is not None and moment is not None:
            found.load_as_version(moment)
    except DeltaError:  # the log was cleaned
        return None
    number = last_number(found, APP)
    return None if found is None or number == 0 else int(_files_of(found, number)["num_records"].sum())


def scan_live(files: Sequence[str]) -> pl.LazyFrame:
    """The rows of some files, with the file of each, `uri`."""
    return scan(files, _COLUMNS, file="uri")


def summed(marked: pl.LazyFrame) -> pl.DataFrame:
    """Per file (`uri`) whether one of its rows `changes`, their checksum and their count.

    Args:
        marked: rows of `scan_live`, with the column `changes`.
    """
    changes, checksum = pl.col("changes").any(), checksum_of_ledger().alias("checksum")
    return collect(marked.group_by("uri").agg(changes, checksum, count=pl.len()))


def divided(files: pl.DataFrame, sums: Iterable[pl.DataFrame]) -> LiveRows:
    """The live rows of a fold, by whether their file can be taken over.

    Args:
        files: see `live_files`.
        sums: see `summed`, of all rows.
    """
    # A file of which the log does not say enough is written anew. So are the smallest where there are many.
    parts = pl.concat(sums).group_by("uri")
    each = parts.agg(pl.col("changes").any(), pl.col("checksum").bitwise_xor(), pl.col("count").sum())
    found = files.join(each, on="uri", how="left").sort("num_records", descending=True, nulls_last=True)
    is_known = pl.all_horizontal(pl.col("num_records", "min.fold", "max.fold").is_not_null())
    stays = (is_known & ~pl.col("changes")).fill_null(False)
    is_small = pl.col("num_records") < ROWS_OF_A_FILE
    stays &= ~is_small | ((stays & is_small).cum_sum() <= MOST_TAKEN_OVER)
    others = found.filter(~stays)
    return LiveRows(
        [_live_file(row) for row in found.filter(stays).rows(named=True)],
        others["uri"].to_list(),
        int(others["count"].sum()),
        reduce(xor, found["checksum"].drop_nulls(), 0),
    )


def _live_file(row: dict[str, Any]) -> LiveFile:
    file = File(row["path"], row["size_bytes"], row["modification_time"], row["num_records"])
    return LiveFile(file, (row["min.fold"], row["max.fold"]), row["checksum"])


def written(
    path: str, fold: int, parts: Sequence[pa.Table], is_live: bool, prefix: str = ""
) -> list[AddAction]:
    """Write rows of a fold into files of the ledger, and return what its commit says of them.

    Args:
        parts: the rows of each file.
        prefix: how the files' names begin.
    """
    partition = {PARTITION: str(fold) if is_live else None}
    return [file.added({"fold": (fold, fold)}, partition) for file in write_files(path, parts, prefix)]
