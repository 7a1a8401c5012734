"""What a page tells to type is there: commands and their options, targets, modules, files, variables."""

import importlib.util
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from acker import ExponentialBackoff, Topology
from acker.cli.commands import COMMANDS, main
from acker.runtime.settings import Settings
from tests.kit import ROOT

PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")])
MISTAKES = ROOT / "docs" / "how-to" / "mistakes.md"  # has what is misspelt on purpose
SPAN = re.compile(r"`([^`\n]+)`")
TYPED = re.compile(r"(?:\$ )?((?:\w+=\S+ |time |\.venv/bin/)*)(acker|make|python) (.+)")
# Of code that is not a part of the library, or of a library of others.
OWN = ("acker", "pipeline", "bench", "tests", "dags", "scripts")


def typed(page: Path) -> Iterator[tuple[str, list[str]]]:
    """The commands that a page tells, in its blocks and in the text: program and arguments."""
    text = page.read_text().replace("\\\n", " ")
    blocks = re.findall(r"^```(?:bash)?\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    prose = re.sub(r"^```.*?^```$", "", text, flags=re.DOTALL | re.MULTILINE)
    lines = [*(line for block in blocks for line in block.splitlines()), *SPAN.findall(prose)]
    for each in filter(None, map(TYPED.fullmatch, lines)):
        words = shlex.split(each[3], comments=True)
        ends = (number for number, word in enumerate(words) if word in ("|", "&&", ">"))
        yield each[2], [word.rstrip(";") for word in words[: next(ends, None)]]


@pytest.mark.parametrize("page", [page for page in PAGES if page != MISTAKES], ids=lambda page: page.stem)
def test_a_command_that_a_page_tells_is_there_with_its_options(page: Path) -> None:
    assert [(program, *words) for program, words in typed(page) if not is_known(program, words)] == []


def is_known(program: str, words: list[str]) -> bool:
    if program == "make":
        return words[0] in targets()
    if program == "python":
        return words[0] != "-m" or is_module(*words[1:])
    name = words[0]
    if name.startswith("-") or name == "COMMAND":
        return True
    if name not in COMMANDS:
        return False
    command = main.get_command(click.Context(main), name)
    assert command is not None
    if isinstance(command, click.Group):
        found = command.get_command(click.Context(command), words[1])
        return words[1].startswith("-") or found is not None
    known = {option for parameter in command.params for option in parameter.opts} | {"-h", "--help"}
    return all(word.partition("=")[0] in known for word in words if word.startswith("-"))


def targets() -> set[str]:
    return set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))


def is_module(name: str, *measures: str) -> bool:
    """Whether a module is there, and of `bench` its measures."""
    if name.partition(".")[0] not in OWN:
        return True
    known = re.findall(r'"([\w-]+)": (?:measure|partial)', (ROOT / "bench" / "__main__.py").read_text())
    several = r"(tax\d+|replay-(keys|ids|files))"
    are_known = all(each in known or re.fullmatch(several, each) for each in measures)
    return importlib.util.find_spec(name) is not None and (name != "bench" or are_known)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_file_of_the_project_that_a_page_names_is_there(page: Path) -> None:
    path = re.compile(rf"({'|'.join(OWN[:4])})/[\w./-]+")
    named = filter(path.fullmatch, SPAN.findall(page.read_text()))
    there = [ROOT, ROOT / "acker" / "cli" / "template"]  # a user's project has files of the same names
    assert [each for each in named if not any((folder / each).exists() for folder in there)] == []


def test_the_variables_of_the_pages_are_those_of_the_code() -> None:
    name = re.compile(r"\bPIPELINE_[A-Z_]+[A-Z]\b")
    code = {each for path in (ROOT / "acker").rglob("*.py") for each in name.findall(path.read_text())}
    pages = [ROOT / "docs" / "reference" / page for page in ("settings.md", "airflow.md")]
    told = {each for page in pages for each in name.findall(page.read_text())}
    others = {"PIPELINE_KAFKA_SERVERS"}  # of the example
    assert (told - code - others, code - told) == (set(), set())


def test_the_numbers_that_pages_tell_of_settings_are_the_defaults() -> None:
    declared = Settings.declared().values()
    defaults = {each.variable: int(each.default) for each in declared if each.default.isdecimal()}
    cell = re.compile(r"^\| `(PIPELINE_\w+)` \|.*\| (\d+)[^|]*\|$", re.MULTILINE)
    named = re.compile(r"`(PIPELINE_\w+)`, (\d[\d,]*)")
    pages = [page.read_text() for page in PAGES]
    found = [each for page in pages for each in cell.findall(page) + named.findall(page)]
    told = {(name, int(number.replace(",", ""))) for name, number in found if name in defaults}
    assert len(told) > 15
    assert told - set(defaults.items()) == set()


def test_the_page_on_tuning_shows_the_defaults_of_a_topology() -> None:
    page = (ROOT / "docs" / "how-to" / "operate.md").read_text()
    (shown,) = re.findall(r"^```python\n(Topology\(.*?)^```$", page, re.DOTALL | re.MULTILINE)
    told = eval(shown, {"Topology": Topology, "ExponentialBackoff": ExponentialBackoff})
    assert {**vars(told), "name": "x"} == vars(Topology("x"))


def test_the_quickstart_shows_the_project_that_init_makes() -> None:
    page = (ROOT / "docs" / "quickstart.md").read_text()
    shown = re.findall(r"^```python\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
    assert (ROOT / "acker" / "cli" / "template" / "pipeline" / "shop.py").read_text() in shown


def test_the_quickstart_shows_what_init_prints(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    told = CliRunner().invoke(main, ["init", "shop"])
    page = (ROOT / "docs" / "quickstart.md").read_text()
    assert page.partition("$ acker init shop\n")[2].partition("```")[0] == told.output
