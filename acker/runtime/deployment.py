"""The name of a deployment, by which its processes know each other."""

import contextlib
import os
import platform
import re
import uuid
from pathlib import Path

from acker.runtime.home import writing
from acker.runtime.settings import Settings

_FILE = "deployment"


def name_of(settings: Settings) -> str:
    """`PIPELINE_DEPLOYMENT`, or else the name that the home was given when it was first asked for.

    Raises:
        ServerError: it cannot be kept.
    """
    if settings.deployment:
        return settings.deployment
    file = settings.home / _FILE
    if not file.exists():
        with writing(settings.home):
            settings.home.mkdir(parents=True, exist_ok=True)
            _make(file)
    return file.read_text().strip()


def _make(file: Path) -> None:
    """Make the file whole at once; where two processes do, the first one's stays."""
    host = re.sub(r"[^\w.-]", "", platform.node()) or "deployment"
    draft = file.with_suffix(f".{uuid.uuid4().hex}")
    try:
        draft.write_text(f"{host}-{uuid.uuid4().hex[:8]}\n")
        with contextlib.suppress(FileExistsError):
            os.link(draft, file)
    finally:
        draft.unlink(missing_ok=True)
