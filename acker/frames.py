"""Delta tables as Polars frames: the files that can hold what is asked for, and nothing else is read.

Polars groups ten million ids in a tenth of the time that Spark takes for it (`docs/performance.md`).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl
import pyarrow as pa
from deltalake import DeltaTable

from acker.errors import StoreError
from acker.schemas import SCHEMAS, stream
from acker.tables import WAY_OUT, Store, arrow_table, in_batches, query, said

# The stream's column `_held`: where a tuple lies that a rich bolt holds back, since when, and who has it.
PLACE: dict[str, pl.DataType] = {
    "stream": pl.String(),
    "file": pl.String(),
    "row": pl.Int64(),
    "batch": pl.Int64(),
    "since": pl.Int64(),
    "task": pl.Int32(),
}

# The columns that a stream may have beside the user's.
_STREAM: dict[str, pl.DataType] = {
    "_root_id": pl.Int64(),
    "_root_ids": pl.List(pl.Int64()),
    "_batch": pl.Int64(),
    "_stream": pl.String(),
    "_kind": pl.String(),
    "_error": pl.String(),
    "_held": pl.Struct(PLACE),
    "_source_partition": pl.String(),
    "_source_offset": pl.Int64(),
    "_attempt": pl.Int32(),
    "_replaces": pl.Int64(),
}
# Polars would convert the types itself, but imports pandas for a time, which takes a second.
_POLARS: dict[pa.DataType, pl.DataType] = {
    pa.string(): pl.String(),
    pa.int64(): pl.Int64(),
    pa.int32(): pl.Int32(),
    pa.timestamp("us", "UTC"): pl.Datetime("us", "UTC"),
    pa.list_(pa.string()): pl.List(pl.String()),
}
_HINT = " (set POLARS_VERBOSE=1 to see full path)"  # the end of the path, which is there, tells the table
_EVERYWHERE = ("_root_id", "_batch", "_kind", "_error")


def columns_of(table: str) -> pl.Schema:
    """The columns of one of the store's own tables as Polars knows them: all but maps."""
    fields = {field.name: _POLARS.get(field.type) for field in SCHEMAS[table].arrow()}
    return pl.Schema({name: kind for name, kind in fields.items() if kind is not None})


@dataclass(frozen=True)
class Rows:
    """Where the rows of some batches of a stream lie.

    Args:
        columns: those of the stream's table that are not the user's.
        files: paths of the files that can hold such rows.
        where: the rows that are meant, in SQL.
    """

    columns: pl.Schema
    files: list[str]
    where: str

    @classmethod
    def of(cls, store: Store, name: str, batches: Sequence[int]) -> "Rows":
        """Rows of some batches of a stream; of all streams of a component where `name` is its own.

        None where the component never wrote, since all its batches failed their inputs without a write.
        """
        table = store.open(stream(name)) if batches else None
        if table is None:
            return cls(pl.Schema({name: _STREAM[name] for name in _EVERYWHERE}), [], "false")
        found = _columns(table)
        columns = {name: kind for name, kind in _STREAM.items() if name in found}
        where = in_batches(batches)
        return cls(pl.Schema(columns), table.file_uris(file_pruning_predicate=where), where)


def _columns(table: DeltaTable) -> set[str]:
    """The columns of a stream's table, which it cannot be without."""
    found = {field.name for field in table.schema().fields}
    missing = [name for name in _EVERYWHERE if name not in found]
    if missing:
        raise StoreError(
            f"The stream {table.table_uri} has no column {', '.join(missing)}. It was altered by hand; "
            f"restore it to a version before that. {WAY_OUT}"
        )
    return found


def rows_by_batch(store: Store, component: str) -> dict[int, int]:
    """Rows of each batch in a stream, from Delta's own statistics.

    Where a file was compacted or has no statistics, the rows are counted.
    """
    table = store.open(stream(component))
    if table is None:  # all its batches failed their inputs without a write
        return {}
    _columns(table)
    actions = arrow_table(table.get_add_actions(flatten=True))
    names = ("min._batch", "max._batch", "num_records")
    files = list(zip(*(actions[name].to_pylist() for name in names), strict=True))
    if any(low != high or count is None for low, high, count in files):
        rows = query("SELECT _batch, count(*) AS n FROM stream GROUP BY _batch", stream=table)
        return {row["_batch"]: row["n"] for row in rows}
    sizes: dict[int, int] = {}
    for number, _, count in files:
        sizes[number] = sizes.get(number, 0) + count
    return sizes


def file_name(path: str) -> str:
    """The last part of a path or URI. Writers of Delta tables choose one that no other file has."""
    return path.rpartition("/")[2]


def scan(paths: list[str], columns: pl.Schema, row: str | None = None) -> pl.LazyFrame:
    """Rows of some Parquet files; a column that a file was written without is null.

    Args:
        row: name of a further column, the number of each row in the file if it is one file.
    """
    if not paths:
        return pl.LazyFrame(schema=columns)
    return pl.scan_parquet(
        paths,
        schema=columns,
        glob=False,  # a path may hold what a pattern does
        row_index_name=row,
        missing_columns="insert",
        extra_columns="ignore",
    )


def by_each_root(rows: pl.LazyFrame) -> pl.LazyFrame:
    """The rows, those that have several roots once for each of them."""
    if "_root_ids" not in rows.collect_schema():
        return rows
    roots = pl.coalesce("_root_ids", pl.concat_list("_root_id"))
    return rows.with_columns(_root_id=roots).drop("_root_ids").explode("_root_id")


def collect(frame: pl.LazyFrame) -> pl.DataFrame:
    """The rows of a frame over the store's files.

    Raises:
        StoreError: a file could not be read.
    """
    try:
        return frame.collect(engine="streaming")
    except (pl.exceptions.PolarsError, OSError) as error:
        what = said(error).replace(_HINT, "")
        raise StoreError(f"The store's files cannot be read: {what} {WAY_OUT}") from error
