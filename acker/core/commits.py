"""Parquet files below a table's folder, and the commits that make them part of it.

Until then no version of the table names them. What a write that was killed leaves is taken away by `vacuum`.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import CommitProperties, DeltaTable, Field, Schema
from deltalake.fs import DeltaStorageHandler
from deltalake.transaction import AddAction, create_table_with_add_actions
from pyarrow.fs import FileSelector, FileType, PyFileSystem

from acker.core.delta import REFUSED, commit_once, path_of, said, unwritten
from acker.core.schemas import STREAM_PROPERTIES

ROWS = "rows"  # what the note of a commit calls the number of rows that it brought


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
        self,
        column: str,
        low: int,
        high: int,
        partition: Mapping[str, str | None] | None = None,
        is_new: bool = True,
    ) -> AddAction:
        """What a commit says of it, with the bounds of a column without nulls.

        Args:
            partition: its values.
            is_new: whether its rows are new to the table.
        """
        stats = {
            "numRecords": self.rows,
            "minValues": {column: low},
            "maxValues": {column: high},
            "nullCount": {column: 0},
        }
        values = dict(partition or {})
        return AddAction(self.path, self.size, values, self.modified, is_new, json.dumps(stats))


def batch_folder(batch: int) -> str:
    """A folder below a stream's for the files of one write of a batch; another one each time."""
    return f"b{batch}-{uuid4().hex[:8]}"


def commit_batch(path: str, files: Sequence[File], schema: Schema, component: str, batch: int) -> None:
    """Make files a part of a stream's table, in one commit that happens once per batch.

    The table is made where it is missing. Columns that it lacks are added in a commit before.

    Args:
        path: of the table.
        files: all that the batch has.
        schema: of the table, with all columns that the files have.

    Raises:
        StoreError: they could not be committed.
    """
    actions = [file.added("_batch", batch, batch) for file in files if file.rows]
    note = {ROWS: str(sum(file.rows for file in files))}

    def commit(table: DeltaTable | None, once: CommitProperties) -> None:
        if table is None:
            create_table_with_add_actions(
                path, schema, actions, configuration=STREAM_PROPERTIES, commit_properties=once
            )
            return
        new = _new(schema, table.schema())
        if new:
            table.alter.add_columns(new)
        table.create_write_transaction([*actions], "append", table.schema(), commit_properties=once)

    commit_once(path, {component: batch}, commit, note)


def commit_rows(table: DeltaTable, rows: pa.Table, component: str, batch: int) -> None:
    """Append the rows of a batch to a stream's table as `commit_batch` does, in a file that it writes.

    Args:
        rows: columns of the table, in its types.

    Raises:
        StoreError: they could not be written or committed.
    """
    path = path_of(table)
    commit_batch(path, [write_file(path, rows)], table.schema(), component, batch)


def rows_of_newest_write(table: DeltaTable, among: int) -> int:
    """Rows that the newest write brought among so many commits of a stream; 0 where there is none."""
    return next((int(each[ROWS]) for each in table.history(among) if ROWS in each), 0)


def write_file(path: str, rows: pa.Table) -> File:
    """Write rows into a file of their own below a table's folder, which no version of the table names yet.

    Raises:
        StoreError: they could not be written.
    """
    system, name = PyFileSystem(DeltaStorageHandler(path)), f"{uuid4().hex}.parquet"
    try:
        pq.write_table(rows, name, filesystem=system, compression="zstd")
    except REFUSED as error:
        raise unwritten(path, error, f"The rows did not go into {path}: {said(error)}") from error
    (written,) = system.get_file_info([name])
    return File(name, written.size, written.mtime_ns // 1_000_000, rows.num_rows)


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


def _new(wanted: Schema, there: Schema) -> list[Field]:
    """The columns that are missing, and those of which parts are."""
    known = {field.name: field for field in there.fields}
    return [field for field in wanted.fields if known.get(field.name) != field]
