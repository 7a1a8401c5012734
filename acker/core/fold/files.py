"""The files of one fold: its rows on their way into the ledger, and their one commit.

The next fold reuses those files of live rows in which nothing changes. To reuse a file is to say in
the log that it belongs to the next fold's partition: no row is written. So the number of files that a fold
writes depends on the files in which a row changes, by an event or a time-out, and not on the number of live
rows.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import reduce
from operator import xor
from typing import Any

import polars as pl
import pyarrow as pa
from deltalake import CommitProperties, DeltaTable
from deltalake.exceptions import DeltaError
from deltalake.transaction import AddAction

from acker.core.snapshot.ledger import APP, Fold
from acker.core.store.checksums import checksum_of_ledger
from acker.core.store.commits import ROWS_OF_A_FILE, File, file_rows, write_files
from acker.core.store.parquet import collect, columns_of, scan
from acker.core.store.schemas import LEDGER, SCHEMAS
from acker.core.store.tables import arrow_table, commit_once, last_number, open_table, path_of
from acker.core.timeouts import Turn

(PARTITION,) = SCHEMAS[LEDGER].partition_by
MOST_REUSED = 32  # files that are not full; of more the smallest become one

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

    def reused(self, fold: int) -> AddAction:
        """The action in a fold's commit that reuses this file."""
        return self.file.added({"fold": self.folds}, {PARTITION: str(fold)}, is_new=False)


@dataclass(frozen=True)
class LiveRows:
    """The live rows of a fold, as the next one finds them.

    Args:
        reused: files in which nothing changes.
        files: paths of all other files.
        count: how many rows the other files have.
        checksum: of all live rows.
    """

    reused: Sequence[LiveFile] = ()
    files: Sequence[str] = ()
    count: int = 0
    checksum: int = 0


def live_files(fold: Fold) -> pl.DataFrame:
    """The log's entries for the files of a fold's live rows, with the path of each file, `uri`."""
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
        moment: the time whose newest fold counts, by the times of the log's files; None: now.

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
    """The rows of some files, with the path of each row's file, `uri`."""
    return scan(files, _COLUMNS, file="uri")


def summed(rows: pl.LazyFrame) -> pl.DataFrame:
    """Per file (`uri`): whether one of its rows changes (`dirty`), their checksum and their number.

    Args:
        rows: rows of `scan_live`, with the column `dirty`.
    """
    dirty, checksum = pl.col("dirty").any(), checksum_of_ledger().alias("checksum")
    return collect(rows.group_by("uri").agg(dirty, checksum, count=pl.len()))


def by_reuse(files: pl.DataFrame, sums: Iterable[pl.DataFrame]) -> LiveRows:
    """The live rows of a fold, parted into files that can be reused and rows that are written anew.

    Args:
        files: see `live_files`.
        sums: see `summed`, of all rows.
    """
    # A file of which the log does not say enough is written anew. So are the smallest where there are many.
    parts = pl.concat(sums).group_by("uri")
    each = parts.agg(pl.col("dirty").any(), pl.col("checksum").bitwise_xor(), pl.col("count").sum())
    found = files.join(each, on="uri", how="left").sort("num_records", descending=True, nulls_last=True)
    is_known = pl.all_horizontal(pl.col("num_records", "min.fold", "max.fold").is_not_null())
    stays = (is_known & ~pl.col("dirty")).fill_null(False)
    is_small = pl.col("num_records") < ROWS_OF_A_FILE
    stays &= ~is_small | ((stays & is_small).cum_sum() <= MOST_REUSED)
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
    """Write rows of a fold into files of the ledger, and return the actions that add the files.

    Args:
        parts: the rows of each file.
        prefix: how the files' names begin.
    """
    partition = {PARTITION: str(fold) if is_live else None}
    return [file.added({"fold": (fold, fold)}, partition) for file in write_files(path, parts, prefix)]


_LEDGER = SCHEMAS[LEDGER]
_SCHEMA = pa.schema(
    [field for field in _LEDGER.arrow() if field.name not in _LEDGER.partition_by]
)  # of files


@dataclass(frozen=True)
class FoldName:
    """The values of a fold that each of its rows has, and the ledger's path.

    Args:
        path: of the ledger.
    """

    path: str
    number: int
    events_version: int
    now: datetime


@dataclass(frozen=True)
class Written:
    """Files of a fold that no commit has yet.

    Args:
        checksums: of their rows, by whether these live on.
    """

    actions: Sequence[AddAction]
    checksums: Mapping[bool, int]


class FoldFiles:
    """Rows of a fold on their way into files.

    Args:
        reused: files of the fold before.
        prefix: how the names of new files begin.
    """

    def __init__(self, name: FoldName, reused: Sequence[LiveFile] = (), prefix: str = "") -> None:
        self._name, self._prefix = name, prefix
        self._actions = [each.reused(name.number) for each in reused]
        self._rows: dict[bool, list[pl.DataFrame]] = {True: [], False: []}  # live ones, settled ones
        self._checksums = {True: reduce(xor, (each.checksum for each in reused), 0), False: 0}

    def add(self, rows: pl.DataFrame) -> None:
        """Take in rows from `folded`. Rows that fill a file are written."""
        for is_live, waiting in self._rows.items():
            mine = rows.filter(pl.col("live") == is_live).drop("live")
            self._checksums[is_live] ^= int(collect(mine.lazy().select(checksum_of_ledger())).item())
            waiting.append(mine)
            if sum(each.height for each in waiting) >= ROWS_OF_A_FILE:
                self._write(self._parts(self._taken(is_live)), is_live)

    def take(self, written: Written) -> None:
        """Take in files that were written elsewhere."""
        self._actions += written.actions
        for is_live, checksum in written.checksums.items():
            self._checksums[is_live] ^= checksum

    def written(self) -> Written:
        """Write the rows that are left, and return all files."""
        for is_live, waiting in self._rows.items():
            if any(each.height for each in waiting):
                self._write(self._parts(self._taken(is_live)), is_live)
        return Written(self._actions, self._checksums)

    def commit(self, ledger: DeltaTable, turn: Turn, logged: Mapping[str, int], events: int) -> bool:
        """Write the rows that are left, and commit the fold once.

        Args:
            logged: component -> its newest batch that the fold read; under the key `REFUSALS_READ` the newest
                commit of `refusals` that it read, if there is one.
            events: the number of events that the fold read, late ones included.

        Returns:
            True if this commit went in, and not another client's.
        """
        own = self._fold_row(turn, events)
        settled = self._taken(False) if self._rows[False] else own.clear()
        (first,) = file_rows([pl.concat([own, self._of_fold(settled)], how="diagonal")], _SCHEMA)
        first = first.append_column("logged", _logged(logged, first.num_rows))
        self._write([first], is_live=False)
        if self._rows[True]:
            self._write(self._parts(self._taken(True)), is_live=True)

        def commit(table: DeltaTable | None, once: CommitProperties) -> None:
            assert table is not None
            partition_by = list(_LEDGER.partition_by)
            table.create_write_transaction(
                [*self._actions], "append", table.schema(), partition_by, commit_properties=once
            )

        return commit_once(ledger, {APP: self._name.number}, commit)

    def _taken(self, is_live: bool) -> pl.DataFrame:
        rows = pl.concat(self._rows[is_live], how="diagonal")
        self._rows[is_live][:] = [rows.clear()]
        # What is emitted together mostly settles or times out together.
        return rows.sort("turn", "batch") if is_live and rows.height > ROWS_OF_A_FILE else rows

    def _parts(self, rows: pl.DataFrame) -> list[pa.Table]:
        """Rows of the ledger as tables, one for each file that is to be written."""
        return file_rows(map(self._of_fold, rows.iter_slices(ROWS_OF_A_FILE)), _SCHEMA)

    def _of_fold(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Rows with the columns that are the same in all rows of a fold."""
        return rows.with_columns(
            fold=pl.lit(self._name.number, pl.Int64),
            events_version=pl.lit(self._name.events_version, pl.Int64),
            folded_at=pl.lit(self._name.now),
        )

    def _write(self, parts: Sequence[pa.Table], is_live: bool) -> None:
        self._actions += written(self._name.path, self._name.number, parts, is_live, self._prefix)

    def _fold_row(self, turn: Turn, events: int) -> pl.DataFrame:
        """The fold's row of itself, but for `logged`, with the checksums of its settled and its live rows."""
        row = {
            "fold": self._name.number,
            "events_version": self._name.events_version,
            "turn": turn.number,
            "window": turn.window,
            "events": events,
            "ack_val": self._checksums[False],
            "outstanding": self._checksums[True],
            "folded_at": self._name.now,
        }
        return pl.DataFrame([row], columns_of(LEDGER))


def _logged(newest: Mapping[str, int], rows: int) -> pa.ChunkedArray:
    """The column `logged` of so many rows, of which the first is the fold's own."""
    # Polars has no type for a map, and PyArrow imports pandas for Python's values: twice the time of a fold.
    ends, names, batches = (
        pl.Series(list(values), dtype=kind).to_arrow()
        for values, kind in (
            ((0, len(newest)), pl.Int32()),
            (newest.keys(), pl.String()),
            (newest.values(), pl.Int64()),
        )
    )
    own = pa.MapArray.from_arrays(ends, names.cast(pa.string()), batches)
    return pa.chunked_array([own, pa.nulls(rows - 1, own.type)])
