import math
import pickle
import re
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest

from acker.core.errors import SettingsError
from acker.core.retry import ExponentialBackoff, FailedAttempt, RetryPolicy, delay_after, looked_at


def delays(policy: RetryPolicy, failures: int) -> list[float | None]:
    return [policy.delay_seconds(FailedAttempt(n)) for n in range(1, failures + 1)]


@dataclass(frozen=True)
class Always:
    """A policy of a user's own that returns one and the same, be it a delay or not."""

    delay: Any

    def delay_seconds(self, failures: int) -> float | None:
        return self.delay


def test_delays_grow_by_the_multiplier() -> None:
    assert delays(ExponentialBackoff(initial_seconds=8, multiplier=2), 3) == [8, 16, 32]


def test_delays_stop_growing_at_the_cap() -> None:
    policy = ExponentialBackoff(initial_seconds=1, multiplier=10, cap_seconds=500, limit=None)
    assert delays(policy, 5) == [1, 10, 100, 500, 500]


def test_the_failure_after_the_limit_gives_the_message_up() -> None:
    policy = ExponentialBackoff(initial_seconds=8, multiplier=2, limit=3)
    assert delays(policy, 5) == [8, 16, 32, None, None]


def test_a_limit_of_0_never_retries() -> None:
    assert delays(ExponentialBackoff(limit=0), 2) == [None, None]


def test_no_limit_never_gives_up() -> None:
    policy = ExponentialBackoff(limit=None)
    assert policy.delay_seconds(FailedAttempt(1_000_000)) == 3600


# 1.0000001 stays below the cap up to there; 1e300 would overflow at once.
@pytest.mark.parametrize(
    ("multiplier", "seconds"), [(2.0, 3600.0), (1e300, 3600.0), (1.0000001, 1.000999950), (1.0, 1.0)]
)
def test_the_ten_thousandth_failure_does_not_overflow(multiplier: float, seconds: float) -> None:
    policy = ExponentialBackoff(initial_seconds=1, multiplier=multiplier, limit=None)
    assert policy.delay_seconds(FailedAttempt(10_000)) == pytest.approx(seconds, abs=1e-6)


def test_the_smallest_initial_delay_grows_to_the_cap() -> None:
    policy = ExponentialBackoff(initial_seconds=1e-308, limit=None)
    assert policy.delay_seconds(FailedAttempt(10_000)) == 3600


def test_delays_never_shrink_nor_pass_the_cap_where_a_long_overflows() -> None:
    policy = ExponentialBackoff(initial_seconds=0.002, multiplier=2, cap_seconds=10, limit=None)
    found = [policy.delay_seconds(FailedAttempt(n)) or 0 for n in range(1, 101)]
    assert found == sorted(found)
    assert (found[0], found[-1]) == (0.002, 10)


def test_without_an_initial_delay_every_retry_is_due_at_once() -> None:
    policy = ExponentialBackoff(initial_seconds=0, limit=None)
    assert delays(policy, 3) == [0, 0, 0]
    assert policy.delay_seconds(FailedAttempt(10_000)) == 0


def test_a_policy_of_ones_own_needs_one_method() -> None:
    class Fibonacci:
        def delay_seconds(self, failures: int) -> float | None:
            return [1.0, 1.0, 2.0, None][failures - 1]

    assert [delay_after(Fibonacci(), FailedAttempt(n)) for n in (1, 2, 3, 4)] == [1, 1, 2, None]


@pytest.mark.parametrize(
    ("delay", "seconds"), [(0, 0.0), (7, 7.0), (1e300, 315_360_000.0), (10**400, 315_360_000.0)]
)
def test_the_delay_of_a_policy_is_at_most_ten_years(delay: float, seconds: float) -> None:
    assert delay_after(Always(delay), FailedAttempt(1)) == seconds


@pytest.mark.parametrize("delay", [-1, math.nan, math.inf, -math.inf, "60", False, timedelta(seconds=60)])
def test_a_policy_that_returns_no_number_of_seconds_is_named(delay: object) -> None:
    message = f"must be None or a finite number of 0 or more, not {delay!r}."
    with pytest.raises(
        SettingsError, match=rf"^Always\.delay_seconds\(FailedAttempt\(2, .* {re.escape(message)}$"
    ):
        delay_after(Always(delay), FailedAttempt(2))


def test_a_policy_that_raises_is_named_with_what_it_was_asked() -> None:
    class ByReason:
        def delay_seconds(self, failure: FailedAttempt) -> float | None:
            return {"busy": 1.0}[failure.reason or ""]

    asked = FailedAttempt(1, spout="orders", component="priced", reason="refused")
    message = (
        "ByReason.delay_seconds(FailedAttempt(1, spout='orders', component='priced', reason='refused', "
        "timed_out=False)) raised KeyError: 'refused'. Mend the retry policy."
    )
    with pytest.raises(SettingsError, match=f"^{re.escape(message)}$"):
        delay_after(ByReason(), asked)


def test_a_policy_that_is_derived_from_ours_may_look_at_all_of_a_failure() -> None:
    class ByReason(ExponentialBackoff):
        def delay_seconds(self, failures: int) -> float | None:
            return (
                None if getattr(failures, "reason", None) == "hopeless" else super().delay_seconds(failures)
            )

    assert "reason" in looked_at(ByReason())
    assert [*looked_at(ExponentialBackoff())] == ["attempt"]
    assert delay_after(ByReason(), FailedAttempt(1, reason="hopeless")) is None


def test_a_failure_is_a_number_and_what_failed_also_in_another_process() -> None:
    found = pickle.loads(pickle.dumps(FailedAttempt(3, component="priced", reason="busy", timed_out=True)))
    assert (found, found.attempt, found.component, found.reason, found.timed_out) == (
        3,
        3,
        "priced",
        "busy",
        True,
    )


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"initial_seconds": -1}, "initial_seconds of ExponentialBackoff must be 0 or more"),
        ({"initial_seconds": math.nan}, "initial_seconds of ExponentialBackoff must be 0 or more"),
        ({"multiplier": 0.5}, "multiplier of ExponentialBackoff must be 1 or more"),
        ({"multiplier": math.inf}, "multiplier of ExponentialBackoff must be 1 or more"),
        ({"initial_seconds": 10, "cap_seconds": 9}, "cap_seconds of ExponentialBackoff must lie between"),
        ({"cap_seconds": math.inf}, "cap_seconds of ExponentialBackoff must lie between"),
        ({"limit": -1}, "limit of ExponentialBackoff must be 0 or more"),
    ],
)
def test_settings_that_cannot_serve_are_refused(settings: dict[str, float], message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        ExponentialBackoff(**settings)  # type: ignore[arg-type]
