"""Rows of the components' streams, read without Spark: by file, by batch, held back, untracked."""

from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl
from deltalake import DeltaTable

from acker.core.errors import StoreError
from acker.core.events import State
from acker.core.snapshot.ledger import live_rows
from acker.core.snapshot.snapshot import Snapshot
from acker.core.store.parquet import collect, scan
from acker.core.store.schemas import HELD, is_tuple, stream
from acker.core.store.tables import RECOVERY_HINT, arrow_table, files_of, path_of, query
from acker.core.stream_names import component_of

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
_FILE = ["path", "size_bytes", "num_records"]
_RANGE = ("min._batch", "max._batch")  # Delta's statistics of a file
_EVERYWHERE = ("_root_id", "_batch", "_kind", "_error")


@dataclass(frozen=True)
class Rows:
    """The places of the rows of some batches of a component, in all its streams.

    Args:
        columns: columns of the component's table that are not the user's.
        files: paths of the files that can hold such rows.
        batches: numbers of the batches; None where the files hold rows of no others.
        size: bytes of the files.
        most: number of rows of the files, those of other batches included; None where it is not known.
    """

    columns: pl.Schema
    files: list[str]
    batches: pl.Series | None = None
    size: int = 0
    most: int | None = 0

    @classmethod
    def of(cls, snapshot: Snapshot, name: str, batches: Sequence[int]) -> "Rows":
        """Rows of some batches of a component, in all its streams; `tuples` selects those of one stream.

        There are no rows where the component never wrote, since all its batches failed their inputs without a
        write.

        Args:
            name: of the component, or of one of its streams.
        """
        table = snapshot.open(stream(name)) if batches else None
        if table is None:
            return cls(pl.Schema({name: _STREAM[name] for name in _EVERYWHERE}), [])
        found = _columns(component_of(name), table)
        columns = {name: kind for name, kind in _STREAM.items() if name in found}
        files, are_whole = _files_with(table, batches)
        return cls(
            pl.Schema(columns),
            [f"{path_of(table)}/{path}" for path in files["path"]],
            None if are_whole else pl.Series("_batch", batches, pl.Int64),
            int(files["size_bytes"].sum()),
            None if files["num_records"].has_nulls() else int(files["num_records"].sum()),
        )

    def tuples(self, name: str) -> pl.LazyFrame:
        """The tuples of a stream among the rows."""
        return self.scan().filter(pl.sql_expr(is_tuple(name, self.columns)))

    def scan(self) -> pl.LazyFrame:
        """The rows of the batches."""
        return self.only(scan(self.files, self.columns))

    def only(self, rows: pl.LazyFrame) -> pl.LazyFrame:
        """Those of some rows of the files that belong to the batches."""
        return rows if self.batches is None else rows.filter(pl.col("_batch").is_in(self.batches.implode()))


def all_tuples(name: str, table: DeltaTable, users: pl.Schema | None = None) -> pl.LazyFrame:
    """The tuples of a stream in the table of its component.

    Args:
        name: of the stream.
        users: the columns of the user's own that are read as well.
    """
    found = _columns(component_of(name), table)
    own = {name: kind for name, kind in _STREAM.items() if name in found}
    columns = pl.Schema({**own, **(users or {})})
    return scan(files_of(table), columns).filter(pl.sql_expr(is_tuple(name, columns)))


def _files_with(table: DeltaTable, batches: Sequence[int]) -> tuple[pl.DataFrame, bool]:
    """The log's entries for the files that can hold rows of some batches.

    A file that a write has made has rows of one batch. A file that was rewritten may have rows of several.

    Returns:
        The entries, and whether the files are known to hold no rows of other batches.
    """
    actions = arrow_table(table.get_add_actions(flatten=True))
    said = [name for name in (*_FILE, *_RANGE) if name in actions.column_names]
    missing = {name: pl.lit(None, pl.Int64) for name in _FILE if name not in said}
    files = pl.DataFrame(actions.select(said)).with_columns(**missing)
    if not set(_RANGE) <= set(said):
        return files, False
    low, high = (pl.col(name) for name in _RANGE)
    mine = pl.Series(batches, dtype=pl.Int64).implode()
    is_of_one = low == high
    is_mine = (
        pl.when(is_of_one).then(low.is_in(mine)).otherwise((low <= max(batches)) & (high >= min(batches)))
    )
    found = files.filter(is_mine.fill_null(True))
    return found.select(_FILE), found.select(is_of_one.fill_null(False).all()).item()


def _columns(name: str, table: DeltaTable) -> set[str]:
    """The columns of a component's table.

    Raises:
        StoreError: a column that every stream has is missing.
    """
    found = {field.name for field in table.schema().fields}
    missing = [column for column in _EVERYWHERE if column not in found]
    if missing:
        raise StoreError(
            f"The stream {table.table_uri} has no column {', '.join(missing)}. It was altered by hand; "
            f"restore it to a version before that. {RECOVERY_HINT}",
            component=name,
            table=path_of(table),
        )
    return found


def rows_by_batch(snapshot: Snapshot, component: str) -> dict[int, int]:
    """Batch -> the number of its rows in a stream, from Delta's own statistics.

    Where a file was compacted or has no statistics, the rows are counted.
    """
    table = snapshot.open(stream(component))
    if table is None:  # all its batches failed their inputs without a write
        return {}
    _columns(component, table)
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


def by_each_root(rows: pl.LazyFrame) -> pl.LazyFrame:
    """The rows, with a row of several roots once for each of its roots."""
    if "_root_ids" not in rows.collect_schema():
        return rows
    roots = pl.coalesce("_root_ids", pl.concat_list("_root_id"))
    return rows.with_columns(_root_id=roots).drop("_root_ids").explode("_root_id")


_NONE = pl.DataFrame(schema={"_root_id": pl.Int64(), "_root_ids": pl.List(pl.Int64()), **PLACE})


def held_back(snapshot: Snapshot, component: str, batch: int) -> pl.DataFrame:
    """Tuples that a component held back in a batch, of messages in flight in the newest fold or later ones.

    Returns:
        `_root_id` and `_root_ids` as in the stream; `stream`, `file`, `row` and `batch`, where the tuple
        lies; `since`, the component's batch that took the tuple in first; `task`, the bolt's task that holds
        it.
    """
    rows = Rows.of(snapshot, component, [batch] if batch else [])
    if "_held" not in rows.columns:
        return _NONE
    held = rows.scan().filter(pl.col("_kind") == HELD)
    found = collect(held.select("_root_id", "_root_ids", pl.col("_held").struct.unnest()), snapshot.files)
    fold = snapshot.fold
    if fold is None:
        return found
    # A fold that has seen the batch which took the tuple in has also seen the tuple's roots.
    known = found.with_row_index("n").filter(pl.col("since") <= fold.logged.get(component, 0))
    roots = pl.coalesce("_root_ids", pl.concat_list("_root_id"))
    each = known.select("n", roots.alias("root_id")).explode("root_id").drop_nulls()
    live = live_rows(fold).filter(pl.col("state") == State.PENDING).select("root_id")
    settled = each.join(collect(live), on="root_id", how="anti").select("n").unique()
    return found.with_row_index("n").join(settled, on="n", how="anti").drop("n")


def untracked(snapshot: Snapshot, name: str, after: int, upto: int) -> dict[int, int]:
    """Batch in (after, upto] of a stream -> the number of its untracked tuples, where it has any."""
    tuples = Rows.of(snapshot, name, range(after + 1, upto + 1)).tuples(name)
    found = tuples.filter(pl.col("_root_id").is_null()).group_by("_batch").len()
    return dict(collect(found, snapshot.files).rows())
