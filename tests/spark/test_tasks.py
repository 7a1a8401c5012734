"""What a scheduler's tasks tell: where a spout is held back, and what an operator should look at."""

import logging
import os
import shutil
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest

from acker.airflow import tasks
from acker.batches.run import Run, utc_now
from acker.core.errors import SettingsError, StoreError
from acker.operations.cycle import run_cycle
from acker.operations.fold import fold
from tests.kit import ROOT

TOPOLOGY = '''
"""Numbers as they are."""
import os
import shutil
from acker import DeltaSpout
from acker import Topology

topology = Topology("plain", max_pending=3)
numbers = topology.spout("numbers", DeltaSpout(os.environ["NUMBERS"], key="id"))
same = topology.bolt(numbers, name="same")(lambda tuples: tuples)
topology.publish(same, to=os.environ["NUMBERS"] + "-same")
'''

FORM = {
    "states": ["acked"],
    "spout": None,
    "positions": [],
    "since": None,
    "until": None,
    "reason": None,
    "limit": None,
}
FOLD_ALONE = """
import sys
from acker.airflow import tasks
counts = tasks.fold(tasks.open_run("plain"))
print(counts, sorted({"grpc", "pandas", "pyspark.sql.connect"} & set(sys.modules)))
"""


@pytest.fixture(autouse=True)
def any_disk_will_do(monkeypatch):
    """The disk on which tests run may be nearly full."""
    monkeypatch.setenv("PIPELINE_DISK_FREE_PERCENT", "0")


@pytest.fixture
def run(place, monkeypatch):
    """A run of a registered topology whose source has five messages, at the real time of day."""
    (place.folder / "plain.py").write_text(TOPOLOGY)
    monkeypatch.syspath_prepend(place.folder)
    monkeypatch.delitem(sys.modules, "plain", raising=False)
    monkeypatch.setenv("NUMBERS", place.add("numbers", id=[1, 2, 3, 4, 5]))
    monkeypatch.setenv("PIPELINE_HOME", place.path("home"))
    monkeypatch.setenv("PIPELINE_TOPOLOGIES", "plain:topology")
    return tasks.open_run("plain", lambda: place.spark)


def test_a_spout_says_that_it_is_held_back(run: Run, caplog):
    caplog.set_level(logging.WARNING)
    said = "numbers is held back: max_pending of plain, 3, is used up"
    assert tasks.read_source(run, "numbers") == {"batches": 1, "messages": 3, "held_back": 1}
    assert said in caplog.text
    caplog.clear()
    assert tasks.read_source(run, "numbers") == {"batches": 0, "messages": 0, "held_back": 1}
    assert said in caplog.text


def test_a_spout_goes_on_as_messages_settle(run: Run, caplog):
    tasks.read_source(run, "numbers")
    tasks.run_bolt(run, "same")
    assert tasks.fold(run) == {"fold": 1, "acked": 3, "late": 0, "due": 0}
    assert tasks.publish(run, "same") == {"commits": 1}
    assert tasks.read_source(run, "numbers") == {"batches": 1, "messages": 2}


def test_what_was_published_waits_no_longer(run: Run):
    run_cycle(run)
    assert [tasks.waits_for("plain", kind) for kind in ("run", "acker")] == [
        ["numbers has 2 rows to read"],
        [],
    ]
    run_cycle(run)
    assert [tasks.waits_for("plain", kind) for kind in ("run", "acker")] == [[], []]


def test_a_fold_imports_nothing_of_spark_that_it_can_do_without(run: Run, place):
    tasks.read_source(run, "numbers")
    tasks.run_bolt(run, "same")
    fold(run)
    assert tasks.request_by_hand(run, FORM, "somebody", "again") == {"matched": 3, "in_flight": 0}
    assert tasks.emit_requested(run, "again") == {"messages": 3}
    paths = os.pathsep.join([str(ROOT), str(place.folder)])
    command = [sys.executable, "-c", FOLD_ALONE]
    done = subprocess.run(
        command, env=os.environ | {"PYTHONPATH": paths}, check=True, capture_output=True, text=True
    )
    assert done.stdout == "{'fold': 2, 'pending': 3, 'late': 0, 'due': 0} []\n"


def test_the_limits_of_a_warning_are_settings(run: Run, monkeypatch):
    monkeypatch.setenv("PIPELINE_DISK_FREE_PERCENT", "0")
    tasks.read_source(run, "numbers")
    fold(run)
    (said,) = warnings_of("plain")  # three is all that it may have in flight
    assert said.startswith("numbers reads nothing new: 3 of its messages")
    monkeypatch.setenv("PIPELINE_BACKLOG_ALLOWED", "2")
    assert warnings_of("plain")[0] == (
        "3 messages are in flight or waiting for a retry, more than the 2 of PIPELINE_BACKLOG_ALLOWED. "
        "See docs/how-to/alerts.md#backlog."
    )


def warnings_of(topology):
    return [str(each) for each in tasks.findings(topology)]


@pytest.mark.parametrize(("schedule", "is_told"), [(None, True), ("@daily", False)])
def test_a_spout_that_waits_for_its_own_schedule_is_not_late(run: Run, monkeypatch, schedule, is_told):
    run_cycle(run)  # of five messages three, by max_pending
    if schedule:
        monkeypatch.setenv("PIPELINE_RUN_SCHEDULE", schedule)
    assert warnings_of("plain") == []
    monkeypatch.setattr(tasks, "utc_now", lambda: utc_now() + timedelta(hours=2))
    said = warnings_of("plain")
    assert ["numbers has 2 rows to read and reads nothing" in each for each in said] == [True] * is_told


def test_an_audit_before_anything_has_run_is_no_alarm_and_one_of_a_lost_table_is(run: Run):
    assert tasks.audit("plain") == []
    shutil.rmtree(run.store.path(""))
    with pytest.raises(StoreError, match=r"There is no store at .*/plain\. When something last ran"):
        tasks.audit("plain")
    run.store.create()
    tasks.read_source(run, "numbers")
    shutil.rmtree(run.store.path("events"))
    with pytest.raises(StoreError, match="There is no table"):
        tasks.audit("plain")


def test_a_form_that_cannot_be_met_is_refused_before_anything_is_planned(run: Run):
    nothing = {"matched": 0, "in_flight": 0}
    assert tasks.count_requested("plain", FORM) == nothing
    assert tasks.count_requested("plain", FORM | {"positions": ["0:1"]}) == nothing  # of the only spout
    with pytest.raises(SettingsError, match="'x' is not a position"):
        tasks.count_requested("plain", FORM | {"positions": ["x"], "spout": "numbers"})


def test_while_the_store_is_away_each_task_fails_and_nothing_is_made_in_its_place(run: Run, place):
    run_cycle(run)
    store, away = Path(place.path("home/store")), Path(place.path("home/away"))
    store.rename(away)
    told = r"^The store .*home/store/plain is gone: it has published same to .*numbers-same up to fold 1, at"
    for _ in range(12):  # tries of an hour
        with pytest.raises(StoreError, match=told):
            tasks.open_run("plain", lambda: place.spark)
    (warning,) = warnings_of("plain")
    assert warning.startswith(f"There is no store at {store}/plain: it is gone, or this is another path. The")
    assert not store.exists()
    away.rename(store)
    again = tasks.open_run("plain", lambda: place.spark)
    run_cycle(again)
    assert place.rows("numbers-same") == [(1,), (2,), (3,), (4,), (5,)]
    assert tasks.audit("plain") == []


def test_a_table_that_is_gone_is_a_warning_and_stops_its_publisher_alone(run: Run, place):
    run_cycle(run)
    shutil.rmtree(place.path("numbers-same"))
    tasks.read_source(run, "numbers")
    tasks.run_bolt(run, "same")
    assert tasks.fold(run)["acked"] == 2
    with pytest.raises(StoreError, match=r"numbers-same is gone, and .* has published fold 1 there"):
        tasks.publish(run, "same")
    assert [said[-28:] for said in warnings_of("plain")] == ["how-to/alerts.md#publishers."]
