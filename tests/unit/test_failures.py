"""What fails, with the source row of one message; a dry run of a replay; published tables; without Spark."""

import json
import sys
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from click.testing import CliRunner
from deltalake import write_deltalake

from acker.airflow import tasks
from acker.cli.commands import main
from acker.core.errors import SettingsError, TopologyError
from acker.core.messages import MessageId
from acker.core.snapshot.trims import Trim, append_trim
from acker.operations.replay import dry_run
from acker.operations.selection.selection import Selection
from acker.reports.failures import Failure, Failures, commonest_failures, failures
from acker.reports.published import published_rows
from acker.reports.rows import LONGEST, plain_rows
from acker.reports.source_rows import SourceRow, source_rows
from tests.unit.failing import MONDAY, TUESDAY, sales
from tests.unit.fuzzed import NOW

WINE = Failure("priced", "no price", "retrying", 4, MessageId("orders", MONDAY, 2))
CAKE = Failure("sold", "out of cake", "retrying", 2, MessageId("orders", MONDAY, 4))
LATER = NOW + timedelta(minutes=2)


@pytest.fixture(scope="module")
def shop(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sales")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.syspath_prepend(str(folder))
        patch.setenv("PIPELINE_HOME", str(folder / "home"))
        patch.setenv("PIPELINE_TOPOLOGIES", "sales:topology")
        patch.setenv("SPARK_REMOTE", "sc://127.0.0.1:9")
        yield sales(folder)
    sys.modules.pop("sales", None)


def answer(*arguments):
    found = CliRunner().invoke(main, list(arguments), catch_exceptions=False)
    assert found.exit_code == 0, found.output
    return json.loads(found.stdout) if "--json" in arguments else found.stdout


def test_failures_are_grouped_by_component_reason_and_state_the_commonest_first(shop):
    assert failures(shop.snapshot(), limit=10) == Failures((WINE, CAKE), kinds=2, count=6)


def test_what_is_not_listed_is_counted(shop):
    assert failures(shop.snapshot(), limit=1) == Failures((WINE,), kinds=2, count=6)


def test_failures_of_some_folds_are_the_attempts_that_failed_in_them(shop):
    snapshot = shop.snapshot()
    first = replace(WINE, count=2), replace(CAKE, count=1)
    assert commonest_failures(snapshot, 0, 1) == Failures(first, kinds=2, count=3)
    assert commonest_failures(snapshot, 0, 2) == Failures((WINE, CAKE), kinds=2, count=6)
    assert commonest_failures(snapshot, 2, 2) == Failures((), kinds=0, count=0)


def test_the_command_tells_a_source_row_of_each_kind(shop):
    found = answer("failures", "sales", "--json")
    assert (found["kinds"], found["count"]) == (2, 6)
    assert found["commonest"][1] == {
        "component": "sold",
        "reason": "out of cake",
        "state": "retrying",
        "count": 2,
        "sample": f"orders:{MONDAY}:4",
        "source": {"values": {"id": 4, "item": "cake"}, "missing": None},
    }
    assert "item=cake" in answer("failures", "sales")


def test_a_trace_shows_the_source_row_where_it_is_asked_to(shop):
    assert answer("trace", "sales", f"{TUESDAY}:2", "--show").splitlines()[-1] == (
        f"orders:{TUESDAY}:2: id=2, item=wine"
    )
    found = answer("trace", "sales", f"{TUESDAY}:2", "--show", "--json")
    assert found["source"] == {"values": {"id": 2, "item": "wine"}, "missing": None}
    assert found["entries"] == answer("trace", "sales", f"{TUESDAY}:2", "--json")


def test_a_row_that_was_trimmed_is_said_to_be(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "sales", raising=False)
    run = sales(tmp_path)
    append_trim(run.store, Trim(1, {"orders": 1}, {}), NOW)
    stream = run.store.require("streams/orders")
    stream.delete("_batch = 1")
    gone, there = (MessageId("orders", file, 1) for file in (MONDAY, TUESDAY))
    assert source_rows(run.snapshot(), [gone, there]) == {
        gone: SourceRow(
            {}, "the row was trimmed from the stream, as all are that are older than the retention"
        ),
        there: SourceRow({"id": 1, "item": "tea"}),
    }


def files(run):
    return sorted(str(path) for path in Path(run.store.uri).rglob("*"))


def test_a_dry_run_without_states_lists_what_is_due_and_writes_nothing(shop):
    before = files(shop)
    found = answer("replay", "sales", "--dry-run", "--json")
    assert (found["matched"], found["in_flight"], found["replayed"]) == (6, 0, 0)
    assert found["messages"][0] == {
        "message": f"orders:{MONDAY}:2",
        "attempt": 2,
        "state": "retrying",
        "component": "priced",
        "reason": "no price",
    }
    assert files(shop) == before


def test_a_dry_run_never_writes_whatever_else_is_said(shop):
    before = files(shop)
    answer("replay", "sales", "--dry-run", "--state", "retrying", "--why", "x", "--requested-by", "me")
    assert files(shop) == before


def test_nothing_is_due_before_its_time(shop):
    found = dry_run(shop.topology, shop.store, None, NOW)
    assert (found.matched, found.messages) == (0, ())


def test_airflows_form_counts_in_a_dry_run_and_records_nothing(shop):
    before = files(shop)
    assert tasks.count_requested("sales", {"states": ["retrying"]}) == {"matched": 6, "in_flight": 2}
    with pytest.raises(SettingsError, match=r"What is due is emitted by the DAG sales\.retry\."):
        tasks.request_by_hand(shop, {"states": None}, "me", "request")
    assert files(shop) == before


@pytest.mark.parametrize(
    ("chosen", "matched"),
    [
        ({}, 6),
        ({"component": "priced"}, 4),
        ({"component": "sold", "partition": "*06.json"}, 1),
        ({"partition": "2026-01-0?.json"}, 6),
        ({"partition": "2026_01_0?.json"}, 0),
        ({"partition": "%"}, 0),
        ({"partition": "' OR '1' = '1"}, 0),
        ({"partition": ""}, 6),
        ({"positions": [f"{MONDAY}:2", f"{MONDAY}:1"]}, 1),
        ({"where": "item = 'wine'"}, 4),
        ({"where": "item = 'wine'", "partition": "*06.json"}, 2),
        ({"where": ""}, 6),
    ],
)
def test_messages_are_chosen_by_partition_by_what_failed_them_and_by_their_columns(shop, chosen, matched):
    fields = {"states": ["retrying"], **chosen}
    assert tasks.count_requested("sales", fields)["matched"] == matched


def test_messages_whose_rows_were_trimmed_are_counted_as_unseen(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "sales", raising=False)
    monkeypatch.setenv("PIPELINE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PIPELINE_TOPOLOGIES", "sales:topology")
    sales(tmp_path).store.require("streams/orders").delete("_batch = 1")
    form = {"states": ["retrying"], "where": "item = 'wine'"}
    assert tasks.count_requested("sales", form) == {"matched": 2, "in_flight": 0, "unseen": 4}
    command = ("replay", "sales", "--dry-run", "--state", "retrying", "--where", form["where"])
    assert answer(*command).splitlines()[-1] == "matched 2, in_flight 0, replayed 0, unseen 4"
    assert answer(*command, "--json")["unseen"] == 4


def test_a_selection_of_a_command_and_of_a_form_are_the_same(shop):
    options = ("--state", "retrying", "--partition", "*06.json", "--component", "sold")
    (found,) = answer("replay", "sales", "--dry-run", "--json", *options)["messages"]
    assert found["message"] == f"orders:{TUESDAY}:4"
    form = {"states": ["retrying"], "partition": "*06.json", "component": "sold"}
    selection = Selection.parse(form, shop.topology)
    assert dry_run(shop.topology, shop.store, selection, LATER).messages[0].message == found["message"]


def test_a_published_table_is_shown_by_its_keys(shop):
    write_deltalake("sold", pa.table({"item": ["wine", "cake", "tea"], "n": [2, 1, 7], "_tuples": [2, 1, 7]}))
    found = published_rows(shop.topology, "sold", limit=2)
    assert (found.columns, found.rows, found.total) == (("item", "n"), (("cake", 1), ("tea", 7)), 3)
    told = answer("show", "sales", "sold", "--limit", "2").splitlines()[-4:]
    assert [line.split() for line in told] == [["cake", "1"], ["tea", "7"], [], ["2", "of", "3", "rows"]]


def test_a_stream_that_is_not_published_is_refused(shop):
    with pytest.raises(
        TopologyError, match=r"^slod is not published by .* sold, priced\. Did you mean sold\?"
    ):
        published_rows(shop.topology, "slod", limit=2)


def test_values_that_python_does_not_hold_are_shown_all_the_same():
    found = pa.table(
        {
            "day": pa.array([10**6], pa.date32()),
            "at": pa.array([0], pa.timestamp("us", "UTC")),
            "nested": [[1, 2]],
            "bytes": [b"\xff"],
            "long": ["x" * 2_000],
            "none": pa.array([None], pa.string()),
        }
    )
    (row,) = plain_rows(found)
    assert row == {
        "day": row["day"],
        "at": "1970-01-01 00:00:00.000000Z",
        "nested": "[1, 2]",
        "bytes": "b'\\xff'",
        "long": "x" * LONGEST + "…",
        "none": None,
    }
    assert isinstance(row["day"], str)
