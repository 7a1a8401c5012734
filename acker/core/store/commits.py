"""Parquet files below a table's folder, and the commits that make them part of the table.

Before its commit no version of the table names a file. Files that a killed write leaves are removed by
`vacuum`.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any
from uuid import uuid4

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import CommitProperties, DeltaTable, Field, Schema, write_deltalake
from deltalake.fs import DeltaStorageHandler
from deltalake.schema import PrimitiveType
from deltalake.transaction import AddAction, create_table_with_add_actions
from pyarrow.fs import FileSelector, FileType, PyFileSystem

from acker.core.store.copies import files_at
from acker.core.store.schemas import LOG_PROPERTIES, STREAM_PROPERTIES, properties_at
from acker.core.store.tables import REFUSED, commit_once, history, path_of, sentence_of, unwritten

ROWS = "rows"  # what the note of a commit calls the number of rows that it brought
ROWS_OF_A_FILE = 500_000  # of which there are many; so files are written side by side

# Of their values no two are alike.
_IDS = ("root_id", "_root_id", "ack_val")
_POSITIONS = ("source_offset", "_source_offset")

WIDER = {  # type of a column -> those into which each of its values fits
    "byte": ("short", "integer", "long"),
    "short": ("integer", "long"),
    "integer": ("long",),
    "float": ("double",),
}

Bounds = Mapping[str, tuple[Any, Any]]  # the least and the greatest value of some columns


@dataclass(frozen=True)
class File:
    """A Parquet file below a table's folder.

    Args:
        path: below the table's folder.
        size: bytes.
        modified: milliseconds since 1970.
    """

    path: str
    size: int
    modified: int
    rows: int

    def added(
        self, bounds: Bounds, partition: Mapping[str, str | None] | None = None, is_new: bool = True
    ) -> AddAction:
        """The action in a commit that adds this file.

        Args:
            bounds: least and greatest values of columns without nulls.
            partition: the file's values of the partition columns.
            is_new: whether the file's rows are new to the table.
        """
        stats = {
            "numRecords": self.rows,
            "minValues": {column: low for column, (low, _) in bounds.items()},
            "maxValues": {column: high for column, (_, high) in bounds.items()},
            "nullCount": dict.fromkeys(bounds, 0),
        }
        values = dict(partition or {})
        return AddAction(self.path, self.size, values, self.modified, is_new, json.dumps(stats))


def batch_folder(batch: int) -> str:
    """The name of a new folder below a stream's, for the files of one write of a batch."""
    return f"b{batch}-{uuid4().hex[:8]}"


def commit_batch(path: str, files: Sequence[File], schema: Schema, component: str, batch: int) -> None:
    """Make files a part of a stream's table, in one commit that happens once per batch.

    The table is made where it is missing. Columns that the table lacks are added in a commit before. A column
    that has a wider type in `schema` than in the table gets the wider type in a commit before, too.

    Args:
        path: of the table.
        files: all files of the batch.
        schema: of the table, with all columns that the files have.

    Raises:
        StoreError: the files could not be committed.
    """
    actions = [file.added({"_batch": (batch, batch)}) for file in files if file.rows]
    note = {ROWS: str(sum(file.rows for file in files))}

    def commit(table: DeltaTable | None, once: CommitProperties) -> None:
        if table is None:
            properties = properties_at(path, STREAM_PROPERTIES)
            create_table_with_add_actions(
                path, schema, actions, configuration=properties, commit_properties=once
            )
            return
        new = _new(schema, table.schema())
        wider = {field.name: field for field in new if _is_wider(field, table.schema())}
        if wider:
            _widen(table, wider)
        if len(new) > len(wider):
            table.alter.add_columns([field for field in new if field.name not in wider])
        table.create_write_transaction([*actions], "append", table.schema(), commit_properties=once)

    commit_once(path, {component: batch}, commit, note)


def make_table(path: str, rows: pa.Table, once: CommitProperties) -> None:
    """Make a table of the store with its first rows, in one commit, for `commit_once`.

    The commit is refused where somebody else has made the table since the caller looked for it.
    `write_deltalake` would look once more, and append the rows to that table.
    """
    files_at(path, make=True)
    actions = [write_file(path, rows).added({})]
    create_table_with_add_actions(
        path,
        Schema.from_arrow(rows.schema),
        actions,
        configuration=properties_at(path, LOG_PROPERTIES),
        commit_properties=once,
    )


def commit_rows(table: DeltaTable, rows: pa.Table, component: str, batch: int) -> None:
    """Write the rows of a batch into a file, and append the file to a stream's table as `commit_batch` does.

    Args:
        rows: columns of the table, in its types.

    Raises:
        StoreError: the rows could not be written or committed.
    """
    path = path_of(table)
    commit_batch(path, [write_file(path, rows)], table.schema(), component, batch)


def append_files(
    table: DeltaTable,
    parts: Sequence[tuple[pa.Table, Bounds]],
    app: str,
    number: int,
    written: Sequence[tuple[File, Bounds]] = (),
) -> None:
    """Append rows as `append_rows` of `tables` does, in files that are written side by side.

    Args:
        parts: the rows of each file, with columns of the table in its types, and their bounds for the log.
        written: files of further rows that were written before.

    Raises:
        StoreError: the rows could not be written or committed.
    """

    def commit(found: DeltaTable | None, once: CommitProperties) -> None:
        assert found is not None
        files = write_files(path_of(found), [rows for rows, _ in parts])
        new = zip(files, (bounds for _, bounds in parts), strict=True)
        actions = [file.added(bounds) for file, bounds in (*new, *written)]
        found.create_write_transaction([*actions], "append", found.schema(), commit_properties=once)

    commit_once(table, {app: number}, commit)


def rows_of_newest_write(table: DeltaTable, among: int) -> int:
    """Number of rows of the newest write among so many last commits of a stream; 0 where there is none."""
    return next((int(each[ROWS]) for each in history(table, among) if ROWS in each), 0)


def write_files(path: str, parts: Sequence[pa.Table], prefix: str = "") -> list[File]:
    """Write rows side by side, those of each part into a file of its own; see `write_file`."""
    with ThreadPoolExecutor() as pool:
        return list(pool.map(partial(write_file, path, prefix=prefix), parts))


def write_file(path: str, rows: pa.Table, prefix: str = "") -> File:
    """Write rows into a file of their own below a table's folder, which no version of the table names yet.

    Args:
        prefix: how the file's name begins.

    Raises:
        StoreError: the rows could not be written.
    """
    system, name = PyFileSystem(DeltaStorageHandler(path)), f"{prefix}{uuid4().hex}.parquet"
    try:
        pq.write_table(rows, name, filesystem=system, compression="snappy", **_options(rows.schema))
    except REFUSED as error:
        raise unwritten(path, error, f"The rows did not go into {path}: {sentence_of(error)}") from error
    (written,) = system.get_file_info([name])
    return File(name, written.size, written.mtime_ns // 1_000_000, rows.num_rows)


def _options(schema: pa.Schema) -> dict[str, Any]:
    """Options of `pyarrow.parquet.write_table`, which else tries a dictionary for each column first."""
    integers = [field.name for field in schema if field.type == pa.int64()]
    others = [name for name in schema.names if name not in _IDS]
    return {
        "store_schema": False,  # it would tell of dictionaries
        "write_statistics": others,  # bounds of ids exclude nothing
        "use_dictionary": [name for name in others if name not in _POSITIONS],
        "column_encoding": {name: "DELTA_BINARY_PACKED" for name in _POSITIONS if name in integers},
    }


def file_rows(parts: Iterable[pl.DataFrame], schema: pa.Schema) -> list[pa.Table]:
    """The rows of each file as `write_file` takes them, without columns that have no value in any row.

    A column with the same string in each row becomes a dictionary of one word, which spares a look at each
    value.

    Args:
        parts: the rows of each file.
        schema: of the table.
    """
    with ThreadPoolExecutor() as pool:
        return list(pool.map(partial(_file_rows, schema=schema), parts))


def _file_rows(rows: pl.DataFrame, schema: pa.Schema) -> pa.Table:
    columns = [field for field in schema if field.name in rows.columns]
    columns = [field for field in columns if rows[field.name].null_count() < rows.height]
    return pa.table({field.name: _array(rows[field.name], field.type) for field in columns})


def _array(values: pl.Series, kind: pa.DataType) -> pa.Array:
    is_word = kind == pa.string() and len(values) > 0 and not values.has_nulls()
    if not is_word or not (values == values[0]).all():
        return values.to_arrow().cast(kind)
    places = pl.zeros(len(values), pl.Int32, eager=True)
    return pa.DictionaryArray.from_arrays(places.to_arrow(), values.head(1).to_arrow().cast(kind))


def files_below(path: str, folder: str) -> list[File]:
    """The Parquet files in a folder below a table's.

    Args:
        path: of the table.
    """
    system = PyFileSystem(DeltaStorageHandler(path))
    found = system.get_file_info(FileSelector(folder, recursive=True))
    files = [each for each in found if each.type == FileType.File and each.extension == "parquet"]
    return [
        File(
            each.path,
            each.size,
            each.mtime_ns // 1_000_000,
            pq.read_metadata(each.path, filesystem=system).num_rows,
        )
        for each in files
    ]


def _widen(table: DeltaTable, wider: Mapping[str, Field]) -> None:
    """Give columns of a table a wider type. Its files stay as they are: whoever reads them casts the values.

    Delta has a feature of its own for this, which `deltalake` does not write.
    """
    fields = [wider.get(field.name, field) for field in table.schema().fields]
    rows = pa.schema(Schema(fields).to_arrow()).empty_table()
    write_deltalake(table, rows, mode="overwrite", schema_mode="overwrite", predicate="false")  # of no row
    table.update_incremental()


def _is_wider(field: Field, there: Schema) -> bool:
    """Whether a field has a wider type than the table's column of its name, so that each value fits."""
    narrow = next((each.type for each in there.fields if each.name == field.name), None)
    if not isinstance(narrow, PrimitiveType) or not isinstance(field.type, PrimitiveType):
        return False
    return field.type.type in WIDER.get(narrow.type, ())


def _new(wanted: Schema, there: Schema) -> list[Field]:
    """The wanted columns that a table lacks or has in another type, such as a struct with fewer fields."""
    known = {field.name: field for field in there.fields}
    return [field for field in wanted.fields if known.get(field.name) != field]
