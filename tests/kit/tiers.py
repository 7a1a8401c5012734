"""Which tests a run of pytest takes besides those that always run."""

from functools import cache
from pathlib import Path

import pytest

from tests.kit import ROOT

THIRDS = ("1", "2", "3")  # of the files with tests


def runs_extended(config: pytest.Config, file: Path) -> bool:
    """Whether the tests of a file run that are marked extended."""
    return config.getoption("--extended") or config.getoption("--third") == third_of(file)


def third_of(file: Path) -> str:
    """The third that a file with tests is in, by its place among all of them in the order of their names."""
    return THIRDS[_files().index(file) % len(THIRDS)]


@cache
def _files() -> list[Path]:
    return sorted((ROOT / "tests").rglob("test_*.py"))
