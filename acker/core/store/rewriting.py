"""Replacement of reasons in committed rows: their files are written anew with another text.

No other column changes, nor the order of the rows. No checksum is made of a reason (`checksums`), so all
checksums stay right. One commit removes the old files and adds the new ones, whatever is appended meanwhile.
"""

from collections.abc import Iterator, Mapping, Sequence
from time import time
from typing import Any
from uuid import uuid4

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import CommitProperties, DeltaTable
from deltalake.fs import DeltaStorageHandler
from deltalake.transaction import AddAction, RemoveAction
from pyarrow.fs import PyFileSystem

from acker.core.errors import InTheWay, StoreError
from acker.core.store.commits import Bounds, File
from acker.core.store.parquet import collect, columns_of, scan
from acker.core.store.schemas import SCHEMAS
from acker.core.store.store import Store
from acker.core.store.tables import REFUSED, arrow_table, path_of, sentence_of, unwritten

_TRIES = 5
_ROWS_AT_ONCE = 100_000
_REASON = "reason"


def replace_reasons(store: Store, name: str, chosen: pl.Expr, text: str, note: Mapping[str, str]) -> int:
    """Replace the reasons of some rows by a text, in one commit. Files without such rows stay.

    A second call finds no rows, if `chosen` excludes rows with the text. Where another commit has removed a
    file meanwhile, the work begins anew.

    Args:
        name: `events`, `ledger`, `holds` or `refusals`.
        chosen: the condition on the rows. Only rows with a reason count, of the ledger only settled rows.
        note: entries for the commit in the table's history.

    Returns:
        The number of changed rows.

    Raises:
        StoreError: a file cannot be read or written, or other commits were in the way each time.
    """
    for _ in range(_TRIES):
        table = store.require(name)
        found = _files_with(table, name, chosen & pl.col(_REASON).is_not_null())
        if not found:
            return 0
        if _committed(store, name, table, [*_rewritten(table, name, found, text)], note):
            return sum(int(mask.sum()) for _, mask in found)
    raise InTheWay(
        f"{store.path(name)} could not be rewritten: other commits took its files away {_TRIES} times. "
        "Run the command again, and it goes on.",
        table=store.path(name),
    )


def _committed(
    store: Store,
    name: str,
    table: DeltaTable,
    actions: list[AddAction | RemoveAction],
    note: Mapping[str, str],
) -> bool:
    """Commit new files in the place of old ones; False where the table has lost some of the old ones.

    `deltalake` would pass over a commit that has removed the same files, and the rows would be there twice.
    So `deltalake` may commit to the very next version alone. If other commits came first, this function looks
    whether the old files are still there, and tries again.

    Raises:
        StoreError: the commit could not be made, and no other commit came first.
    """
    old = {action.path for action in actions if isinstance(action, RemoveAction)}
    once = CommitProperties(custom_metadata=dict(note), max_commit_retries=0)
    while True:
        try:
            table.create_write_transaction(
                actions, "append", table.schema(), [*SCHEMAS[name].partition_by], commit_properties=once
            )
        except REFUSED as error:
            newest = store.require(name)
            if newest.version() == table.version():
                path = path_of(table)
                why = f"{path} could not be rewritten: {sentence_of(error)}"
                other = f"{why} Run the command again, and it goes on."
                raise unwritten(path, error, other) from error
            if not old <= set(arrow_table(newest.get_add_actions())["path"].to_pylist()):
                return False
            table = newest
        else:
            return True


def _files_with(table: DeltaTable, name: str, chosen: pl.Expr) -> list[tuple[dict[str, Any], pl.Series]]:
    """The log's entry of each file that has chosen rows, and a mask of these rows."""
    said_of = pl.DataFrame(_narrowed(arrow_table(table.get_add_actions(flatten=True))))
    for column in SCHEMAS[name].partition_by:
        said_of = said_of.filter(pl.col(f"partition.{column}").is_null())
    rows, columns = pl.col("uri"), columns_of(name)
    uris = [f"{path_of(table)}/{path}" for path in said_of["path"]]
    having = collect(scan(uris, columns, file="uri").filter(chosen).select(rows.unique()))["uri"]
    files = said_of.with_columns(uri=pl.Series(uris, dtype=pl.String)).filter(rows.is_in(having.implode()))
    mask = chosen.fill_null(False).alias("chosen")
    return [
        (file, collect(scan([file["uri"]], columns).select(mask))["chosen"])
        for file in files.iter_rows(named=True)
    ]


def _narrowed(actions: pa.Table) -> pa.Table:
    """The columns of the log's entries that are needed here, whose types need no pandas."""
    kept = ("path", "size_bytes", "num_records")
    prefixes = ("min.", "max.", "partition.")
    return actions.select(
        [each for each in actions.column_names if each in kept or each.startswith(prefixes)]
    )


def _rewritten(
    table: DeltaTable, name: str, found: Sequence[tuple[dict[str, Any], pl.Series]], text: str
) -> Iterator[AddAction | RemoveAction]:
    partition = dict.fromkeys(SCHEMAS[name].partition_by)
    for file, mask in found:
        bounds = _bounds(file, name)
        new = _written(path_of(table), file["path"], mask, text)
        yield RemoveAction(file["path"], True, int(time() * 1000), file["size_bytes"], partition)
        yield new.added(bounds, partition)


def _bounds(file: Mapping[str, Any], name: str) -> Bounds:
    """The bounds of a file's columns from the log. They are the same in the file that replaces it."""
    names = SCHEMAS[name].stats_columns.split(",")
    known = {each: (file.get(f"min.{each}"), file.get(f"max.{each}")) for each in names}
    return {each: both for each, both in known.items() if None not in both}


def _written(path: str, old: str, mask: pl.Series, text: str) -> File:
    """A new file with the rows of another below a table's folder.

    Args:
        mask: the rows whose reason is replaced.

    Raises:
        StoreError: a file could not be read or written, or the old file was replaced meanwhile.
    """
    system, name, done = PyFileSystem(DeltaStorageHandler(path)), f"{uuid4().hex}.parquet", 0
    try:
        with pq.ParquetFile(old, filesystem=system) as rows:
            schema = rows.schema_arrow
            place = schema.get_field_index(_REASON)
            schema = schema.set(place, pa.field(_REASON, pa.string())).remove_metadata()
            with pq.ParquetWriter(
                name, schema, filesystem=system, compression="snappy", store_schema=False
            ) as writer:
                for part in rows.iter_batches(_ROWS_AT_ONCE):
                    mine = mask.slice(done, part.num_rows).to_arrow()
                    reason = pc.if_else(mine, pa.scalar(text), part.column(place).cast(pa.string()))
                    columns = [*part.columns[:place], reason, *part.columns[place + 1 :]]
                    writer.write_table(pa.table(columns, schema))
                    done += part.num_rows
    except (*REFUSED, pa.ArrowException) as error:
        raise unwritten(
            path, error, f"{path}/{old} could not be written anew: {sentence_of(error)}"
        ) from error
    if done != len(mask):
        raise StoreError(f"{path}/{old} has {done} rows, and {len(mask)} were read before: it was replaced.")
    (written,) = system.get_file_info([name])
    return File(name, written.size, written.mtime_ns // 1_000_000, done)
