from datetime import UTC, datetime, timedelta, timezone

import pytest

from acker.core.errors import SettingsError
from acker.core.timeouts import Timeouts, Turn

TEN_MINUTES = timedelta(minutes=10)
FOUR_WINDOWS = Timeouts(TEN_MINUTES, windows=4)
START = datetime(1970, 1, 2, tzinfo=UTC)
FIRST_WINDOW = 24 * 60 * 60 // 150  # windows of 150 seconds in a day


def test_the_first_fold_is_turn_zero() -> None:
    assert FOUR_WINDOWS.turn(None, START) == Turn(0, FIRST_WINDOW)


def test_a_window_turns_at_its_first_moment() -> None:
    first = Turn(0, FIRST_WINDOW)
    assert FOUR_WINDOWS.turn(first, START + timedelta(seconds=149, microseconds=999_999)) == first
    assert FOUR_WINDOWS.turn(first, START + timedelta(seconds=150)) == Turn(1, FIRST_WINDOW + 1)


def test_many_windows_without_a_fold_are_one_turn() -> None:
    three_timeouts_later = START + 3 * TEN_MINUTES
    assert FOUR_WINDOWS.turn(Turn(5, FIRST_WINDOW), three_timeouts_later) == Turn(6, FIRST_WINDOW + 12)


def test_the_time_zone_of_the_clock_makes_no_difference() -> None:
    india = timezone(timedelta(hours=5, minutes=30))
    hours = Timeouts(timedelta(hours=1), windows=1)
    assert hours.turn(None, START.astimezone(india)) == hours.turn(None, START) == Turn(0, 24)


def test_a_clock_that_jitters_back_keeps_its_window() -> None:
    previous = Turn(5, FIRST_WINDOW)
    assert FOUR_WINDOWS.turn(previous, START - timedelta(microseconds=1)) == previous
    assert FOUR_WINDOWS.turn(previous, START - TEN_MINUTES) == previous


def test_a_clock_set_back_further_goes_on_from_there_without_a_turn() -> None:
    set_back = START - TEN_MINUTES - timedelta(microseconds=1)
    assert FOUR_WINDOWS.turn(Turn(5, FIRST_WINDOW), set_back) == Turn(5, FIRST_WINDOW - 5)
    assert FOUR_WINDOWS.turn(Turn(5, FIRST_WINDOW - 5), START - TEN_MINUTES) == Turn(6, FIRST_WINDOW - 4)


def test_windows_that_are_no_whole_microseconds_keep_step_with_the_timeout() -> None:
    thirds = Timeouts(timedelta(seconds=10), windows=3)
    assert thirds.turn(None, START) == Turn(0, 24 * 60 * 60 * 3 // 10)


def test_without_a_timeout_the_window_never_turns() -> None:
    off = Timeouts(None)
    assert off.turn(None, START) == Turn(0, 0)
    assert off.turn(Turn(7, FIRST_WINDOW), START + TEN_MINUTES) == Turn(7, FIRST_WINDOW)
    assert (off.turns, off.hard_turns) == (None, None)


@pytest.mark.parametrize(("windows", "turns"), [(1, 2), (2, 3), (4, 5)])
def test_a_root_expires_at_the_turn_after_its_last_window(windows: int, turns: int) -> None:
    assert Timeouts(TEN_MINUTES, windows).turns == turns


@pytest.mark.parametrize(("hard_minutes", "hard_turns"), [(10, 5), (11, 6), (12.5, 6), (13, 7), (60, 25)])
def test_the_hard_limit_is_rounded_up_to_whole_windows(hard_minutes: float, hard_turns: int) -> None:
    timeouts = Timeouts(TEN_MINUTES, windows=4, hard_timeout=timedelta(minutes=hard_minutes))
    assert timeouts.hard_turns == hard_turns


def test_the_hard_limit_is_rounded_but_once() -> None:
    ten_seconds = timedelta(seconds=10)
    assert Timeouts(ten_seconds, windows=3, hard_timeout=ten_seconds).hard_turns == 4


def test_no_hard_limit_is_set_unless_asked_for() -> None:
    assert Timeouts(TEN_MINUTES).hard_turns is None


@pytest.mark.parametrize(
    ("message_timeout", "windows", "hard_timeout", "message"),
    [
        (TEN_MINUTES, 0, None, "windows must be 1 or more"),
        (timedelta(0), 4, None, "message_timeout must be at least 4 ms"),
        (-TEN_MINUTES, 4, None, "message_timeout must be at least 4 ms"),
        (None, 4, TEN_MINUTES, "hard_timeout needs a message_timeout"),
        (TEN_MINUTES, 4, timedelta(minutes=9), "must not be shorter"),
    ],
)
def test_settings_that_cannot_serve_are_refused(
    message_timeout: timedelta | None, windows: int, hard_timeout: timedelta | None, message: str
) -> None:
    with pytest.raises(SettingsError, match=message):
        Timeouts(message_timeout, windows, hard_timeout)
