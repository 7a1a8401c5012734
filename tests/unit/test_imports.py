"""What tests share is in `tests/kit` or beside them, and not in another test's file."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kit import ROOT

FILES = sorted((ROOT / "tests").rglob("*.py"))


def imported(code: str) -> Iterator[str]:
    """All names that code imports, wherever in it."""
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Import):
            yield from (each.name for each in node.names)
        if isinstance(node, ast.ImportFrom):
            yield from (f"{node.module or ''}.{each.name}" for each in node.names)


def of_tests(names: Iterator[str]) -> list[str]:
    return [
        name
        for name in names
        if any(part == "conftest" or part.startswith("test_") for part in name.split("."))
    ]


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(ROOT)))
def test_no_file_imports_a_test_or_a_conftest(file: Path) -> None:
    assert of_tests(imported(file.read_text())) == []


def test_an_import_of_a_test_is_seen_however_it_is_written() -> None:
    code = """
import os, tests.spark.test_one
from tests import conftest
def later():
    from tests.spark.test_two import some
    from .test_three import other
    from tests.kit import waiting
"""
    found = ["tests.spark.test_one", "tests.conftest", "tests.spark.test_two.some", "test_three.other"]
    assert of_tests(imported(code)) == found
