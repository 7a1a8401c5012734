"""Whether and when a failed message is tried again."""

import math
from dataclasses import dataclass
from numbers import Real
from typing import Any, Protocol

from acker.core.arguments import checked
from acker.core.errors import SettingsError

_LONGEST_SECONDS = 10 * 365 * 86_400.0  # keeps retry_at inside every timestamp type


class RetryPolicy(Protocol):
    """What a user's own policy must offer. It is called once per attempt number and fold."""

    def delay_seconds(self, failures: int) -> float | None:
        """Seconds to wait after a message's `failures`-th failure (from 1), or None to give it up."""


@checked
@dataclass(frozen=True)
class ExponentialBackoff:
    """Wait initial · multiplier^(failures − 1) seconds, at most `cap_seconds`.

    Args:
        initial_seconds: the delay after the first failure.
        multiplier: 1 or more.
        cap_seconds: the longest delay, up to ten years.
        limit: retries after the first attempt, so that a message is emitted at most limit + 1 times,
            as with Storm's setMaxRetries; None never gives up, 0 never retries.
    """

    initial_seconds: float = 1.0
    multiplier: float = 2.0
    cap_seconds: float = 3600.0
    limit: int | None = 3

    def __post_init__(self) -> None:
        if not (math.isfinite(self.initial_seconds) and self.initial_seconds >= 0):
            raise self._refused("initial_seconds", "be 0 or more")
        if not (math.isfinite(self.multiplier) and self.multiplier >= 1):
            raise self._refused("multiplier", "be 1 or more")
        if not self.initial_seconds <= self.cap_seconds <= _LONGEST_SECONDS:
            raise self._refused("cap_seconds", "lie between initial_seconds and ten years")
        if self.limit is not None and self.limit < 0:
            raise self._refused("limit", "be 0 or more", "; None never gives up")

    def _refused(self, name: str, what: str, otherwise: str = "") -> SettingsError:
        value = getattr(self, name)
        return SettingsError(f"{name} of {type(self).__name__} must {what}, not {value}{otherwise}.")

    def delay_seconds(self, failures: int) -> float | None:
        """Seconds to wait after the `failures`-th failure, or None past the limit.

        What a float cannot hold is past every cap: Storm's KafkaSpoutRetryExponentialBackoff multiplies
        in a long, which overflows from failure 44 on.
        """
        if self.limit is not None and failures > self.limit:
            return None
        if self.initial_seconds == 0:
            return 0.0
        try:
            return min(self.cap_seconds, self.initial_seconds * float(self.multiplier) ** (failures - 1))
        except OverflowError:
            return self.cap_seconds


def delay_after(policy: RetryPolicy, failures: int) -> float | None:
    """Seconds that `policy` has a message wait after its `failures`-th failure, at most ten years.

    Raises:
        SettingsError: The policy, which may be the user's own, returned neither None nor a number of seconds.
    """
    delay: Any = policy.delay_seconds(failures)
    if delay is None:
        return None
    # False would pass for no delay, and was more likely meant for no retry.
    is_number = isinstance(delay, Real) and not isinstance(delay, bool)
    if not (is_number and 0 <= delay < math.inf):
        raise SettingsError(
            f"{type(policy).__name__}.delay_seconds({failures}) must be None or a finite number of 0 or "
            f"more, not {delay!r}."
        )
    return float(min(delay, _LONGEST_SECONDS))
