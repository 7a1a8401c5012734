"""A few rows of a Delta table, read back without Spark by their keys or row ids."""

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError
from pyarrow import ArrowException
from pyarrow.dataset import Fragment, ParquetFileFormat, ParquetReadOptions

from acker.core.delta import files_of, path_of
from acker.spouts.delta_log import base_row_ids
from acker.spouts.few import MOST_BYTES, MOST_FILES
from acker.spouts.listing import open_folder

# Spark writes times so, and PyArrow would take them for nanoseconds since 1970, which end in 2262.
_FORMAT = ParquetFileFormat(read_options=ParquetReadOptions(coerce_int96_timestamp_unit="us"))
_FILES_AT_ONCE = 4
_WRITTEN_IDS = "delta.rowTracking.materializedRowIdColumnName"  # of rows that went from one file into another


def rows_by_key(table: DeltaTable, key: str, wanted: pa.Array, where: str) -> pa.Table | None:
    """Rows of a plain table by an integer column: `_source_offset`, and all columns of the table.

    Args:
        where: a condition in DataFusion's SQL that all of them fulfil, on which files are skipped.

    Returns:
        None where Spark had better read them: there are many files, large ones, or columns that are nested.
    """
    return _rows(table, wanted, where, key)


def rows_by_id(table: DeltaTable, wanted: pa.Array) -> pa.Table | None:
    """The same by the row ids of a plain table that tracks its rows; None also where its log is long."""
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
    """Rows whose positions a column holds; where it is null they are counted from the base of their file."""
    try:
        schema = pa.schema(table.schema().to_arrow())
        files = _files(table, where)
        if files is None or any(pa.types.is_nested(kind) for kind in schema.types):
            return None
        if bases is not None and not files.keys() <= bases.keys():
            return None

        def found(path: str) -> pa.Table:
            file = files[path]
            positions = _positions(file, column, None if bases is None else bases[path])
            at = pc.indices_nonzero(pc.is_in(positions, value_set=wanted))
            rows = file.scanner(schema=schema).take(at) if len(at) else schema.empty_table()
            return rows.add_column(0, "_source_offset", positions.take(at))

        nothing = schema.empty_table().add_column(0, "_source_offset", pa.array([], pa.int64()))
        with ThreadPoolExecutor(_FILES_AT_ONCE) as pool:
            return pa.concat_tables([nothing, *pool.map(found, files)])
    except (ArrowException, DeltaError, OSError):  # such as a type that one of the libraries does not know
        return None


def _files(table: DeltaTable, where: str | None) -> dict[str, Fragment] | None:
    """The files of a table by their paths below it; None where there are many, or large ones."""
    folder = path_of(table)
    paths = [path.removeprefix(f"{folder}/") for path in files_of(table, where)]
    if len(paths) > MOST_FILES:
        return None
    system, root = open_folder(folder)
    found = system.get_file_info([f"{root}/{path}" for path in paths])
    if sum(each.size or 0 for each in found) > MOST_BYTES:
        return None
    return {path: _FORMAT.make_fragment(f"{root}/{path}", system) for path in paths}


def _positions(file: Fragment, column: str, base: int | None) -> pa.ChunkedArray | pa.Array:
    rows = file.count_rows()
    counted = pa.nulls(rows, pa.int64()) if base is None else pa.array(base + np.arange(rows))
    if column not in file.physical_schema.names:
        return counted
    written = file.scanner(columns=[column]).to_table()[column].cast(pa.int64())
    return pc.coalesce(written, counted)
