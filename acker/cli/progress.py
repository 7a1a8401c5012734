"""The progress of a run: a bar on a terminal, a line per step elsewhere."""

import sys
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.text import Text

from acker.batches.run import Step, describe
from acker.cli.stderr_capture import captured_stderr, terminal
from acker.topology.topology import Topology

_STEPS_PER_BATCH = 3  # plan, write, log
_NOT_DONE = ("folding", "searching", "refusing", "refused")


class ProgressReport:
    """Shows the steps of a run on standard error.

    The bar counts one cycle: three steps per component, the fold, and each published table. Where a component
    has more than one batch, the bar begins again. Lines that bolts print, and lines that others write to
    standard error meanwhile, appear above the bar.
    """

    def __init__(
        self, topology: Topology, quiet: bool = False, printed: Callable[[], Iterable[str]] = tuple
    ) -> None:
        self._topology = topology
        self._printed = printed
        self._console = Console(stderr=True, quiet=quiet)
        self._is_live = self._console.is_terminal and not quiet
        self._open = ExitStack()

    def __call__(self, step: Step) -> None:
        """Show the lines that bolts have printed since the last step, and then a step."""
        self._print_printed()
        text = describe(step)
        if not self._is_live:
            self._console.print(text, highlight=False)
            return
        if step.name == "folded":
            self._bar.console.print(text, highlight=False)
        if self._bar.finished:
            self._bar.reset(self._task)
        self._bar.update(self._task, description=text, advance=step.name not in _NOT_DONE)

    def __enter__(self) -> Self:
        if self._is_live:
            total = _STEPS_PER_BATCH * len(self._topology.components) + 1 + len(self._topology.publications)
            self._bar = Progress(
                *(SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn()),
                console=Console(file=self._open.enter_context(terminal())),
                transient=True,
                redirect_stdout=sys.stdout.isatty(),
                redirect_stderr=False,  # it comes by the file descriptor
            )
            self._task = self._bar.add_task(self._topology.name, total=total)
            self._open.enter_context(self._bar)
            # It ends before the bar does: a line that is printed while the bar goes would stand within it.
            self._open.enter_context(captured_stderr(self._print_above))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._print_printed()
        self._open.close()

    def _print_printed(self) -> None:
        console = self._bar.console if self._is_live else self._console
        for line in self._printed():
            console.print(Text(line), soft_wrap=True)

    def _print_above(self, line: str) -> None:
        self._bar.console.print(Text.from_ansi(line), soft_wrap=True)
