"""The project's file, `pyproject.toml` of the current folder: its topologies and its dependencies."""

import tomllib
from pathlib import Path
from typing import Any

from acker.core.errors import SettingsError

_FILE = "pyproject.toml"
_EXAMPLE = 'topologies = ["package.module:attribute"]'


def project_topologies() -> list[str]:
    """The list `topologies` of the table `[tool.acker]`; empty where file, table or list is missing.

    Raises:
        SettingsError: the file cannot be read, the table has another setting, or `topologies` is no list of
            texts.
    """
    table = _file().get("tool", {}).get("acker", {})
    unknown = sorted(set(table) - {"topologies"})
    if unknown:
        raise SettingsError(f"[tool.acker] of {_FILE} has no setting {unknown[0]}. Write {_EXAMPLE}.")
    names = table.get("topologies", [])
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise SettingsError(f"[tool.acker] of {_FILE} has topologies = {names!r}. Write {_EXAMPLE}.")
    return names


def project_dependencies() -> list[str]:
    """The list `dependencies` of the table `[project]`; empty where file, table or list is missing.

    Raises:
        SettingsError: the file cannot be read, or `dependencies` is no list of texts.
    """
    found = _file().get("project", {}).get("dependencies", [])
    if not isinstance(found, list) or not all(isinstance(each, str) for each in found):
        raise SettingsError(f"[project] of {_FILE} has dependencies = {found!r}. Write a list of strings.")
    return found


def _file() -> dict[str, Any]:
    try:
        return tomllib.loads(Path(_FILE).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise SettingsError(
            f"{_FILE} of the current folder cannot be read: {error}. Mend the file."
        ) from error
