"""One deployment works on a store at a time, and the other is told which one does."""

import os
import shutil
import subprocess
import sys
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from acker.core.errors import StoreError
from acker.core.store import sightings
from acker.core.store.lease import LASTS, LEASE, RENEWED_AFTER, Lease
from acker.core.store.sightings import Sightings
from acker.core.store.store import Store
from acker.core.store.tables import open_table
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
from acker.core.store.store import Store
from acker.core.errors import StoreError
from acker.core.store.lease import LASTS, Lease
from acker.core.store.sightings import Sightings, steady_seconds

uri, name, rounds = sys.argv[1:]
print("ready", flush=True)
sightings = Sightings(steady=lambda: steady_seconds() + number * 2 * LASTS.total_seconds())
for number in range(int(rounds)):
    lease = Lease(Store(uri, "numbers"), name, utc_now, sightings=sightings)
    lease.left(lease.read())
    print("seen", flush=True)
    sys.stdin.readline()
    number += 1
    try:
        lease.hold()
    except StoreError as error:
        assert " works on " in str(error), error
        print("refused", flush=True)
    else:
        print("held", flush=True)
"""


class Machine:
    """One with two clocks: the calendar's, which is set, and the one that nobody sets."""

    def __init__(self, store: Store, folder: Path) -> None:
        self.calendar, self.steady = START, 0.0
        self._store, self._folder = store, folder

    def go_on(self, passed: timedelta) -> None:
        self.calendar += passed
        self.steady += passed.total_seconds()

    def lease(self, deployment: str) -> Lease:
        """As a new process has it."""
        sightings = Sightings(self._folder, lambda: self.steady)
        return Lease(self._store, deployment, lambda: self.calendar, sightings=sightings)

    def is_refused(self, deployment: str) -> bool:
        try:
            self.lease(deployment).hold()
        except StoreError:
            return True
        return False


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(str(tmp_path / "store"), "numbers")


@pytest.fixture
def north(store: Store, tmp_path: Path) -> Machine:
    return Machine(store, tmp_path / "north")


@pytest.fixture
def south(store: Store, tmp_path: Path) -> Machine:
    return Machine(store, tmp_path / "south")


def commits(store: Store) -> int:
    table = open_table(store.path(LEASE))
    return table.version() + 1 if table else 0


def test_the_second_deployment_is_told_who_works_and_for_how_long(store, north):
    north.lease("north").hold()
    told = r"north works on .*/numbers, and.* at 09:12 UTC by its clock\..*=north .* again in 60 minutes\.$"
    with pytest.raises(StoreError, match=told):
        north.lease("south").hold()
    north.go_on(LASTS - timedelta(seconds=1))
    with pytest.raises(StoreError, match=r"again in 1 minute\.$"):
        north.lease("south").hold()
    assert commits(store) == 1


def test_each_process_of_the_deployment_may_go_on(store, north):
    north.lease("north").hold()
    north.go_on(RENEWED_AFTER / 2)
    north.lease("north").hold()
    assert commits(store) == 1


def test_who_goes_on_working_keeps_it(store, north, south):
    lease = north.lease("north")
    while north.calendar < START + 2 * LASTS:
        lease.hold()
        assert south.is_refused("south")
        for each in (north, south):
            each.go_on(RENEWED_AFTER / 4)
    assert commits(store) == 2 * LASTS / RENEWED_AFTER


def test_it_runs_out_for_who_has_seen_it_unchanged_for_as_long(north, south):
    lease = north.lease("north")
    lease.hold()
    assert south.is_refused("south")
    for each in (north, south):
        each.go_on(LASTS)
    south.lease("south").hold()
    with pytest.raises(StoreError, match="south works on"):
        lease.hold()


@pytest.mark.parametrize("hours", [-3, 2, 24 * 365], ids="{} h".format)
def test_a_calendar_that_is_set_neither_keeps_a_lease_nor_takes_one(store, north, south, hours):
    lease = north.lease("north")
    lease.hold()
    south.calendar += timedelta(hours=hours)
    assert south.is_refused("south")
    south.go_on(LASTS / 2)
    south.calendar += timedelta(hours=hours)
    assert south.is_refused("south")
    north.calendar += timedelta(hours=hours)
    north.go_on(LASTS / 2)
    south.go_on(LASTS / 2)
    south.lease("south").hold()
    with pytest.raises(StoreError, match="south works on"):
        lease.hold()


def test_who_was_paused_looks_again_before_it_goes_on(north, south):
    lease = north.lease("north")
    lease.hold()
    assert south.is_refused("south")
    north.calendar += LASTS  # of a machine that was stopped from outside, the calendar alone tells
    south.go_on(LASTS)
    south.lease("south").hold()
    with pytest.raises(StoreError, match="south works on"):
        lease.hold()


def test_a_machine_that_was_started_again_begins_to_look_anew(north, south, monkeypatch):
    north.lease("north").hold()
    assert south.is_refused("south")
    south.go_on(LASTS)
    monkeypatch.setattr(sightings, "_start_of_machine", lambda: "another")
    assert south.is_refused("south")


def test_what_was_released_is_anybodys_at_once(north, south):
    lease = north.lease("north")
    for _ in range(2):
        lease.hold()
        assert south.is_refused("south")
        lease.release()
    south.lease("south").hold()


DEPLOYMENTS = ["north", "south", "west"]
STEPS = st.one_of(
    st.tuples(st.just("works"), st.sampled_from(DEPLOYMENTS), st.booleans()),
    st.tuples(st.just("passes"), st.integers(1, 70), st.none()),
    st.tuples(st.just("is set"), st.sampled_from(DEPLOYMENTS), st.integers(-300, 300)),
    st.tuples(st.just("sleeps"), st.sampled_from(DEPLOYMENTS), st.integers(1, 200)),
)


@settings(max_examples=25, deadline=None)
@given(steps=st.lists(STEPS, max_size=12))
def test_two_deployments_never_work_at_once_whatever_their_calendars_say(steps):
    with TemporaryDirectory() as folder:
        store = Store(f"{folder}/store", "numbers")
        machines = {name: Machine(store, Path(folder, name)) for name in DEPLOYMENTS}
        leases = {name: machine.lease(name) for name, machine in machines.items()}
        now, worked = timedelta(0), {}
        for what, which, more in steps:
            if what == "passes":
                now += timedelta(minutes=which)
                for machine in machines.values():
                    machine.go_on(timedelta(minutes=which))
            elif what == "is set":
                machines[which].calendar += timedelta(minutes=more)
            elif what == "sleeps":  # all others go on; it is a calendar that is told afterwards
                now += timedelta(minutes=more)
                machines[which].calendar += timedelta(minutes=more)
                for name in {*DEPLOYMENTS} - {which}:
                    machines[name].go_on(timedelta(minutes=more))
            else:
                if more:  # another process
                    leases[which] = machines[which].lease(which)
                with suppress(StoreError):
                    leases[which].hold()
                    others = [at for name, at in worked.items() if name != which]
                    assert all(now - at >= LASTS - RENEWED_AFTER for at in others)
                    worked[which] = now


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
            assert [racer.stdout.readline() for racer in racers] == ["seen\n"] * RACERS
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
    one = (tmp_path / "one" / "deployment").read_text().splitlines()[0]
    assert f"Error: The deployment {one} works on {store.path('').rstrip('/')}, and" in refused.stderr
    assert "fold 2," in fold("other", PIPELINE_DEPLOYMENT=one).stdout


def home(path: Path) -> Settings:
    return Settings.from_env({"PIPELINE_HOME": str(path)})


def test_a_home_keeps_its_name(tmp_path):
    one, other = home(tmp_path / "a b"), home(tmp_path / "c")
    assert name_of(one) == name_of(one) != name_of(other)
    assert sorted(file.name for file in one.home.iterdir()) == ["deployment", "deployment.lock"]
    named = Settings.from_env({"PIPELINE_HOME": str(one.home), "PIPELINE_DEPLOYMENT": "north"})
    assert name_of(named) == "north"


@pytest.mark.parametrize("copied", [["cp", "-r"], ["cp", "-a"]], ids=" ".join)
def test_a_home_that_was_copied_is_another_deployment(tmp_path, copied):
    name = name_of(home(tmp_path / "home"))
    subprocess.run([*copied, tmp_path / "home", tmp_path / "copy"], check=True)
    new = name_of(home(tmp_path / "copy"))
    assert new == name_of(home(tmp_path / "copy")) != name == name_of(home(tmp_path / "home"))


def test_a_home_that_was_moved_or_put_back_is_the_same_deployment(tmp_path):
    name = name_of(home(tmp_path / "home"))
    (tmp_path / "home").rename(tmp_path / "moved")
    assert name_of(home(tmp_path / "moved")) == name
    shutil.copytree(tmp_path / "moved", tmp_path / "home")  # as of a backup
    assert name_of(home(tmp_path / "home")) == name


def test_the_name_that_an_older_version_gave_stays(tmp_path):
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "deployment").write_text("node7-3f2a9c41\n")
    assert name_of(home(tmp_path / "home")) == "node7-3f2a9c41"
    shutil.copytree(tmp_path / "home", tmp_path / "copy")
    assert name_of(home(tmp_path / "copy")) != "node7-3f2a9c41"
