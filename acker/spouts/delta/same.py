"""A check that a Delta table is still the one of which a spout has planned rows.

Positions in a table that was dropped and made anew, or put back to an older state, begin again: they would be
taken for those of rows that were read. So a range keeps the table's id, and a checksum of the commit at which
it was planned, which no later commit changes.
"""

import zlib
from collections.abc import Mapping
from typing import Any

from deltalake import DeltaTable
from pyarrow import ArrowException, fs

from acker.core.errors import SourceError, StoreError
from acker.core.store.tables import history, open_table, path_of
from acker.spouts.files.listing import open_folder

ANEW = "Give the spout another name, under which it begins anew."


def signs_of(table: DeltaTable) -> dict[str, Any]:
    """The signs by which `check_same` knows a table's version again: its id, and a checksum of its commit."""
    commit = _commit(table, table.version())
    return {"table": str(table.metadata().id)} | ({} if commit is None else {"commit": commit})


def check_same(table: DeltaTable, planned: Mapping[str, Any] | None, by_key: bool) -> None:
    """Refuse a table that is not the table of a range any more, or has lost the version of the range.

    `REPLACE TABLE` gives a table another id. Row ids go on after it, so they are never mistaken; keys may
    begin again. Versions of delta-rs before 1.0 gave another id as well where they added a column.

    Args:
        table: at its newest version.
        planned: the range; None before the first. A range of an older version of acker has no signs.
        by_key: whether positions are keys, and not row ids.

    Raises:
        SourceError: the table differs. The error says how.
    """
    if planned is None:
        return
    path, version = path_of(table), planned["version"]
    if table.version() < version:
        raise SourceError(
            f"{path} is at version {table.version()}, and version {version} was read: it was put back to an "
            f"older state, and new rows would be taken for those that were read. {ANEW}",
            table=path,
        )
    if "table" not in planned:
        return
    if str(table.metadata().id) != planned["table"] and not _goes_on(table, planned, by_key):
        raise SourceError(
            f"The table {path} was deleted or replaced and made anew: its rows would be taken for those of "
            f"the former one, which were read. {ANEW}",
            table=path,
        )
    commit = _commit(table, version)
    if commit is not None and planned.get("commit", commit) != commit:
        raise SourceError(
            f"Version {version} of {path} is another than the one that was read: the table was put back to "
            f"an older state and went on from there. {ANEW}",
            table=path,
        )


def _goes_on(table: DeltaTable, planned: Mapping[str, Any], by_key: bool) -> bool:
    """Whether the positions of a table go on after a range, although the table has another id than the range.

    The table's log must still hold the range's version, with the id that the range has. If positions are
    keys, no commit after this version may have made, replaced, cloned or restored the table.
    """
    try:
        before = open_table(path_of(table), planned["version"], is_read_only=True)
    except StoreError:
        return False
    if before is None or str(before.metadata().id) != planned["table"]:
        return False
    if not by_key:
        return True
    since = history(table, table.version() - before.version())
    operations = [str(commit.get("operation", "")) for commit in since]
    return not any("TABLE" in each or each in ("CLONE", "RESTORE") for each in operations)


def _commit(table: DeltaTable, version: int) -> int | None:
    """A checksum of a commit; None where the log does not hold it any more, or cannot be read from here."""
    system, root = open_folder(path_of(table))
    name = f"{root}/_delta_log/{version:020}.json"
    try:
        if system.get_file_info(name).type != fs.FileType.File:
            return None
        with system.open_input_file(name) as commit:
            return zlib.crc32(commit.read_buffer())
    except (ArrowException, OSError):
        return None
