"""Days: which messages are of one, by their first emission, by a column of theirs, or by a folder's name."""

from datetime import UTC, date, datetime, timedelta

import polars as pl
import pytest

from acker.airflow import tasks
from acker.core.errors import SettingsError
from acker.core.events import SELECTABLE, State
from acker.core.retry import ExponentialBackoff
from acker.core.store.schemas import stream
from acker.operations.cycle import run_cycle
from acker.operations.replay import dry_run, replay_by_hand
from acker.operations.selection.matching import select
from acker.operations.selection.selection import Selection
from tests.kit.polars_topology import PolarsTopology, TableSource

NEW_YEAR = date(2026, 1, 1)
NEXT_DAY = date(2026, 1, 2)
DAY_SECONDS = 24 * 3600


def of_day(run, day, column=None):
    """The offsets of the messages of a day, with the attempt to come."""
    chosen = Selection(states=SELECTABLE, day=day, day_column=column)
    found = select(run.topology, run.snapshot(), chosen)
    return found.emissions.select("source_offset", "attempt").rows()


def one_spout(place, partition=None, **columns):
    """A run of a topology that has acked the rows of a table."""
    topology = PolarsTopology("days", retry=ExponentialBackoff(initial_seconds=60, limit=1))
    path = place.add("numbers", **columns)
    numbers = topology.spout("numbers", TableSource(path, partition))

    @topology.bolt(numbers)
    def checked(tuples):
        return tuples.with_columns(_error=pl.when(pl.col("id") == -1).then(pl.lit("broken")))

    run = place.run(topology)
    run_cycle(run)
    return run


def test_a_message_stays_with_the_day_of_its_first_emission(place):
    place.clock.now = datetime(2026, 1, 1, tzinfo=UTC)
    run = one_spout(place, id=[1, -1])  # -1 fails, and is tried again after midnight
    place.clock.now = datetime(2026, 1, 1, 23, 59, 59, 999_999, UTC)
    place.add("numbers", id=[2])
    run_cycle(run)
    place.clock.advance(0.000_001)
    place.add("numbers", id=[3])
    run_cycle(run)
    place.clock.advance(60)
    run_cycle(run)
    expected = [(-1, 3), (1, 2), (2, 2)]
    assert (of_day(run, NEW_YEAR), of_day(run, NEXT_DAY)) == (expected, [(3, 2)])
    place.clock.advance(DAY_SECONDS)
    replay_by_hand(run, Selection(states=SELECTABLE, day=NEW_YEAR), "why", "me")
    run_cycle(run)
    expected = [(id, attempt + 1) for id, attempt in expected]
    assert (of_day(run, NEW_YEAR), of_day(run, NEXT_DAY)) == (expected, [(3, 2)])


@pytest.mark.parametrize(
    "days",
    [
        [date(2025, 12, 31), NEW_YEAR, NEXT_DAY, None],
        [datetime(2025, 12, 31, 23, 59), datetime(2026, 1, 1), datetime(2026, 1, 2), None],
        [datetime(2026, 1, day, tzinfo=UTC) - timedelta(microseconds=1) for day in (1, 2, 3)] + [None],
        ["2025-12-31", "2026-01-01", "2026-01-02", None],
        ["2025-12-31T23:59Z", "2026-01-01 00:00", "2026-01-02", None],
        ["20251231", "20260101", "20260102", None],
        [20251231, 20260101, 20260102, None],
    ],
    ids=["dates", "times", "times of a zone", "texts", "texts of times", "short texts", "numbers"],
)
def test_a_column_says_the_day_as_a_date_a_time_a_text_or_a_number(place, days):
    run = one_spout(place, id=[1, 2, 3, 4], Day=days)
    assert of_day(run, NEW_YEAR, "Day") == [(2, 2)]


@pytest.mark.parametrize("seconds", [1, 1_000, 1_000_000], ids=["seconds", "milliseconds", "microseconds"])
def test_numbers_of_an_epoch_are_no_days(place, seconds):
    run = one_spout(place, id=[1, 2], at=[1_767_225_600 * seconds, 1_767_312_000 * seconds])
    assert f"holds '{1_767_225_600 * seconds}', which begins with no day" in says(run, "at")


def test_a_folder_that_is_called_by_no_day_is_told_and_one_of_null_is_left_out(place):
    folders = ["day=2026-01-01/a", "day=__HIVE_DEFAULT_PARTITION__/a"]
    run = one_spout(place, "folder", id=[1, 2], folder=folders)
    assert of_day(run, NEW_YEAR, "day") == [(1, 2)]
    place.add("numbers", id=[3], folder=["day=1.1.2026/a"])
    run_cycle(run)
    assert says(run, "day").startswith(
        "A folder of a source is called 'day=1.1.2026', which begins with no day."
    )


FOLDERS = ["day=2026-01-01/a", "eu/day=20260101/a", "day=2026-01-02/a", "birthday=2026-01-01/a", "a"]


def test_the_name_of_a_folder_says_the_day_also_when_rows_were_trimmed(place):
    run = one_spout(place, "folder", id=[1, 2, 3, 4, 5], folder=FOLDERS)
    run.store.require(stream("numbers")).delete()
    assert of_day(run, NEW_YEAR, "day") == [(1, 2), (2, 2)]


def test_messages_that_say_no_day_are_left_out_beside_those_that_do(place):
    topology = PolarsTopology("several")
    orders = topology.spout("orders", TableSource(place.add("orders", id=[1, 2], day=[NEW_YEAR, NEXT_DAY])))
    prices = topology.spout("prices", TableSource(place.add("prices", id=[1, 2])))
    topology.bolt(orders, name="sold")(lambda tuples: tuples)
    topology.bolt(prices, name="priced")(lambda tuples: tuples)
    run = place.run(topology)
    run_cycle(run)
    chosen = Selection(states=SELECTABLE, day=NEW_YEAR, day_column="day")
    found = select(topology, run.snapshot(), chosen)
    assert (found.emissions.select("spout", "source_offset").rows(), found.unseen) == ([("orders", 1)], 0)


def says(run, column):
    """Why a day cannot be looked up."""
    chosen = Selection(states=(State.ACKED,), day=NEW_YEAR, day_column=column)
    with pytest.raises(SettingsError) as error:
        dry_run(run.topology, run.store, chosen, run.clock())
    return str(error.value)


def test_what_says_no_day_is_told_and_not_passed_over(place):
    run = one_spout(place, id=[1, 2], day=["2026-01-01", "2026-01-02"], other=["1.1.2026", None])
    assert says(run, "dya") == (
        "No spout has emitted a column dya, and no folder of a source is called dya=…: nobody can tell which "
        "messages are of a day. The columns are day, id, other. Did you mean day?"
    )
    assert says(run, "other") == (
        "The column other of numbers holds '1.1.2026', which begins with no day. Days are dates, times, or "
        "texts and numbers such as 2026-01-31 and 20260131; choose another column."
    )
    run.store.require(stream("numbers")).delete()
    assert says(run, "day") == (
        "Nobody can tell which messages are of 2026-01-01: the rows of 2 were trimmed from the streams, so "
        "what they say in day is gone. Choose them by partition, position or time of emission in days.replay."
    )


def test_a_run_of_a_day_that_is_cleared_emits_nothing_twice_and_a_later_one_emits_again(place):
    run = one_spout(place, id=[1, 2], day=["2026-01-01", "2026-01-02"])
    form = {
        "states": [str(state) for state in SELECTABLE],
        "day": "2026-01-01",
        "day_column": "day",
        "why": None,
    }

    def done(name):
        matched = tasks.request_by_hand(run, form, "ann", name)["matched"]
        return matched, tasks.emit_requested(run, name, 10).get("messages", 0)

    assert [done("first"), done("first")] == [(1, 1), (1, 0)]
    run_cycle(run)
    assert [done("first"), done("second"), done("second")] == [(1, 0), (1, 1), (1, 0)]
