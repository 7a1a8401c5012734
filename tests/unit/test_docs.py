"""What pages and docstrings name is there: pages, headings, modules, commands."""

import importlib
import re
from pathlib import Path

import pytest

from acker.cli.commands import COMMANDS
from tests.kit import ROOT

PAGES = sorted(
    [ROOT / "README.md", ROOT / "CHANGELOG.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]
)
_CODE = re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE)
_LINK = re.compile(r"\]\(([^)\s]+)\)")


def prose(page: Path) -> str:
    """A page without its blocks of code."""
    return _CODE.sub("", page.read_text())


def anchors(page: Path) -> set[str]:
    """The headings of a page as a link names them: lower case, hyphens for blanks, no punctuation."""
    headings = re.findall(r"^#+ (.+)$", prose(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def broken(page: Path) -> list[str]:
    """The relative links of a page that lead nowhere."""
    found = []
    for link in _LINK.findall(prose(page)):
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if ":" not in link and not (target.exists() and (not anchor or anchor in anchors(target))):
            found.append(link)
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_of_a_page_leads_somewhere(page: Path) -> None:
    assert broken(page) == []


def test_every_page_is_on_the_map() -> None:
    index = ROOT / "docs" / "README.md"
    linked = {(index.parent / link.partition("#")[0]).resolve() for link in _LINK.findall(prose(index))}
    assert set((ROOT / "docs").rglob("*.md")) - linked == {index}


def test_a_link_that_leads_nowhere_is_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# A *b*, c\n[1](#a-b-c) [2](#a) [3](gone.md) [4](page.md#a-b-c) [5](page.md#d)\n")
    assert broken(page) == ["#a", "gone.md", "page.md#d"]


def test_every_command_is_in_the_table_of_commands() -> None:
    table = (ROOT / "docs" / "reference" / "commands.md").read_text()
    assert [name for name in COMMANDS if f"\n| `{name}" not in table] == []


def test_every_module_and_name_that_a_docstring_or_a_page_tells_is_there() -> None:
    files = [*(ROOT / "acker").rglob("*.py"), *(ROOT / "docs").rglob("*.md")]
    told = {name for file in files for name in re.findall(r"`(acker(?:\.\w+)+)`", file.read_text())}
    properties = {f"acker.{name}" for name in ("closed", "commit", "deployment", "format", "lasts", "store")}
    others = {"acker.former_stores", "acker.until", "acker.py"}
    assert sorted(name for name in told - properties - others if not is_there(name)) == []


def is_there(name: str) -> bool:
    """Whether a dotted name is a module, or an attribute of one."""
    parts = name.split(".")
    for upto in range(len(parts), 0, -1):
        try:
            found = importlib.import_module(".".join(parts[:upto]))
        except ModuleNotFoundError:
            continue
        for attribute in parts[upto:]:
            found = getattr(found, attribute, None)
        return found is not None
    return False
