"""Showing how a run gets on: a bar on a terminal, a line per step elsewhere."""

from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from acker.batches.progress import Step, describe
from acker.topology.topology import Topology

_STEPS_PER_BATCH = 3  # plan, write, log


class ProgressReport:
    """Hears of a run's steps and shows them on standard error.

    The bar counts one cycle: three steps per component, the fold, and each published table; where a
    component has more than one batch it begins again.
    """

    def __init__(self, topology: Topology, quiet: bool = False) -> None:
        self._console = Console(stderr=True, quiet=quiet)
        total = _STEPS_PER_BATCH * len(topology.components) + 1 + len(topology.publications)
        columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
        self._bar = Progress(*columns, console=self._console, transient=True)
        self._task = self._bar.add_task(topology.name, total=total)

    def __call__(self, step: Step) -> None:
        """Show a step."""
        text = describe(step)
        if not self._console.is_terminal:
            self._console.print(text, highlight=False)
            return
        if step.name == "folded":
            self._bar.console.print(text, highlight=False)
        if self._bar.finished:
            self._bar.reset(self._task)
        self._bar.update(self._task, description=text, advance=step.name not in ("folding", "bisecting"))

    def __enter__(self) -> Self:
        if self._console.is_terminal:
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._console.is_terminal:  # elsewhere it was not started, and would print an empty line
            self._bar.stop()
