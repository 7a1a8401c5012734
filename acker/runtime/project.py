"""The project's file, `pyproject.toml` of the current folder: which topologies a project has."""

import tomllib
from pathlib import Path
from typing import Any

from acker.core.errors import SettingsError

_FILE = "pyproject.toml"
_EXAMPLE = 'topologies = ["package.module:attribute"]'


def project_topologies() -> list[str]:
    """What `topologies` of the table `[tool.acker]` lists; nothing where there is no such file or table.

    Raises:
        SettingsError: the file cannot be read, or the table has something else.
    """
    try:
        found: dict[str, Any] = tomllib.loads(Path(_FILE).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return []
    except (OSError, ValueError) as error:
        raise SettingsError(
            f"{_FILE} of the current folder cannot be read: {error}. Mend the file."
        ) from error
    table = found.get("tool", {}).get("acker", {})
    unknown = sorted(set(table) - {"topologies"})
    if unknown:
        raise SettingsError(f"[tool.acker] of {_FILE} has no setting {unknown[0]}. Write {_EXAMPLE}.")
    names = table.get("topologies", [])
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise SettingsError(f"[tool.acker] of {_FILE} has topologies = {names!r}. Write {_EXAMPLE}.")
    return names
