"""One deployment works on a store at a time, and the other is told which one does."""

import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from acker.core.delta import open_table
from acker.core.errors import StoreError
from acker.core.lease import LASTS, LEASE, RENEWED_AFTER, Lease
from acker.core.store import Store
from acker.runtime.deployment import name_of
from acker.runtime.settings import Settings

START = datetime(2026, 1, 1, 9, 12, tzinfo=UTC)
RACERS = 4
ROUNDS = 5
TOPOLOGY = """
from acker import DeltaSpout, Topology

topology = Topology("numbers")
numbers = topology.spout("numbers", DeltaSpout("/srv/numbers", key="id"))
"""
TAKE = """
import sys
from datetime import timedelta
from acker.batches.run import utc_now
from acker.core.store import Store
from acker.core.errors import StoreError
from acker.core.lease import LASTS, Lease

uri, name, rounds = sys.argv[1:]
print("ready", flush=True)
for number in range(int(rounds)):
    sys.stdin.readline()
    lease = Lease(Store(uri, "numbers"), name, lambda: utc_now() + number * 2 * LASTS)
    try:
        lease.hold()
    except StoreError as error:
        assert " works on " in str(error), error
        print("refused", flush=True)
    else:
        print("held", flush=True)
"""


class Clock:
    def __init__(self) -> None:
        self.now = START

    def __call__(self) -> datetime:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(str(tmp_path / "store"), "numbers")


def commits(store: Store) -> int:
    table = open_table(store.path(LEASE))
    return table.version() + 1 if table else 0


def test_the_second_deployment_is_told_who_works_and_until_when(store, clock):
    Lease(store, "north", clock).hold()
    with pytest.raises(
        StoreError, match=r"north works on .*/numbers, and.* at 09:12 .* from 10:12 UTC.*=north"
    ):
        Lease(store, "south", clock).hold()
    assert commits(store) == 1


def test_each_process_of_the_deployment_may_go_on(store, clock):
    Lease(store, "north", clock).hold()
    clock.now += RENEWED_AFTER / 2
    Lease(store, "north", clock).hold()
    assert commits(store) == 1


def test_who_goes_on_working_keeps_it(store, clock):
    lease = Lease(store, "north", clock)
    while clock.now < START + 2 * LASTS:
        lease.hold()
        with pytest.raises(StoreError, match="north works on"):
            Lease(store, "south", clock).hold()
        clock.now += RENEWED_AFTER / 4
    assert commits(store) == 2 * LASTS / RENEWED_AFTER


def test_it_runs_out_and_then_the_other_has_it(store, clock):
    lease = Lease(store, "north", clock)
    lease.hold()
    clock.now += LASTS
    Lease(store, "south", clock).hold()
    with pytest.raises(StoreError, match="south works on"):
        lease.hold()


def test_of_deployments_that_come_at_once_one_has_it(store):
    racers = [
        subprocess.Popen(
            [sys.executable, "-c", TAKE, store.uri, f"deployment-{number}", str(ROUNDS)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for number in range(RACERS)
    ]
    try:
        assert [racer.stdout.readline() for racer in racers] == ["ready\n"] * RACERS
        for _ in range(ROUNDS):  # the clock goes on, so nobody has it at the start of a round
            for racer in racers:
                racer.stdin.write("\n")
                racer.stdin.flush()
            said = [racer.stdout.readline() for racer in racers]
            assert sorted(said) == ["held\n"] + ["refused\n"] * (RACERS - 1)
    finally:
        for racer in racers:
            racer.communicate()


def test_a_command_of_another_home_changes_nothing(store, tmp_path):
    (tmp_path / "plain.py").write_text(TOPOLOGY)

    def fold(home: str, **more: str) -> "subprocess.CompletedProcess[str]":
        ours = {"PIPELINE_STORE": store.uri, "PIPELINE_HOME": str(tmp_path / home)}
        command = [sys.executable, "-m", "acker", "fold", "plain:topology"]
        return subprocess.run(
            command, cwd=tmp_path, env=os.environ | ours | more, capture_output=True, text=True
        )

    store.create()
    assert fold("one").returncode == 0
    refused = fold("other")
    assert refused.returncode == 2
    one = (tmp_path / "one" / "deployment").read_text().strip()
    assert f"Error: The deployment {one} works on {store.path('').rstrip('/')}, and" in refused.stderr
    assert "fold 2," in fold("other", PIPELINE_DEPLOYMENT=one).stdout


def test_a_home_keeps_its_name(tmp_path):
    one, other = (Settings.from_env({"PIPELINE_HOME": str(tmp_path / name)}) for name in ("a b", "c"))
    assert name_of(one) == name_of(one) != name_of(other)
    assert [file.name for file in one.home.iterdir()] == ["deployment"]
    named = Settings.from_env({"PIPELINE_HOME": str(one.home), "PIPELINE_DEPLOYMENT": "north"})
    assert name_of(named) == "north"
