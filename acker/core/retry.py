"""Retry policies: whether and when a failed message is tried again."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any, Protocol, Self

from acker.core.arguments import checked
from acker.core.errors import SettingsError
from acker.core.events import State

_LONGEST_SECONDS = 10 * 365 * 86_400.0  # keeps retry_at inside every timestamp type


class FailedAttempt(int):
    """An attempt of a message that failed or timed out, as it is passed to a retry policy.

    The object is an `int`: the number of the attempt, from 1. So a policy can use it as a number.

    Attributes:
        spout: the name of the spout that emitted the message.
        component: the name of the component that failed the attempt, or that held back its tuples until it
            timed out; None where there is no such component.
        reason: the reason of the failure in the ledger; None where there is none.
        timed_out: True where the attempt was not complete in time, False where it failed.
    """

    spout: str
    component: str | None
    reason: str | None
    timed_out: bool

    def __new__(
        cls,
        attempt: int,
        *,
        spout: str = "",
        component: str | None = None,
        reason: str | None = None,
        timed_out: bool = False,
    ) -> Self:
        """See the class."""
        found = super().__new__(cls, attempt)
        found.spout, found.component, found.reason, found.timed_out = spout, component, reason, timed_out
        return found

    def __getnewargs_ex__(self) -> tuple[tuple[int], dict[str, Any]]:
        return (int(self),), vars(self)

    def __repr__(self) -> str:
        named = ", ".join(f"{name}={value!r}" for name, value in vars(self).items())
        return f"{type(self).__name__}({int(self)}, {named})"

    @classmethod
    def of(cls, row: dict[str, Any]) -> Self:
        """The failed attempt of a ledger's row, which may have only some of the ledger's columns."""
        is_late = row.get("state") == State.TIMED_OUT
        named = {name: row[name] for name in ("spout", "component", "reason") if name in row}
        return cls(row["attempt"], timed_out=is_late, **named)

    @property
    def attempt(self) -> int:
        """The number of the attempt, from 1. An earlier attempt that was acked counts as well."""
        return int(self)


class RetryPolicy(Protocol):
    """The protocol of retry policies. A user's own policy needs no base class.

    A fold asks the policy once for all failures that are alike, and not once for each message. Each task of a
    fold asks for its share of the messages. The next fold asks for the failures that are new then. Failures
    with different reasons are not alike. Where the acker's work runs in Spark's tasks, the policy is pickled
    and asked there.
    """

    def delay_seconds(self, failure: FailedAttempt) -> float | None:
        """Decide when a message is tried again.

        Args:
            failure: the attempt that failed or timed out. As an `int` it is the attempt's number.

        Returns:
            Seconds to wait after the fold that has seen the failure, a finite number of 0 or more. More than
            ten years are ten years. None: the message is given up, and becomes a dead letter.
        """


_ALL = ("attempt", "spout", "component", "reason", "state")  # columns of the ledger that make a failure


def looked_at(policy: RetryPolicy) -> Sequence[str]:
    """The columns of the ledger that a policy looks at. Failures with the same values in them are alike.

    A policy of a user's own may look at all of them, also one that is derived from `ExponentialBackoff`.
    """
    is_ours = type(policy).delay_seconds is ExponentialBackoff.delay_seconds
    return ("attempt",) if is_ours else _ALL


@checked
@dataclass(frozen=True)
class ExponentialBackoff:
    """A retry policy: wait initial · multiplier^(failures − 1) seconds, at most `cap_seconds`.

    Args:
        initial_seconds: the delay after the first failure.
        multiplier: 1 or more.
        cap_seconds: the longest delay, up to ten years.
        limit: retries after the first attempt, so that a message is emitted at most limit + 1 times, as with
            Storm's setMaxRetries; None never gives up, 0 never retries.
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

    def delay_seconds(self, failure: FailedAttempt | int) -> float | None:
        """Seconds to wait after the n-th failure, or None past the limit.

        Args:
            failure: the failed attempt, or its number n.

        A delay that is too large for a float is past every cap. Storm's KafkaSpoutRetryExponentialBackoff
        multiplies in a long, which overflows from failure 44 on.
        """
        if self.limit is not None and failure > self.limit:
            return None
        if self.initial_seconds == 0:
            return 0.0
        try:
            return min(self.cap_seconds, self.initial_seconds * float(self.multiplier) ** (failure - 1))
        except OverflowError:
            return self.cap_seconds


def delay_after(policy: RetryPolicy, failure: FailedAttempt) -> float | None:
    """The delay in seconds that a policy gives a failure, at most ten years; None to give the message up.

    Raises:
        SettingsError: the policy, which may be the user's own, raised, or returned neither None nor a number
            of seconds.
    """
    try:
        delay: Any = policy.delay_seconds(failure)
    except Exception as error:
        raise SettingsError(
            f"{type(policy).__name__}.delay_seconds({failure!r}) raised {type(error).__name__}: {error}. "
            "Mend the retry policy."
        ) from error
    if delay is None:
        return None
    # False would pass for no delay, and was more likely meant for no retry.
    is_number = isinstance(delay, Real) and not isinstance(delay, bool)
    if not (is_number and 0 <= delay < math.inf):
        raise SettingsError(
            f"{type(policy).__name__}.delay_seconds({failure!r}) must be None or a finite number of 0 or "
            f"more, not {delay!r}."
        )
    return float(min(delay, _LONGEST_SECONDS))
