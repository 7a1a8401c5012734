"""Cases that threads make side by side, since one alone keeps no two cores busy."""

from collections.abc import Callable, Hashable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Generic, TypeVar

Case = TypeVar("Case", bound=Hashable)
End = TypeVar("End")


class SideBySide(Generic[Case, End]):
    """Cases under way, and the end of each."""

    def __init__(self, at_once: int, make: Callable[[Case], End], cases: Iterable[Case]) -> None:
        self._pool = ThreadPoolExecutor(at_once)
        self._make = make
        self._ends: dict[Case, Future[End]] = {}
        for case in cases:
            self.add(case)

    def add(self, case: Case) -> None:
        """One more case, after all others."""
        self._ends[case] = self._pool.submit(self._make, case)

    def __contains__(self, case: Case) -> bool:
        return case in self._ends

    def end(self, case: Case) -> End:
        """What a case has come to, or what it raised."""
        return self._ends[case].result()

    def stop(self) -> None:
        """Wait for those that have begun, and leave all others."""
        self._pool.shutdown(cancel_futures=True)
