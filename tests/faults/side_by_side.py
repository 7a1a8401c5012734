"""Cases that threads make side by side, since one alone keeps no two cores busy."""

from collections.abc import Callable, Hashable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Generic, TypeVar

Case = TypeVar("Case", bound=Hashable)
End = TypeVar("End")


class SideBySide(Generic[Case, End]):
    """Cases under way, and the end of each."""

    def __init__(self, at_once: int, make: Callable[[Case], End], cases: Iterable[Case]) -> None:
        self._pool = ThreadPoolExecutor(at_once)
        self._ends = {case: self._pool.submit(make, case) for case in cases}

    def end(self, case: Case) -> End:
        """What a case has come to, or what it raised."""
        return self._ends[case].result()

    def stop(self) -> None:
        """Wait for those that have begun, and leave all others."""
        self._pool.shutdown(cancel_futures=True)
