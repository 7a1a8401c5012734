"""The name of a deployment, by which its processes know each other, and its record of leases."""

import contextlib
import fcntl
import json
import os
import platform
import re
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from acker.core.store.sightings import Sightings
from acker.runtime.home import writing
from acker.runtime.settings import Settings

_FILE = "deployment"
_SIGHTINGS = "leases"


def sightings_of(settings: Settings) -> Sightings:
    """The record of the leases that processes of this home have seen, and since when."""
    return Sightings(settings.home / _SIGHTINGS)


def name_of(settings: Settings) -> str:
    """`PIPELINE_DEPLOYMENT`, or else the home's own name, which is made when it is first asked for.

    A home that was copied is another deployment than the one that it was copied from, and gets another name.

    Raises:
        ServerError: the name cannot be kept.
    """
    if settings.deployment:
        return settings.deployment
    with writing(settings.home):
        found = _read(settings.home)
        if found is None:
            settings.home.mkdir(parents=True, exist_ok=True)
            with _locked(settings.home):
                found = _read(settings.home) or _make(settings.home)
    return found


def _read(home: Path) -> str | None:
    """The name in the home's file; None where there is none, or the file was not made for this home."""
    file = home / _FILE
    try:
        name, place = file.read_text().splitlines()[:2]
        told = json.loads(place)
        folder, identity = told["folder"], told["file"]
    except (FileNotFoundError, ValueError, LookupError, TypeError):  # or it is of an older version
        return None
    is_moved = identity == _identity(file)  # within a disk; or the disk is another machine's now
    is_in_place = folder == _folder(home)  # perhaps put back from a backup
    return name if is_moved or is_in_place else None


def _make(home: Path) -> str:
    """Give the home a name, or keep that of an older version. The file of the name appears whole at once."""
    file, host = home / _FILE, re.sub(r"[^\w.-]", "", platform.node()) or "deployment"
    lines = file.read_text().splitlines() if file.exists() else []
    name = lines[0] if len(lines) == 1 else f"{host}-{uuid.uuid4().hex[:8]}"
    draft = file.with_suffix(f".{uuid.uuid4().hex}")
    try:
        draft.touch()
        identity = [draft.stat().st_ino, time.time_ns()]
        draft.write_text(f"{name}\n{json.dumps({'folder': _folder(home), 'file': identity})}\n")
        os.utime(draft, ns=(identity[1], identity[1]))
        draft.replace(file)
    finally:
        draft.unlink(missing_ok=True)
    return name


def _folder(home: Path) -> list[str]:
    return [platform.node(), str(home.resolve())]


def _identity(file: Path) -> list[Any]:
    """The inode and the modification time of a file, a pair that no copy of the file shares."""
    found = file.stat()
    return [found.st_ino, found.st_mtime_ns]


@contextlib.contextmanager
def _locked(home: Path) -> Iterator[None]:
    with (home / f"{_FILE}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
