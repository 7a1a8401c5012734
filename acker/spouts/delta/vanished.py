"""Ranges of a Delta table whose planned version cannot be read any more, as after a VACUUM or a long wait.

The messages of such a range are the rows that the newest version still has. For rows that are gone this
module makes `lost` rows: one at each position, where each position was a row, and otherwise one for all,
which says how many are gone.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from deltalake import DeltaTable
from numpy.typing import NDArray
from pyarrow import ArrowException, fs

from acker.core.events import Kind
from acker.core.store.tables import files_of, open_table, path_of
from acker.spouts.base import Range
from acker.spouts.delta.log import has_commit, ids_of_new_rows, removed_vectors
from acker.spouts.files.listing import open_folder

_GONE = "the row was deleted from the source before it was read"
_SOME_GONE = "{gone} of {rows} rows were deleted from the source before they were read; which is not known"
_PERHAPS_GONE = (
    "rows up to position {upto} may have been deleted from the source before they were read; how many were "
    "there was not counted"
)


@dataclass(frozen=True)
class Counted:
    """The rows that a range had when it was planned.

    Args:
        spans: [low, high] of positions, in order, within which the rows lie.
        rows: the number of rows; None where it is unknown.
    """

    spans: Sequence[tuple[int, int]]
    rows: int | None

    @property
    def is_each_a_row(self) -> bool:
        """Whether there was a row at each position of the spans."""
        return self.rows == sum(high - low + 1 for low, high in self.spans)


def as_planned(newest: DeltaTable, version: int, where: str | None) -> DeltaTable | None:
    """A version of a table; None where its rows that fulfil a condition cannot be read any more.

    Only files that the newest version no longer has are looked for.

    Args:
        newest: the table at its newest version.
        where: a condition in DataFusion's SQL, on which files are skipped.

    Raises:
        StoreError: the version is damaged, or the table has none of that number yet.
    """
    if newest.version() == version:
        return newest
    path = path_of(newest)
    if newest.version() > version and not has_commit(path, version):
        return None
    table = open_table(path, version, is_read_only=True)
    if table is None:
        return None
    at_risk = {*files_of(table, where)} - {*files_of(newest, where)}
    try:
        if "deletionVectors" in (table.protocol().reader_features or ()):
            at_risk |= removed_vectors(path, version, newest.version())
        return table if _are_there(path, sorted(at_risk)) else None
    except (ArrowException, OSError):  # that cannot be asked from here, and Spark says what is missing
        return table


def counted(planned: Range, path: str | None) -> Counted:
    """The rows that a range had when it was planned, as its plan or the table's log tells.

    Args:
        planned: the range: its `after`, `upto` and `version`; and where its rows were counted their number,
            `rows`, and their `first` position.
        path: absolute path or URI of the table if positions are its row ids.
    """
    after, upto = planned["after"], planned["upto"]
    if planned.get("rows") is not None:
        return Counted([(planned["first"], upto)], planned["rows"])
    if path is None:  # only older plans have counted no keys
        return Counted([(upto if after is None else after + 1, upto)], None)
    low = 0 if after is None else after + 1
    spans = ids_of_new_rows(path, low, upto, planned["version"])
    if spans is None:
        return Counted([(low, upto)], None)
    return Counted(spans, sum(high - low + 1 for low, high in spans))


def lost_rows(counted: Counted, found: pa.ChunkedArray) -> pa.Table | None:
    """A `lost` row for each row that is gone, or one for all of them; None where none is gone.

    The columns are _source_offset, _kind and _error.

    Args:
        counted: the rows that the range had.
        found: `_source_offset` of the rows that are there.
    """
    if counted.rows is not None and len(found) >= counted.rows:
        return None
    there = np.unique(found.to_numpy())
    if counted.is_each_a_row:
        every = [np.arange(low, high + 1, dtype=np.int64) for low, high in counted.spans]
        gone = np.setdiff1d(np.concatenate(every), there, assume_unique=True)
        error = _GONE
    else:
        absent = [position for span in counted.spans if (position := _first_absent(span, there)) is not None]
        gone = np.array(absent[:1], dtype=np.int64)
        upto = counted.spans[-1][1] if counted.spans else None
        error = (
            _PERHAPS_GONE.format(upto=upto)
            if counted.rows is None
            else _SOME_GONE.format(gone=counted.rows - len(found), rows=counted.rows)
        )
    if not len(gone):
        return None
    told = [pa.repeat(Kind.LOST.value, len(gone)), pa.repeat(error, len(gone))]
    return pa.table([pa.array(gone), *told], names=["_source_offset", "_kind", "_error"])


def _first_absent(span: tuple[int, int], there: NDArray[np.int64]) -> int | None:
    """The lowest position of a span that is not in `there`, which is sorted; None where all are."""
    low, high = span
    within = there[(there >= low) & (there <= high)]
    gaps = np.flatnonzero(within != low + np.arange(len(within)))
    first = low + int(gaps[0]) if len(gaps) else low + len(within)
    return None if first > high else first


def _are_there(table: str, files: Sequence[str]) -> bool:
    if not files:
        return True
    system, root = open_folder(table)
    below = [file.removeprefix(table) for file in files if file.startswith(f"{table}/")]
    found = system.get_file_info([f"{root}{path}" for path in below])
    for file in files:
        if not file.startswith(f"{table}/"):  # of a shallow clone
            other, place = open_folder(file)
            found.append(other.get_file_info(place))
    return all(each.type != fs.FileType.NotFound for each in found)
