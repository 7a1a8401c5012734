"""Waiting for what other processes do. The patience only ends a test that would never end."""

import time
from collections.abc import Callable
from typing import Any

PATIENCE_SECONDS = 600


def wait_for(
    condition: Callable[[], Any],
    every_seconds: float = 0.5,
    not_yet: tuple[type[Exception], ...] = (),
    patience_seconds: float = PATIENCE_SECONDS,
) -> None:
    """Wait until a condition holds.

    Args:
        condition: is asked again and again.
        every_seconds: how long to sleep between two questions.
        not_yet: what the condition may raise as long as it does not hold.
        patience_seconds: after which the test fails.
    """
    deadline = time.monotonic() + patience_seconds
    while True:
        try:
            if condition():
                return
        except not_yet:
            pass
        assert time.monotonic() < deadline, "it did not come to that"
        time.sleep(every_seconds)
