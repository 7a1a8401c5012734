"""A few rows of a Delta table, read back without Spark by their keys or row ids."""

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError
from pyarrow import ArrowException

from acker.core.store.tables import arrow_table, files_of, path_of
from acker.spouts.base import MOST_BYTES, MOST_FILES
from acker.spouts.delta.log import base_row_ids
from acker.spouts.files.listing import open_folder

_FILES_AT_ONCE = 4
_ROWS_AT_ONCE = 16_384  # for all rows of a file the system has to clear new memory: up to 5 times as long
_OFFSET = "_source_offset"
_WRITTEN_IDS = "delta.rowTracking.materializedRowIdColumnName"  # of rows that went from one file into another


def has_at_most(table: DeltaTable, most: int) -> bool:
    """Whether a table has at most `most` rows, as its log tells."""
    counts = arrow_table(table.get_add_actions(flatten=True))["num_records"]
    return counts.null_count == 0 and (pc.sum(counts).as_py() or 0) <= most


def rows_by_key(table: DeltaTable, key: str, wanted: pa.Array, where: str) -> pa.Table | None:
    """The rows of a plain table that have the wanted keys: `_source_offset`, and all columns of the table.

    Args:
        key: the integer column that holds the keys, which are the positions.
        wanted: the keys.
        where: a condition in DataFusion's SQL that all wanted rows fulfil, on which files are skipped.

    Returns:
        The rows; None where Spark had better read them: there are many files, large ones, or columns that
        are nested, or the files cannot be read from here.
    """
    return _rows(table, wanted, where, key)


def rows_by_id(table: DeltaTable, wanted: pa.Array) -> pa.Table | None:
    """The rows of a plain table with row tracking that have the wanted row ids.

    Returns:
        The rows as `rows_by_key` gives them; None where `rows_by_key` gives None, and where the table's log
        is long or cannot be read from here.
    """
    bases = base_row_ids(table)
    column = table.metadata().configuration.get(_WRITTEN_IDS, "")
    return None if bases is None else _rows(table, wanted, None, column, bases)


def _rows(
    table: DeltaTable,
    wanted: pa.Array,
    where: str | None,
    column: str,
    bases: Mapping[str, int] | None = None,
) -> pa.Table | None:
    """The rows of a table at the wanted positions, as `rows_by_key` gives them, or None.

    Args:
        wanted: the positions.
        where: a condition in DataFusion's SQL, on which files are skipped; None: all files are read.
        column: the column that holds a row's position.
        bases: path of a file -> its base row id. A row without a position in `column` has as position the
            base row id of its file plus its place in the file, from 0. None: such a row is not found.
    """
    try:
        columns = pa.schema(table.schema().to_arrow())
        paths = _files(table, where)
        if paths is None or any(pa.types.is_nested(kind) for kind in columns.types):
            return None
        if bases is not None and not bases.keys() >= set(paths):
            return None
        system, root = open_folder(path_of(table))

        def found(path: str) -> pa.Table:
            # Spark's times would be nanoseconds since 1970, which end in 2262.
            with pq.ParquetFile(
                f"{root}/{path}", filesystem=system, coerce_int96_timestamp_unit="us"
            ) as file:
                return _wanted_of(file, wanted, column, None if bases is None else bases[path], columns)

        nothing = columns.empty_table().add_column(0, _OFFSET, pa.array([], pa.int64()))
        with ThreadPoolExecutor(_FILES_AT_ONCE) as pool:
            return pa.concat_tables([nothing, *pool.map(found, paths)])
    except (ArrowException, DeltaError, OSError):  # such as a type that one of the libraries does not know
        return None


def _files(table: DeltaTable, where: str | None) -> list[str] | None:
    """Paths of a table's files below it; None where they are many, or large."""
    folder = path_of(table)
    paths = [path.removeprefix(f"{folder}/") for path in files_of(table, where)]
    if len(paths) > MOST_FILES:
        return None
    system, root = open_folder(folder)
    found = system.get_file_info([f"{root}/{path}" for path in paths])
    return None if sum(each.size or 0 for each in found) > MOST_BYTES else paths


def _wanted_of(
    file: pq.ParquetFile, wanted: pa.Array, column: str, base: int | None, columns: pa.Schema
) -> pa.Table:
    """The wanted rows of a file, with null in the columns that it was written without."""
    there = set(file.schema_arrow.names)
    parts = [columns.empty_table().add_column(0, _OFFSET, pa.array([], pa.int64()))]
    first = 0
    for group in range(file.num_row_groups):
        rows = file.metadata.row_group(group).num_rows
        counted = pa.nulls(rows, pa.int64()) if base is None else pa.array(base + first + np.arange(rows))
        positions = _positions(file, group, column, counted) if column in there else counted
        at = pc.indices_nonzero(pc.is_in(positions, value_set=wanted))
        if len(at):
            found = _rows_at(file, group, [name for name in columns.names if name in there], at.to_numpy())
            values = [
                found[each.name].cast(each.type) if each.name in there else pa.nulls(len(at), each.type)
                for each in columns
            ]
            part = pa.table([positions.take(at), *values], names=[_OFFSET, *columns.names])
            parts.append(part)
        first += rows
    return pa.concat_tables(parts)


def _rows_at(file: pq.ParquetFile, group: int, names: list[str], at: np.ndarray) -> pa.Table:
    """The rows of a row group at the places `at`, which are in rising order and at least one."""
    parts, first = [], 0
    for batch in file.iter_batches(_ROWS_AT_ONCE, [group], names):
        start, end = np.searchsorted(at, [first, first + batch.num_rows])
        parts.append(batch.take(pa.array(at[start:end] - first)))
        first += batch.num_rows
    return pa.Table.from_batches(parts)


def _positions(
    file: pq.ParquetFile, group: int, column: str, counted: pa.Array
) -> pa.ChunkedArray | pa.Array:
    written = file.read_row_group(group, [column])[column].cast(pa.int64())
    return pc.coalesce(written, counted)
