"""Timing two ways of doing one thing in turn, so that a machine's drift meets both alike."""

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Measure:
    """One ratio and what it is made of."""

    name: str
    ratio: float  # of the medians
    at_most: float
    numerator_seconds: list[float]
    denominator_seconds: list[float]

    def __str__(self) -> str:
        times = f"{self.numerator_seconds} s ÷ {self.denominator_seconds} s"
        return f"{self.ratio} (at most {self.at_most})\n  {times}"

    @property
    def within(self) -> bool:
        """Whether the ratio is within its bound."""
        return self.ratio <= self.at_most


def measure(
    name: str,
    at_most: float,
    numerator: Callable[[int], None],
    denominator: Callable[[int], None],
    rounds: int,
    warm_up: Callable[[int], None] = lambda number: None,
) -> Measure:
    """Time both in turn, `rounds` times after a warm-up; each is called with the number of its round.

    Args:
        warm_up: called before the denominator each time, and not timed.
    """
    ours: list[float] = []
    theirs: list[float] = []
    for number in range(rounds + 1):
        warm_up(number)
        for times, run in ((theirs, denominator), (ours, numerator)):
            start = time.perf_counter()
            run(number)
            times.append(round(time.perf_counter() - start, 3))
    ratio = statistics.median(ours[1:]) / statistics.median(theirs[1:])
    return Measure(name, round(ratio, 2), at_most, ours[1:], theirs[1:])
