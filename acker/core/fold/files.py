"""The files of one fold: its rows on their way into the ledger, and their one commit."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import reduce
from operator import xor

import polars as pl
import pyarrow as pa
from deltalake import CommitProperties, DeltaTable
from deltalake.transaction import AddAction

from acker.core.fold.live import LiveFile, written
from acker.core.snapshot.ledger import APP
from acker.core.store.checksums import checksum_of_ledger
from acker.core.store.commits import ROWS_OF_A_FILE, file_rows
from acker.core.store.parquet import collect, columns_of
from acker.core.store.schemas import LEDGER, SCHEMAS
from acker.core.store.tables import commit_once
from acker.core.timeouts import Turn

_LEDGER = SCHEMAS[LEDGER]
_SCHEMA = pa.schema(
    [field for field in _LEDGER.arrow() if field.name not in _LEDGER.partition_by]
)  # of files


@dataclass(frozen=True)
class FoldName:
    """What each row of a fold has of it.

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
        taken_over: files of the fold before.
        prefix: how the names of new files begin.
    """

    def __init__(self, name: FoldName, taken_over: Sequence[LiveFile] = (), prefix: str = "") -> None:
        self._name, self._prefix = name, prefix
        self._actions = [each.taken_over(name.number) for each in taken_over]
        self._rows: dict[bool, list[pl.DataFrame]] = {True: [], False: []}  # live ones, settled ones
        self._checksums = {True: reduce(xor, (each.checksum for each in taken_over), 0), False: 0}

    def add(self, rows: pl.DataFrame) -> None:
        """Take in what `folded` gives. Rows that fill a file are written."""
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
        """Write what is left, and return all files."""
        for is_live, waiting in self._rows.items():
            if any(each.height for each in waiting):
                self._write(self._parts(self._taken(is_live)), is_live)
        return Written(self._actions, self._checksums)

    def commit(self, ledger: DeltaTable, turn: Turn, logged: Mapping[str, int], events: int) -> bool:
        """Commit the fold once; whether it is ours.

        Args:
            logged: component -> its newest batch that it read; `REFUSALS_READ` may be among them.
            events: all that it read, the late ones included.
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
        """Rows of the ledger as its files have them."""
        return file_rows(map(self._of_fold, rows.iter_slices(ROWS_OF_A_FILE)), _SCHEMA)

    def _of_fold(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Rows with what is the same in all of them."""
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
