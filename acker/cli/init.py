"""`acker init`: a project of one's own, which looks as this library's own repository does.

The folder `template` is such a project, called `shop`. Its files are copied, with the new name in place of
`shop`.
"""

import importlib.util
import json
import keyword
import os
import re
import shutil
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

import click

from acker.core.errors import SettingsError

_TEMPLATE = Path(__file__).with_name("template")
_TEMPLATE_NAME = "shop"
_REQUIREMENT = "acker[airflow]"


@click.command()
@click.argument("name")
def init(name: str) -> None:
    """Make a project in a new folder NAME: a pipeline with input and a test, DAGs, a deployment.

    NAME is also the name of its topology: lower case letters, digits and underscores, a letter first.
    """
    if not re.fullmatch("[a-z][a-z0-9_]*", name) or keyword.iskeyword(name):
        raise SettingsError(
            f"{name!r} cannot name a project, whose pipeline is a Python module. Write lower case letters, "
            "digits and underscores, a letter first, such as shop."
        )
    folder = Path(name)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise SettingsError(f"{name} is there already. Choose another name, or move it away.")
    _make(folder)
    without_pytest = importlib.util.find_spec("pytest") is None
    click.echo(f"{name} is made. README.md in it says what is where. Next:\n")
    click.echo(f"  cd {name}")
    if without_pytest:
        click.echo("  pip install pytest")
    click.echo("  pytest")
    click.echo(f"  acker run {name}     # one cycle; starts a Spark server, which stays")
    click.echo(f"  acker audit {name}")
    click.echo("  acker server stop")


def _make(folder: Path) -> None:
    """Make the folder as a whole or not at all: it gets its name when all files are written."""
    draft = folder.with_name(f".{folder.name}.{os.getpid()}")
    try:
        for source in sorted(_TEMPLATE.rglob("*")):
            inner = source.relative_to(_TEMPLATE)
            if source.is_file() and "__pycache__" not in inner.parts:  # which pip leaves there
                target = draft / str(inner).replace(_TEMPLATE_NAME, folder.name)
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_text(_filled_in(source.read_text("utf-8"), folder.name), "utf-8")
        draft.rename(folder)
    except OSError as error:
        raise SettingsError(
            f"{folder} cannot be made here: {error.strerror}. Call the command in a folder of yours."
        ) from error
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def _filled_in(text: str, name: str) -> str:
    installed = distribution("acker")
    ours = requirement(installed.version, installed.read_text("direct_url.json"))
    return text.replace(_TEMPLATE_NAME, name).replace(_REQUIREMENT, ours)


def requirement(version: str, direct_url: str | None) -> str:
    """An installation of the library, as a line of `requirements-production.txt`.

    Args:
        version: the library's version.
        direct_url: the file `direct_url.json` of PEP 610, which an installer writes for a library that did
            not come from an index; None: there is no such file.
    """
    origin: dict[str, Any] = json.loads(direct_url or "{}")
    if "url" not in origin:
        return f"{_REQUIREMENT}=={version}"
    vcs = origin.get("vcs_info")
    url = f"{vcs['vcs']}+{origin['url']}@{vcs['commit_id']}" if vcs else origin["url"]
    return f"{_REQUIREMENT} @ {url}"
