"""Waiting with a time limit for work that may never end, as where a source or a server does not answer."""

import threading
from collections.abc import Callable, Hashable
from contextvars import copy_context
from typing import Any, TypeVar

Found = TypeVar("Found")

_RUNNING: dict[Hashable, threading.Thread] = {}
_LOCK = threading.Lock()


class Unanswered(Exception):
    """The work has not ended in time. It goes on in a thread that does not keep the process alive."""


def within(seconds: float, key: Hashable, work: Callable[[], Found]) -> Found:
    """Run `work` with a time limit; return its result, or raise its error.

    Args:
        seconds: how long the work may take.
        key: of this work. While earlier work with the same key has not ended, no other is begun, so that
            threads that wait for ever do not become many.

    Raises:
        Unanswered: the work, or earlier work with the same key, has not ended in time.
    """
    ended: list[Callable[[], Found]] = []
    context = copy_context()

    def call() -> None:
        ended.append(_outcome(lambda: context.run(work)))

    with _LOCK:
        earlier = _RUNNING.get(key)
        if earlier is not None and earlier.is_alive():
            raise Unanswered("it has not answered an earlier look")
        thread = _RUNNING[key] = threading.Thread(target=call, daemon=True, name=f"acker-{key}")
        thread.start()
    thread.join(seconds)
    if not ended:
        raise Unanswered(f"it has not answered within {seconds:,.0f} s")
    return ended[0]()


def _outcome(work: Callable[[], Any]) -> Callable[[], Any]:
    """Do the work now, and return a function that returns or raises as the work did."""
    try:
        found = work()
    except BaseException as error:
        raised = error

        def again() -> Any:
            raise raised

        return again
    return lambda: found
