"""The history of a published Delta table: who published which fold, and which folds it still holds."""

import json
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from deltalake import DeltaTable

from acker.core.store.tables import history
from acker.targets.base import Note

_FIRST_LOOK = 1  # commit, which is mostly a publisher's own
_MORE = 8  # times as many with each further look


def all_notes(table: DeltaTable) -> Iterator[Note]:
    """The notes of publishers, newest first, also of commits that were taken back since."""
    return (note for commit in _commits(table) if (note := _note_of(commit)) is not None)


def notes_that_hold(table: DeltaTable) -> Iterator[Note]:
    """The notes of publishers whose rows no restore has taken away, newest first.

    A restore gives a table the contents of an earlier version again. So all commits after that version and
    before the restore are passed over.
    """
    upto: int | None = None
    before: datetime | None = None
    for commit in _commits(table):
        if (upto is not None and commit["version"] > upto) or (before is not None and _at(commit) > before):
            continue
        upto = before = None
        if commit.get("operation") == "RESTORE":
            upto, before = _restored(commit.get("operationParameters") or {})
        note = _note_of(commit)
        if note is not None:
            yield note


def _restored(parameters: Mapping[str, Any]) -> tuple[int | None, datetime | None]:
    """The version, or else the time, to which a table was restored."""
    version, moment = parameters.get("version"), parameters.get("timestamp", parameters.get("datetime"))
    if version not in (None, "", "null"):
        return int(version), None
    if isinstance(moment, int) or str(moment).isdecimal():
        return None, datetime.fromtimestamp(int(moment) / 1000, UTC)
    try:
        found = datetime.fromisoformat(str(moment))
    except ValueError:
        return None, None  # nobody knows
    return None, found if found.tzinfo else found.replace(tzinfo=UTC)


def _commits(table: DeltaTable) -> Iterator[dict[str, Any]]:
    """The commits of a table, newest first. Where the caller needs few, few are read."""
    told, look = 0, _FIRST_LOOK
    while True:
        found = history(table, look)
        yield from found[told:]
        if len(found) < look:
            return
        told, look = look, look * _MORE


def _note_of(commit: Mapping[str, Any]) -> Note | None:
    """The note of a publisher in a commit; None where the commit is somebody else's."""
    try:
        said = json.loads(commit.get("userMetadata", ""))
        where, is_shared = str(said.get("store", "")), said.get("shared") is True
        return Note(str(said["published"]), int(said["fold"]), _at(commit), where, is_shared)
    except (ValueError, TypeError, LookupError, AttributeError):
        return None


def _at(commit: Mapping[str, Any]) -> datetime:
    return datetime.fromtimestamp(commit["timestamp"] / 1000, tz=UTC)
