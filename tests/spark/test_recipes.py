"""The code of the README and of the recipes in `docs/how-to` does what these pages say."""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from acker.testing import Failure, run_topology
from tests.kit import ROOT

pytestmark = pytest.mark.extended

RECIPES = ("enrichment", "quarantine", "sessions", "upsert")
BLOCKS = re.compile(r"^`(\w+\.py)`[^\n]*\n\n```python\n(.*?)^```", re.DOTALL | re.MULTILINE)


def files_of(page: Path) -> dict[str, str]:
    """Name → code of the Python files that a page shows."""
    return dict(BLOCKS.findall(page.read_text()))


def test_the_tests_of_all_recipes_pass(tmp_path: Path, remote: str) -> None:
    for recipe in RECIPES:
        for name, code in files_of(ROOT / "docs" / "how-to" / f"{recipe}.md").items():
            (tmp_path / name).write_text(code)
    environ = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    environ["PIPELINE_TEST_REMOTE"] = remote
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    done = subprocess.run(command, cwd=tmp_path, env=environ, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
    assert done.stdout.splitlines()[-1].partition(" in ")[0] == "4 passed"


def test_the_pipeline_of_the_readme_gives_up_the_order_with_an_item_that_has_no_price(
    spark: SparkSession,
) -> None:
    shop: dict[str, Any] = {"__name__": "shop"}
    exec(files_of(ROOT / "README.md")["shop.py"], shop)
    orders = [{"id": 1, "items": "tea,milk"}, {"id": 2, "items": "milk,wine"}]
    result = run_topology(shop["topology"], {"orders": orders}, spark=spark)
    assert result.published["priced"] == [
        {"id": 1, "item": "tea", "cents": 300},
        {"id": 1, "item": "milk", "cents": 120},
    ]
    assert result.dead_letters == [Failure({"id": 2, "items": "milk,wine"}, "KeyError: 'wine'", "priced")]
