"""The log of a Delta table, read without Spark: which row ids there are, and when rows came."""

import json
from base64 import b85decode
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import unquote
from uuid import UUID

import pyarrow.parquet as pq
from deltalake import DeltaTable
from pyarrow import ArrowException, fs

from acker.core.store.tables import history, path_of
from acker.spouts.files.listing import open_folder

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_ROW_TRACKING = "delta.rowTracking"  # the domain in which Delta keeps the highest row id
_LOOK_BACK = 1_000  # commits that are looked through for the oldest
_MOST_COMMITS = 100  # that are read for row ids

# Deletion vectors are named in Z85, whose letters are others than those of Python's base 85.
_TO_PYTHONS = bytes.maketrans(
    b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#",
    b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~",
)
_ENCODED_UUID = 20  # letters

# Operations that bring no rows. Rows of a file that they rewrite keep their ids, although Delta draws others.
_BARREN = {
    *("DELETE", "UPDATE", "OPTIMIZE", "REORG", "VACUUM START", "VACUUM END", "FSCK"),
    *("SET TBLPROPERTIES", "UNSET TBLPROPERTIES", "ADD CONSTRAINT", "DROP CONSTRAINT", "ADD COLUMNS"),
}


def highest_row_id(path: str, after: int, upto: int) -> int | None:
    """The highest row id that new rows of versions (after, upto] can have; None where they brought none.

    Args:
        path: absolute path or URI of a table with row tracking.

    Raises:
        FileNotFoundError: the log no longer holds one of the commits.
    """
    system, root = open_folder(path)
    for version in range(upto, after, -1):
        highest = _given_by(system, f"{root}/_delta_log/{version:020}.json")
        if highest is not None:
            return highest
    return None


def ids_of_new_rows(path: str, low: int, high: int, version: int) -> list[tuple[int, int]] | None:
    """The row ids in [low, high] that rows of a version have, as spans [first, last] in order.

    A rewritten row keeps its id. The new id that Delta offered it is in no span.

    Args:
        path: absolute path or URI of a table with row tracking.

    Returns:
        The spans; None where the log does not tell: a commit is gone or says too little, or rows were deleted
        or merged since the first of these ids was given.
    """
    system, root = open_folder(path)
    spans: list[tuple[int, int]] = []
    for number in range(version, -1, -1):
        try:
            actions = _actions(system, f"{root}/_delta_log/{number:020}.json")
        except (ArrowException, OSError):
            return None
        highest = _highest_of(actions)
        if highest is not None and highest < low:
            break
        infos = [action["commitInfo"] for action in actions if "commitInfo" in action]
        if not infos or (_takes_rows(actions) and any(info.get("operation") != "UPDATE" for info in infos)):
            return None
        if not all(map(_brings_rows, infos)):
            continue
        for add in (action["add"] for action in actions if "add" in action):
            rows = json.loads(add.get("stats") or "{}").get("numRecords")
            if rows is None or add.get("baseRowId") is None:
                return None
            span = max(low, add["baseRowId"]), min(high, add["baseRowId"] + rows - 1)
            if span[0] <= span[1]:
                spans.append(span)
    return sorted(spans)


def has_commit(path: str, version: int) -> bool:
    """Whether the log of a table still holds a commit; True also where the log cannot be read from here.

    Args:
        path: absolute path or URI of the table.
    """
    try:
        system, root = open_folder(path)
        found = system.get_file_info(f"{root}/_delta_log/{version:020}.json")
    except (ArrowException, OSError):
        return True
    return bool(found.type != fs.FileType.NotFound)


def removed_vectors(path: str, after: int, upto: int) -> set[str]:
    """Paths or URIs of the deletion vectors that versions (after, upto] removed from a table.

    Args:
        path: absolute path or URI of the table.

    Raises:
        FileNotFoundError: the log no longer holds one of the commits.
    """
    system, root = open_folder(path)
    found = set()
    for version in range(after + 1, upto + 1):
        for action in _actions(system, f"{root}/_delta_log/{version:020}.json"):
            vector = action.get("remove", {}).get("deletionVector") or {}
            name = vector.get("pathOrInlineDv", "")
            if vector.get("storageType") == "p":
                found.add(unquote(name.removeprefix("file:")))
            elif vector.get("storageType") == "u":
                folder, encoded = name[:-_ENCODED_UUID], name[-_ENCODED_UUID:]
                uuid = UUID(bytes=b85decode(encoded.encode().translate(_TO_PYTHONS)))
                found.add("/".join([path, *filter(None, [folder]), f"deletion_vector_{uuid}.bin"]))
    return found


def base_row_ids(table: DeltaTable) -> dict[str, int] | None:
    """Path of a file below a table with row tracking -> its base row id, from which its rows are counted.

    A row whose id is written in the file has that id instead. Files that are no part of the table any more
    are among the files.

    Returns:
        The ids; None where the log cannot be read from here, or has many commits after its newest checkpoint.
    """
    system, log = open_folder(f"{path_of(table)}/_delta_log")
    try:
        newest, adds = _newest_checkpoint(system, log)
        if table.version() - newest > _MOST_COMMITS:
            return None
        for version in range(newest + 1, table.version() + 1):
            actions = _actions(system, f"{log}/{version:020}.json")
            adds += [action["add"] for action in actions if "add" in action]
    except (ArrowException, OSError, ValueError):  # the last where a file is torn
        return None
    return {unquote(add["path"]): add["baseRowId"] for add in adds if add.get("baseRowId") is not None}


def _newest_checkpoint(system: fs.FileSystem, log: str) -> tuple[int, list[dict[str, Any]]]:
    """The version of the newest checkpoint, -1 where there is none, and its files: `path` and `baseRowId`."""
    last = f"{log}/_last_checkpoint"
    if system.get_file_info(last).type == fs.FileType.NotFound:
        return -1, []
    with system.open_input_stream(last) as stream:
        version: int = json.loads(stream.read())["version"]
    checkpoint = f"{log}/{version:020}.checkpoint.parquet"
    with pq.ParquetFile(checkpoint, filesystem=system) as file:
        adds = file.read(columns=["add.path", "add.baseRowId"])["add"]
    return version, adds.drop_null().to_pylist()


def _given_by(system: fs.FileSystem, commit: str) -> int | None:
    actions = _actions(system, commit)
    if not all(_brings_rows(action["commitInfo"]) for action in actions if "commitInfo" in action):
        return None
    return _highest_of(actions)


def _highest_of(actions: list[dict[str, Any]]) -> int | None:
    """The highest row id that was ever given, as a commit tells; None where the commit gave no row id."""
    for action in actions:
        domain = action.get("domainMetadata", {})
        if domain.get("domain") == _ROW_TRACKING:
            highest: int = json.loads(domain["configuration"])["rowIdHighWaterMark"]
            return highest
    return None


def _actions(system: fs.FileSystem, commit: str) -> list[dict[str, Any]]:
    with system.open_input_stream(commit) as stream:
        return [json.loads(line) for line in stream.read().splitlines() if line.strip()]


def _brings_rows(commit: Mapping[str, Any]) -> bool:
    """Whether a commit can have brought rows, as far as its own information tells."""
    operation, metrics = commit.get("operation"), commit.get("operationMetrics") or {}
    only_changes = operation == "MERGE" and str(metrics.get("numTargetRowsInserted")) == "0"
    return operation not in _BARREN and not only_changes


def _takes_rows(actions: list[dict[str, Any]]) -> bool:
    """Whether a commit can have taken rows away, or changed some."""
    return any(action["remove"].get("dataChange", True) for action in actions if "remove" in action)


def oldest_commit(table: DeltaTable, after: int) -> datetime | None:
    """The time of the first version above `after` that can have brought rows; None where the log has none.

    Of the versions above `after` only the newest 1,000 are looked through.
    """
    versions = min(table.version() - after, _LOOK_BACK)
    commits = [each for each in history(table, versions) if _brings_rows(each)]
    oldest = min((each["timestamp"] for each in commits if "timestamp" in each), default=None)
    return None if oldest is None else _EPOCH + timedelta(milliseconds=oldest)
