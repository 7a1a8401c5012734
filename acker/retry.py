"""Whether and when a failed message is tried again."""

import math
from dataclasses import dataclass
from typing import Protocol

from acker.errors import SettingsError

_LONGEST_SECONDS = 10 * 365 * 86_400.0  # keeps retry_at inside every timestamp type


class RetryPolicy(Protocol):
    """What a user's own policy must offer. It is called once per attempt number and fold."""

    def delay_seconds(self, failures: int) -> float | None:
        """Seconds to wait after a message's `failures`-th failure (from 1), or None to give it up."""


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
            raise SettingsError(f"initial_seconds must be 0 or more, not {self.initial_seconds}.")
        if not (math.isfinite(self.multiplier) and self.multiplier >= 1):
            raise SettingsError(f"multiplier must be 1 or more, not {self.multiplier}.")
        if not self.initial_seconds <= self.cap_seconds <= _LONGEST_SECONDS:
            raise SettingsError(
                f"cap_seconds must lie between initial_seconds and ten years, not {self.cap_seconds}."
            )
        if self.limit is not None and self.limit < 0:
            raise SettingsError(f"limit must be 0 or more, not {self.limit}; None never gives up.")

    def delay_seconds(self, failures: int) -> float | None:
        """Seconds to wait after the `failures`-th failure, or None past the limit.

        The exponent is compared in logarithms and never raised beyond the cap: Storm's
        KafkaSpoutRetryExponentialBackoff multiplies in a long, which overflows from failure 44 on.
        """
        if self.limit is not None and failures > self.limit:
            return None
        if self.initial_seconds == 0 or self.multiplier == 1:
            return self.initial_seconds
        if (failures - 1) * math.log(self.multiplier) >= math.log(self.cap_seconds / self.initial_seconds):
            return self.cap_seconds
        return min(self.cap_seconds, self.initial_seconds * self.multiplier ** (failures - 1))
