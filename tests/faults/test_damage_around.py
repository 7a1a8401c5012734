"""Copies that are put back, disks that fill up, folders that cannot be written, clocks that jump."""

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from acker.operations.maintenance.compact import compact, vacuum
from acker.operations.standing import republish
from tests.faults.damaged import PUBLISHED, Damaged
from tests.faults.damaged import living as living
from tests.faults.damaged import place as place
from tests.kit.mounts import mounted, read_only
from tests.kit.stops import Stop

KIND = "copies, disks and clocks"

LOOKS = ("audit", "status", "trace")
HOUR_SECONDS = 3_600
thorough = pytest.mark.thorough
extended = pytest.mark.extended


def assert_completes(place: Damaged) -> None:
    assert place.step("run") == ""
    assert place.rows() == PUBLISHED
    assert [place.ask(look) for look in LOOKS] == ["", "", ""]


def rolled_back(place: Damaged, day: str, *tables: str) -> None:
    """Copies the folders of tables back from a copy of the whole."""
    for table in tables:
        shutil.rmtree(place.path(table))
        shutil.copytree(place.on(day).path(table), place.path(table))


STEPS = ("fold", "publish")
STOPPED = ("audit", "status", *STEPS)
COPIES = [
    # Table, what stops, and what is put back then.
    pytest.param("batches", (*LOOKS, *STEPS), ("kept", "batches"), marks=thorough),
    pytest.param("events", ("audit",), None),
    pytest.param("ledger", STOPPED, ("yesterday", "squares"), marks=extended),
    pytest.param("streams/numbers", (), None, marks=thorough),
    pytest.param("streams/squared", ("audit", "publish"), ("kept", "streams/squared"), marks=thorough),
    pytest.param("squares", ("audit", "publish"), None, marks=extended),
    pytest.param("", STOPPED, ("yesterday", "squares")),
]


@pytest.mark.parametrize(("table", "stops", "way_out"), COPIES)
def test_a_copy_of_yesterday_is_told_or_caught_up_with(place, table, stops, way_out):
    rolled_back(place, "yesterday", table)
    said = {look: place.ask(look) for look in LOOKS} | {step: place.step(step) for step in STEPS}
    assert tuple(name for name, text in said.items() if text) == stops, said
    assert all(str(place.path(table or "ledger")) in text for text in said.values() if text), said
    if way_out is not None:
        rolled_back(place, *way_out)
    republish(place.run, "squared")
    assert_completes(place)


@thorough
def test_a_published_table_that_is_dropped_is_published_again_when_that_is_asked_for(place):
    shutil.rmtree(place.path("squares"))
    assert f"{place.path('squares')} is gone" in place.step("run")
    republish(place.run, "squared")
    assert_completes(place)


def test_a_new_store_publishes_nothing_to_the_table_of_one_that_is_gone(place):
    before = place.rows()
    shutil.rmtree(place.path(""))
    place.store.create()
    assert f"{place.path('squares')} has rows of another store. " in place.step("run")
    assert place.rows() == before
    shutil.rmtree(place.path("squares"))
    assert_completes(place)


@pytest.mark.parametrize("component", ["squared", pytest.param("numbers", marks=thorough)])
def test_rows_that_are_lost_before_they_are_logged_stop_the_log(place, component):
    def stop(step):
        if (step.name, step.component) == ("written", component):
            raise Stop

    place.on_step = stop
    with pytest.raises(Stop):
        place.step("run")
    place.on_step = lambda step: None
    table = place.table(f"streams/{component}")
    written = table.version()
    table.restore(written - 1)
    assert f"streams/{component}" in place.step("run")
    place.table(f"streams/{component}").restore(written)
    assert_completes(place)


def test_a_fold_whose_files_are_vacuumed_meanwhile_stops_and_the_next_completes(place):
    def maintain(step):
        if step.name == "folding":
            compact(place.run)
            vacuum(place.run, 0)

    place.spark.conf.set("spark.databricks.delta.retentionDurationCheck.enabled", "false")
    place.on_step = maintain
    said = place.step("fold")
    place.spark.conf.unset("spark.databricks.delta.retentionDurationCheck.enabled")
    assert "events" in said and "cannot be read" in said
    place.on_step = lambda step: None
    assert_completes(place)


@pytest.fixture
def disk(place) -> Iterator[Damaged]:
    """The place on a small disk of its own."""
    folder = place.folder.parent / "disk"
    folder.mkdir()
    with mounted(folder, "-t", "tmpfs", "-o", "size=8m", "tmpfs"):
        shutil.copytree(place.folder, folder / "today")
        found = Damaged(folder / "today", place.spark)
        found.clock.now = place.clock.now
        yield found


def fill(folder: Path, pages: int) -> None:
    """Fill a disk, but for some pages of 4 KiB."""
    with open(folder / "ballast", "wb") as ballast:
        free = os.statvfs(folder).f_bavail * os.statvfs(folder).f_frsize
        ballast.write(b"\0" * (free - pages * 4096))


@pytest.mark.parametrize("pages", [0, *(pytest.param(n, marks=thorough) for n in (1, 2, 4))])
@pytest.mark.parametrize(
    ("step", "component"),
    [
        pytest.param("planned", "numbers", marks=extended),
        ("written", "squared"),
        pytest.param("folding", "acker", marks=extended),
        pytest.param("folded", "acker", marks=extended),
    ],
)
def test_a_full_disk_stops_a_step_and_the_next_run_completes_it(disk, step, component, pages):
    def full(at):
        if (at.name, at.component) == (step, component) and not (disk.folder / "ballast").exists():
            fill(disk.folder, pages)

    disk.emit(10)
    disk.on_step = full
    said = disk.step("run")
    assert pages or "No space left on device" in said or "[TASK_WRITE_FAILED]" in said  # as Spark says
    assert (disk.folder / "ballast").exists()
    assert set(disk.rows()) <= {*PUBLISHED, (10, 100)}
    assert "Traceback" not in said
    (disk.folder / "ballast").unlink()
    disk.on_step = lambda step: None
    assert disk.step("run") == ""
    assert disk.rows() == [*PUBLISHED, (10, 100)]
    assert [disk.ask(look) for look in LOOKS] == ["", "", ""]


@pytest.mark.parametrize(
    "table",
    [
        "events",
        pytest.param("streams/squared", marks=extended),
        *(pytest.param(t, marks=thorough) for t in ("batches", "ledger", "streams/numbers", "squares")),
    ],
)
def test_a_table_that_cannot_be_written_is_named_and_the_next_run_completes(place, table):
    with read_only(place.path(table)):
        said = place.step("run")
    assert str(place.path(table)) in said
    assert set(place.rows()) <= set(PUBLISHED)
    assert_completes(place)


def back(place: Damaged) -> None:
    place.clock.advance(-HOUR_SECONDS)


def forth_and_back(place: Damaged) -> None:
    place.clock.advance(HOUR_SECONDS)
    fold_once = place.step("fold")
    assert fold_once == ""
    place.clock.advance(-HOUR_SECONDS)


def at_every_step(place: Damaged) -> None:
    hours = iter([1, -1] * 1000)
    place.on_step = lambda step: place.clock.advance(next(hours) * HOUR_SECONDS)


def before_a_retry(place: Damaged) -> None:
    rolled_back(place, "yesterday", "", "squares")  # message 2 is due a day before
    place.clock.advance(-2 * 24 * HOUR_SECONDS)
    assert place.step("run") == ""
    assert (2, 4) not in place.rows()
    place.clock.advance(2 * 24 * HOUR_SECONDS)


@pytest.mark.parametrize(
    "jump",
    [back, *(pytest.param(j, marks=thorough) for j in (forth_and_back, at_every_step, before_a_retry))],
)
def test_a_clock_that_jumps_loses_and_doubles_nothing(place, jump: Callable[[Damaged], None]):
    jump(place)
    assert_completes(place)
