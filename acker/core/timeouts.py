"""Timeouts: when a root is too old. Time is an argument; nothing here reads a clock.

Age is counted in turns of a tumbling window, as Storm's RotatingMap counts rotations, and only by folds that
saw the window turn: while no fold runs, no root grows older, so an outage of the scheduler is one turn and
not a replay storm.
"""

import math
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from fractions import Fraction

from acker.core.errors import SettingsError

DEFAULT_WINDOWS = 4  # a root expires in (T, 1.25 T]
_MINIMUM = timedelta(milliseconds=1)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


@dataclass(frozen=True)
class Turn:
    """The position of the timeout window when a fold ran."""

    number: int  # how often folds saw the window turn
    window: int  # index of the tumbling window since 1970, in units of timeout / windows


@dataclass(frozen=True)
class Timeouts:
    """How long a root may stay pending.

    Args:
        message_timeout: T; None switches timeouts off and roots stay pending for ever.
        windows: n; a root expires at the n+1st turn that it sees, in (T, T + T/n].
        hard_timeout: past this a root expires even where its tuples still wait for a bolt's batch.
    """

    message_timeout: timedelta | None = timedelta(minutes=10)
    windows: int = DEFAULT_WINDOWS
    hard_timeout: timedelta | None = None

    def __post_init__(self) -> None:
        if self.windows < 1:
            raise SettingsError(f"windows must be 1 or more, not {self.windows}.")
        if self.message_timeout is not None and self.message_timeout / self.windows < _MINIMUM:
            raise SettingsError(
                f"message_timeout must be at least {self.windows} ms, not {self.message_timeout}; "
                "None switches timeouts off."
            )
        if self.hard_timeout is not None:
            if self.message_timeout is None:
                raise SettingsError("hard_timeout needs a message_timeout; set both or neither.")
            if self.hard_timeout < self.message_timeout:
                raise SettingsError("hard_timeout must not be shorter than message_timeout.")

    def turn(self, previous: Turn | None, now: datetime) -> Turn:
        """The turn that a fold at `now` stands in, after a fold at `previous`.

        However many windows passed between the two folds, they count as one turn. If the clock was set back,
        no turn is counted. A clock that jitters, back by the message timeout at most, keeps its window.
        Otherwise the same window would turn each time the clock goes forward again. A clock that was set back
        further keeps its new time, and time goes on from there.

        Args:
            previous: the turn of the fold before; None before the first.
            now: the fold's clock, in any time zone.
        """
        if self.message_timeout is None:
            return previous or Turn(0, 0)
        window = math.floor(self._windows_in(now.astimezone(UTC) - _EPOCH, self.message_timeout))
        if previous is None:
            return Turn(0, window)
        if previous.window - self.windows <= window <= previous.window:
            return previous
        return Turn(previous.number + (window > previous.window), window)

    @property
    def turns(self) -> int | None:
        """A root expires once this many turns have passed since its own; None: never."""
        return None if self.message_timeout is None else self.windows + 1

    @property
    def hard_turns(self) -> int | None:
        """As `turns`, for roots whose tuples still wait; None: never."""
        if self.hard_timeout is None or self.message_timeout is None:
            return None
        return math.ceil(self._windows_in(self.hard_timeout, self.message_timeout)) + 1

    def _windows_in(self, span: timedelta, message_timeout: timedelta) -> Fraction:
        """How many windows a span lasts, exactly: a window's own length may be no whole microseconds."""
        return Fraction(span // _MICROSECOND * self.windows, message_timeout // _MICROSECOND)
