"""Delta tables without Spark, with appends that Delta's transaction ids make idempotent.

The `deltalake` package writes the store's own tables. For a row it takes milliseconds, and Spark takes half a
second. A client also reads tables with `deltalake` before it plans. Spark writes the rows of streams, and
published tables unless few rows go into a plain one (`acker/spark/delta.py`, `acker/targets/append.py`).
"""

import errno
import json
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from itertools import takewhile
from typing import Any
from urllib.parse import unquote, urlsplit
from uuid import uuid4

import pyarrow as pa
from deltalake import (
    CommitProperties,
    DeltaTable,
    QueryBuilder,
    Transaction,
    write_deltalake,
)
from deltalake.exceptions import DeltaError, DeltaProtocolError, TableNotFoundError
from deltalake.fs import DeltaStorageHandler
from pyarrow.fs import FileSystem, PyFileSystem

from acker.core.errors import InTheWay, StoreError
from acker.core.paths import check_usable
from acker.core.store.s3_errors import explain_s3_error

RECOVERY_HINT = 'See "Damage and the way out" in docs/how-to/damage.md.'

UNREADABLE = "Unsupported table features"  # as `deltalake` says of a table that it does not know to read
REFUSED = (DeltaError, OSError)  # the second where the log cannot be written, as on a full disk
_OS_ERROR = re.compile(r"\(os error (\d+)\)|Os \{ code: (\d+)")  # as Rust quotes the system
_NO_RIGHT = (errno.EACCES, errno.EPERM, errno.EROFS)
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT)
_STYLE = re.compile(r"\x1b\[[0-9;]*m|↳")
_FRAME = re.compile(r"\s*(\d+: |at /|stack backtrace)", re.IGNORECASE)
_TRIES = 3
_MARK = "acker.commit"  # under which the history tells whose a commit is
# With more `deltalake` makes a table that somebody else has just made a second time, with its first rows.
RETRIES_OF_MAKING = 0
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class _Opened(DeltaTable):
    """A Delta table that remembers the numbers of apps in one of its versions."""

    known: tuple[int, Mapping[str, int]] = (-1, {})

    def number_of(self, app: str) -> int:
        """See `last_number`."""
        version, numbers = self.known
        if version != self.version():
            numbers = {}
        if app not in numbers:
            numbers = {**numbers, app: self.transaction_version(app) or 0}  # which reads the log
            self.known = self.version(), numbers
        return numbers[app]

    def has_committed(self, numbers: Mapping[str, int]) -> None:
        """Remember the numbers of a commit, where the handle has moved on by that commit alone."""
        version, before = self.known
        if self.version() == version + 1:
            self.known = version + 1, {**before, **numbers}


def open_table(path: str, version: int | None = None, is_read_only: bool = False) -> DeltaTable | None:
    """The Delta table at a path or URI, or None where there is none yet.

    Args:
        version: None: the newest.
        is_read_only: whether this project only reads the table, so that more characters are allowed in its
            path.
    """
    check_usable(path, is_read_only)
    try:
        return _Opened(path, version=version)
    except TableNotFoundError:
        return None
    except Exception as error:
        damaged = f"The Delta table {path} cannot be read: {sentence_of(error)} {RECOVERY_HINT}"
        raise StoreError(explain_s3_error(path, sentence_of(error)) or damaged, table=path) from error


def path_of(table: DeltaTable) -> str:
    """The path or URI at which a table was opened, as `Store.path` writes it."""
    return unquote(table.table_uri.rstrip("/").removeprefix("file://"))


def files_of(table: DeltaTable, where: str | None = None) -> list[str]:
    """Paths or URIs of a table's files.

    Args:
        where: a SQL condition; files whose statistics rule it out are left out.
    """
    uris = table.file_uris(file_pruning_predicate=where)
    # `deltalake` encodes the folder, as in a URI, and leaves what follows as it is on the disk.
    root = table.table_uri.removeprefix("file://")
    return [_path_below(table, uri.removeprefix("file://").removeprefix(root)) for uri in uris]


def _path_below(table: DeltaTable, name: str) -> str:
    if name.startswith("file:"):  # of a shallow clone, whose files are another table's
        return unquote(urlsplit(name).path)
    return name if "://" in name else f"{path_of(table)}/{name}"


def sentence_of(error: Exception) -> str:
    """The message of a library's error, as a sentence, without a trace of the library's own."""
    lines = takewhile(lambda line: not _FRAME.match(line), _STYLE.sub("", str(error)).splitlines())
    return f"{' '.join(line.strip() for line in lines).rstrip('. ')}."


def unwritten(path: str, error: Exception, otherwise: str, kind: type[StoreError] = StoreError) -> StoreError:
    """The error to raise where a table could not be written.

    A fault of S3 or of the operating system, such as a full disk, has a message of its own.

    Args:
        path: of the table.
        error: the error that `deltalake` raised.
        otherwise: the message for any other fault.
        kind: the class of the error for any other fault.
    """
    unreached, quoted = explain_s3_error(path, sentence_of(error)), _OS_ERROR.search(str(error))
    if unreached:
        return StoreError(unreached, table=path)
    if quoted is None:
        return kind(otherwise, table=path)
    number = int(quoted[1] or quoted[2])
    if number in _NO_ROOM:
        remedy = "Make room there"
    else:
        remedy = "Give this user the right to write there" if number in _NO_RIGHT else "Mend that"
    return StoreError(
        f"The table {path} cannot be written: {os.strerror(number)}. {remedy}, or set PIPELINE_HOME or "
        "PIPELINE_STORE to a folder of yours, and run the command again.",
        table=path,
    )


def query(sql: str, **tables: DeltaTable) -> list[dict[str, Any]]:
    """Rows of a SQL query over Delta tables, each under its keyword's name. Runs in this process.

    Raises:
        StoreError: a table's data cannot be read.
    """
    found = query_table(sql, **tables)
    columns = [_values(found.column(name)) for name in found.column_names]
    return [dict(zip(found.column_names, row, strict=True)) for row in zip(*columns, strict=True)]


def query_table(sql: str, **tables: DeltaTable) -> pa.Table:
    """The rows of a SQL query as an Arrow table, whose types hold values that Python's do not; see `query`.

    Raises:
        StoreError: a table's data cannot be read.
    """
    try:
        return arrow_table(_answer(sql, tables))
    except Exception as error:
        raise _unread(tables, error) from error


def query_batches(sql: str, **tables: DeltaTable) -> Iterator[pa.RecordBatch]:
    """The rows of a SQL query, batch by batch, of which only some are in memory at once; see `query`.

    Raises:
        StoreError: a table's data cannot be read.
    """
    try:
        yield from pa.RecordBatchReader.from_stream(_answer(sql, tables))
    except Exception as error:
        raise _unread(tables, error) from error


def _answer(sql: str, tables: Mapping[str, DeltaTable]) -> Any:
    builder = QueryBuilder()
    for name, table in tables.items():
        builder = builder.register(name, table)
    return builder.execute(sql)


def _unread(tables: Mapping[str, DeltaTable], error: Exception) -> StoreError:
    paths = [path_of(table) for table in tables.values()]
    damaged = f"The data of {', '.join(paths)} cannot be read: {sentence_of(error)} {RECOVERY_HINT}"
    only = paths[0] if len(paths) == 1 else None
    return StoreError(explain_s3_error(paths[0], sentence_of(error)) or damaged, table=only)


def in_batches(batches: Sequence[int], column: str = "_batch") -> str:
    """A SQL condition on the batches of a stream's rows, by which files are skipped."""
    if not batches:
        return "false"
    runs: list[list[int]] = []  # numbers that follow each other are a range
    for number in sorted(batches):
        if runs and runs[-1][1] == number - 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return "(" + " OR ".join(f"{column} BETWEEN {low} AND {high}" for low, high in runs) + ")"


def arrow_table(stream: Any) -> pa.Table:
    """A PyArrow table from any Arrow stream; `pa.table` does the same, but imports pandas for it."""
    return pa.RecordBatchReader.from_stream(stream).read_all()


def _values(column: pa.ChunkedArray) -> list[Any]:
    """A column's values; times as datetimes in UTC, for which PyArrow would import pandas (0.5 s)."""
    if not pa.types.is_timestamp(column.type):
        return list(column.to_pylist())
    ticks = column.cast(pa.timestamp("us", column.type.tz)).cast(pa.int64()).to_pylist()
    return [None if tick is None else _EPOCH + timedelta(microseconds=tick) for tick in ticks]


def append_new(table: DeltaTable, rows: Any) -> None:
    """Append `rows` without Spark, in a commit without a transaction number.

    The caller gives the rows of each call a new name. So no two calls append the same rows.

    Raises:
        StoreError: the rows could not be committed.
    """
    try:
        write_deltalake(table, rows, mode="append")
    except REFUSED as error:
        path = path_of(table)
        otherwise = f"The rows did not go into {path}: {sentence_of(error)} Run the command again."
        raise unwritten(path, error, otherwise) from error


def append_rows(
    table: DeltaTable,
    rows: Any,
    app: str,
    number: int,
    note: Mapping[str, str] | None = None,
) -> bool:
    """Append `rows` without Spark, once per (app, number); see `append_all`."""
    return append_all(table, rows, {app: number}, note=note)


def append_all(
    table: DeltaTable,
    rows: Any,
    numbers: Mapping[str, int],
    firsts: Mapping[str, int] | None = None,
    note: Mapping[str, str] | None = None,
) -> bool:
    """Append `rows` without Spark in one commit that happens once for all of the (app, number) together.

    Where several clients race, the rows of one go in. `rows` is any Arrow stream.

    Args:
        firsts: app -> its first number, of apps that take several numbers.
        note: see `commit_once`.

    Returns:
        Whether this call's rows went in, and not another's.

    Raises:
        StoreError: the rows could not be committed.
    """

    def commit(found: DeltaTable | None, once: CommitProperties) -> None:
        assert found is not None
        write_deltalake(found, rows, mode="append", commit_properties=once)

    return commit_once(table, numbers, commit, note, firsts)


def commit_once(
    opened: DeltaTable | str,
    numbers: Mapping[str, int],
    commit: Callable[[DeltaTable | None, CommitProperties], None],
    note: Mapping[str, str] | None = None,
    firsts: Mapping[str, int] | None = None,
) -> bool:
    """Make one commit that happens once for all of some (app, number) together.

    `deltalake` does not look at the numbers, but it refuses to commit where another commit of one of the apps
    went in since the table was opened, whoever made it. This function looks for commits that went in before.
    The commit in the way may be this call's own: a store made it, and its reply was lost on the way. Such a
    commit is known by its mark, and counts as this call's.

    Args:
        opened: a table, or the path of one that may be missing, which is opened anew.
        numbers: app -> the number of the commit; of an app that takes several numbers, the last one.
        commit: makes the commit, with the table and the properties of the commit. It is called again where
            the table was given by its path and another commit came before.
        note: further entries for the commit in the table's history.
        firsts: app -> its first number, of apps that take several numbers at once, all of which must be free.

    Returns:
        Whether this call's commit went in, and not another's.

    Raises:
        StoreError: the commit could not be made.
    """
    path = opened if isinstance(opened, str) else path_of(opened)
    transactions = [Transaction(app, number) for app, number in numbers.items()]
    mark = uuid4().hex
    free = {**numbers, **(firsts or {})}
    for tries_left in reversed(range(_TRIES if isinstance(opened, str) else 1)):
        table = open_table(opened) if isinstance(opened, str) else opened
        if _is_there(table, free):
            return False
        once = CommitProperties(
            custom_metadata={**(note or {}), _MARK: mark},
            max_commit_retries=RETRIES_OF_MAKING if table is None else None,
            app_transactions=transactions,
        )
        try:
            commit(table, once)
        except REFUSED as error:
            newest = open_table(path)
            if newest is not None and _is_there(newest, free):
                return _is_marked(newest, mark, table)
            is_late = newest is not None and (table is None or newest.version() > table.version())
            if tries_left and is_late:
                continue
            which = ", ".join(f"{app} {number}" for app, number in numbers.items())
            otherwise = (
                f"The commit {which} did not go into {path}: {sentence_of(error)} Run the command again."
            )
            raise unwritten(path, error, otherwise, InTheWay if is_late else StoreError) from error
        if isinstance(table, _Opened):
            table.has_committed(numbers)
        return True
    raise AssertionError("the last try returns or raises")


def _is_there(table: DeltaTable | None, numbers: Mapping[str, int]) -> bool:
    return any(last_number(table, app) >= number for app, number in numbers.items())


def _is_marked(newest: DeltaTable, mark: str, table: DeltaTable | None) -> bool:
    """Whether a commit since a table was opened has a mark. Then the table is moved on to that commit."""
    after = -1 if table is None else table.version()
    for commit in history(newest, newest.version() - after):
        if commit.get(_MARK) == mark:
            if table is not None:
                table.load_as_version(commit["version"])
            return True
    return False


def history(table: DeltaTable, limit: int) -> list[dict[str, Any]]:
    """The newest commits of a table, the newest first, as many as asked for or as its log has.

    Where `deltalake` cannot tell the commits, this function reads them from the log's files. `deltalake`
    fails at the first commit of a clone as Spark writes it, in which the version before is -1. It finds no
    commit of a table whose path has a question mark.
    """
    with suppress(DeltaProtocolError):
        if found := table.history(limit):
            return found
    files = PyFileSystem(DeltaStorageHandler(path_of(table)))
    versions = range(table.version(), max(table.version() - limit, -1), -1)
    return [each for version in versions for each in _commit_of(files, version)]


def _commit_of(files: FileSystem, version: int) -> Iterator[dict[str, Any]]:
    """The information on a commit, with its version; nothing where the log does not have it any more."""
    try:
        with files.open_input_stream(f"_delta_log/{version:020}.json") as commit:
            actions = [json.loads(line) for line in commit.read().splitlines()]
    except FileNotFoundError:
        return
    yield from ({**each["commitInfo"], "version": version} for each in actions if "commitInfo" in each)


def last_number(table: DeltaTable | None, app: str) -> int:
    """The newest number that was committed for `app`; 0 if there is none."""
    if table is None:
        return 0
    return table.number_of(app) if isinstance(table, _Opened) else table.transaction_version(app) or 0
