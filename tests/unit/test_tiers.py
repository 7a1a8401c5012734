"""Every guarantee has a test that `make test` runs, and every test that the guarantees name is there."""

import os
import re
import subprocess
import sys

import pytest

from tests.kit import ROOT
from tests.kit.tiers import THIRDS

NO_GUARANTEE = "What is not guaranteed"


def named() -> dict[str, set[str]]:
    """The tests that `docs/concepts/guarantees.md` names for each guarantee."""
    page = ROOT / "docs" / "concepts" / "guarantees.md"
    _, *sections = re.split(r"^## +", page.read_text(), flags=re.MULTILINE)
    found = {section.partition("\n")[0].strip(): section for section in sections}
    return {title: set(re.findall(r"`(test_\w+)", text)) for title, text in found.items()}


GUARANTEES = {title: tests for title, tests in named().items() if title != NO_GUARANTEE}


@pytest.fixture(scope="module")
def usual() -> set[str]:
    """The names of the tests that pytest takes without an option, as `make test` does."""
    return {test.partition("::")[2].partition("[")[0] for test in collected()}


def collected(*options: str) -> list[str]:
    """The tests that pytest takes with some options."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    command = [sys.executable, "-m", "pytest", "--collect-only", "-p", "no:cacheprovider", *options]
    done = subprocess.run(command, cwd=ROOT, env=environ, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return re.findall(r"^tests/.*::.*", done.stdout, re.MULTILINE)


def test_the_page_has_all_guarantees() -> None:
    numbers = {title.partition(".")[0] for title in GUARANTEES if title[0].isdigit()}
    assert numbers == {str(number) for number in range(1, 13)}


@pytest.mark.extended
@pytest.mark.parametrize("title", GUARANTEES)
def test_a_guarantee_has_a_test_that_make_test_runs(title: str, usual: set[str]) -> None:
    assert GUARANTEES[title] & usual


@pytest.mark.parametrize("title", GUARANTEES)
def test_the_tests_of_a_guarantee_are_there(title: str) -> None:
    files = (ROOT / "tests").rglob("test_*.py")
    there = {name for file in files for name in re.findall(r"def (test_\w+)\(", file.read_text())}
    assert GUARANTEES[title] - there == set()


def test_three_thirds_are_all_that_is_extended_and_each_of_it_once() -> None:
    usual, everything = collected("tests/store"), collected("tests/store", "--extended")
    thirds = [collected("tests/store", "--third", third) for third in THIRDS]
    assert sorted(everything + 2 * usual) == sorted(test for third in thirds for test in third)
    assert all(set(usual) < set(third) < set(everything) for third in thirds)
