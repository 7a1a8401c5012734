"""What the log of a Delta table tells without Spark: which row ids were given, and when rows came."""

import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from deltalake import DeltaTable
from pyarrow import fs

from acker.spouts.listing import open_folder

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_ROW_TRACKING = "delta.rowTracking"  # the domain in which Delta keeps the highest row id
_LOOK_BACK = 1_000  # commits that are looked through for the oldest

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


def _given_by(system: fs.FileSystem, commit: str) -> int | None:
    with system.open_input_stream(commit) as stream:
        actions = [json.loads(line) for line in stream.read().splitlines() if line.strip()]
    if not all(_brings_rows(action["commitInfo"]) for action in actions if "commitInfo" in action):
        return None
    for action in actions:
        domain = action.get("domainMetadata", {})
        if domain.get("domain") == _ROW_TRACKING:
            highest: int = json.loads(domain["configuration"])["rowIdHighWaterMark"]
            return highest
    return None


def _brings_rows(commit: Mapping[str, Any]) -> bool:
    """Whether a commit can have brought rows, as far as its own information tells."""
    operation, metrics = commit.get("operation"), commit.get("operationMetrics") or {}
    only_changes = operation == "MERGE" and str(metrics.get("numTargetRowsInserted")) == "0"
    return operation not in _BARREN and not only_changes


def oldest_commit(table: DeltaTable, after: int) -> datetime | None:
    """When the first version above `after` came that can have brought rows; None where the log has none."""
    versions = min(table.version() - after, _LOOK_BACK)
    commits = [each for each in table.history(versions) if _brings_rows(each)]
    oldest = min((each["timestamp"] for each in commits if "timestamp" in each), default=None)
    return None if oldest is None else _EPOCH + timedelta(milliseconds=oldest)
