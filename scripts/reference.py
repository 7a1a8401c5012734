"""Writes what pages of the reference say of the code: the public names of `acker`, and the settings.

`docs/reference/api.md` is made of the docstrings as a whole. In the tables of `settings.md` and `airflow.md`
each row of a setting is.

    python scripts/reference.py [--check]

With `--check` nothing is written, and exit code 1 says that a page is not what it would become.
"""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import griffe

from acker.runtime.settings import Settings

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "reference" / "api.md"
WITH_SETTINGS = [ROOT / "docs" / "reference" / name for name in ("settings.md", "airflow.md")]
_HEAD = """# API

What an author of topologies imports: `from acker import Topology, FileSpout`. This page is made from the \
docstrings by `make reference`.
"""
_SUBJECTS = {  # the first name of each
    "Topology": "Topologies",
    "DeltaSpout": "Spouts",
    "Avro": "Schemes of Kafka records",
    "collect_anchors": "Anchors",
    "Collector": "Bolts in Python",
    "Target": "Targets",
    "Count": "Running aggregates",
    "ExponentialBackoff": "Retries and hooks",
    "AckerError": "Errors",
}
# Methods that other rooms of the library call, and no author of a topology.
_OF_THE_LIBRARY = {
    *(
        f"Topology.{name}"
        for name in ("component", "publication", "edges", "may_be_untracked", "unread", "roles")
    ),
    *(f"KafkaBolt.{name}" for name in ("settings", "topic_of", "key_of", "value_of")),
}
_SHORT = 40
_SEE = re.compile(r"See `\w+`\.")  # what another docstring says already


def main() -> int:
    """Write the pages, or compare them. Returns the exit code."""
    wanted = {PAGE: page()} | with_settings()
    stale = [file for file, text in wanted.items() if not file.exists() or file.read_text() != text]
    if "--check" not in sys.argv[1:]:
        for file in stale:
            file.write_text(wanted[file])
        return 0
    for file in stale:
        print(f"{file.relative_to(ROOT)} is not what the code says. Run make reference.", file=sys.stderr)
    return 1 if stale else 0


def with_settings() -> dict[Path, str]:
    """The pages that have settings, with their rows.

    Raises:
        ValueError: a setting is on none of the pages.
    """
    found = {file: file.read_text() for file in WITH_SETTINGS}
    told = griffe.load("acker.runtime.settings", search_paths=[ROOT])["Settings"].members
    for name, setting in Settings.declared().items():
        row = re.compile(rf"^\| `{setting.variable}` \|.*$", re.MULTILINE)
        file = next((file for file, text in found.items() if row.search(text)), None)
        if file is None:
            raise ValueError(f"{setting.variable} has no row on a page of settings. Write one.")
        meaning = cell(told[name].docstring.value).removesuffix(".")
        meaning = meaning if meaning.startswith("`") else meaning[0].lower() + meaning[1:]
        meaning = re.sub(r"^\[(\w)", lambda first: f"[{first[1].lower()}", meaning)
        line = f"| `{setting.variable}` | {meaning} | {setting.shown} |"
        found[file] = row.sub(line.replace("\\", r"\\"), found[file])
    return found


def page() -> str:
    """The whole page."""
    package = griffe.load("acker", search_paths=[ROOT], docstring_parser="google")
    exports = [str(name).strip("'\"") for name in package.exports or ()]
    parts = [_HEAD]
    for name in exports:
        if name in _SUBJECTS:
            parts.append(f"## {_SUBJECTS[name]}\n")
        parts += described(name, package[name].final_target)
    written = subprocess.run(
        [sys.executable, "-m", "ruff", "format", "--stdin-filename", str(PAGE), "-"],
        input="\n".join(parts),
        text=True,
        capture_output=True,
        check=True,
    )
    return written.stdout


def described(name: str, it: Any) -> Iterator[str]:
    """A class with its own public methods, or a function."""
    yield f"### {name}\n"
    yield f"```python\n{signature(name, it)}\n```\n"
    yield from docstring(it)
    if not it.is_class:
        return
    for member in it.members.values():
        is_public = not member.name.startswith("_") and not member.is_alias
        is_told = told(member) and f"{name}.{member.name}" not in _OF_THE_LIBRARY
        if is_public and is_told and (member.is_function or "property" in member.labels):
            yield f"#### {name}.{member.name}\n"
            if member.is_function:
                yield f"```python\n{signature(member.name, member)}\n```\n"
            yield from docstring(member)


def told(it: Any) -> bool:
    """Whether a docstring says something of its own."""
    return it.docstring is not None and not _SEE.match(it.docstring.value)


def signature(name: str, it: Any) -> str:
    """How it is called. A class that nobody makes has its name alone."""
    parameters = [
        each for each in it.parameters if each.name not in ("self", "cls") and not each.name.startswith("_")
    ]
    shown = []
    for number, each in enumerate(parameters):
        kind = each.kind.value if each.kind else ""
        if kind == "keyword-only" and not any(
            p.kind and p.kind.value in ("keyword-only", "variadic positional") for p in parameters[:number]
        ):
            shown.append("*")
        star = {"variadic positional": "*", "variadic keyword": "**"}.get(kind, "")
        default = "" if star or each.default is None else f"={value(each.default)}"
        shown.append(f"{star}{each.name}{default}")
    if it.is_class and not shown:
        return f"class {name}"
    call = f"{name}({', '.join(shown)})"
    if len(call) > 100:
        call = f"{name}(\n    " + ",\n    ".join(shown) + ",\n)"
    return call


def value(default: Any) -> str:
    """A default as it is written, or what a constant is set to where that is short."""
    if isinstance(default, griffe.ExprName) and isinstance(default.parent, griffe.Object | griffe.Alias):
        constant = default.parent.modules_collection[default.canonical_path]
        constant = getattr(constant, "final_target", constant)
        if constant.is_attribute and constant.value is not None and len(str(constant.value)) < _SHORT:
            return str(constant.value)
    return str(default)


def docstring(it: Any) -> Iterator[str]:
    """The sections of a docstring, as Markdown."""
    if it.docstring is None:
        return
    for section in it.docstring.parse("google", warnings=False):
        if section.kind is griffe.DocstringSectionKind.text:
            yield section.value.strip() + "\n"
        elif section.kind in (griffe.DocstringSectionKind.parameters, griffe.DocstringSectionKind.attributes):
            is_given = section.kind is griffe.DocstringSectionKind.parameters
            yield f"| {'parameter' if is_given else 'attribute'} | type | what it is |\n|---|---|---|"
            for each in section.value:
                yield f"| `{each.name}` | {annotation(each)} | {cell(each.description)} |"
            yield ""
        elif section.kind is griffe.DocstringSectionKind.returns:
            yield "**Returns:** " + " ".join(cell(each.description) for each in section.value) + "\n"
        elif section.kind is griffe.DocstringSectionKind.raises:
            yield "**Raises:**\n"
            yield from (f"- `{each.annotation}`: {cell(each.description)}" for each in section.value)
            yield ""
        else:
            raise ValueError(
                f"{it.path} has a section of the kind {section.kind.value}, which nothing shows."
            )


def annotation(it: Any) -> str:
    """The type of a parameter or an attribute, as a cell of a table."""
    found = str(it.annotation).strip("'\"") if it.annotation is not None else ""
    return f"`{found}`".replace("|", "\\|") if found else ""


def cell(text: str) -> str:
    """A text of several lines as one cell of a table."""
    return " ".join(text.split()).replace("|", "\\|")


if __name__ == "__main__":
    sys.exit(main())
