"""The history of a table, also of one whose log says what `deltalake` does not know."""

import json
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from acker.core.store.tables import history, path_of


@pytest.fixture(params=["a table", "a clone"])
def table(request, tmp_path):
    """Three versions of a table, which as a clone has no version before the first, as Spark writes it."""
    path = str(tmp_path / "a place, 50%")
    for number in range(3):
        write_deltalake(path, pa.table({"id": [number]}), mode="append")
    first = Path(path, "_delta_log", f"{0:020}.json")
    actions = [json.loads(line) for line in first.read_text().splitlines()]
    if request.param == "a clone":
        for each in actions:
            each.get("commitInfo", {}).update(readVersion=-1, operation="CLONE")
    first.write_text("\n".join(map(json.dumps, actions)))
    return DeltaTable(path)


def test_a_history_has_as_many_commits_as_are_asked_for_the_newest_first(table):
    versions = [[each["version"] for each in history(table, limit)] for limit in (1, 2, 3, 10)]
    assert versions == [[2], [2, 1], [2, 1, 0], [2, 1, 0]]
    assert {"timestamp", "operation"} <= history(table, 10)[-1].keys()


def test_a_history_begins_where_the_log_does(table):
    for number in (0, 1):
        Path(path_of(table), "_delta_log", f"{number:020}.json").unlink()
    assert [each["version"] for each in history(table, 10)] == [2]
