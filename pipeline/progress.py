"""Showing how a run gets on: a bar on a terminal, a line per step elsewhere."""

from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from pipeline.run import Step
from pipeline.topology import Topology

_STEPS_PER_BATCH = 3  # plan, write, log
_KINDS = {"replay": " of replays", "retire": " of what nobody reads any more"}


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
        self._bar.update(self._task, description=text, advance=step.name not in ("folding", "narrowing"))

    def __enter__(self) -> Self:
        if self._console.is_terminal:
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._console.is_terminal:  # elsewhere it was not started, and would print an empty line
            self._bar.stop()


def describe(step: Step) -> str:
    """A step in a few words."""
    if step.name == "folding":
        return f"fold {step.number}: reading events"
    if step.name == "folded":
        counts = ", ".join(f"{n:,} {state}" for state, n in step.detail.items() if n)
        return f"fold {step.number}: {counts or 'nothing new'}"
    if step.name == "published":
        return f"{step.component}: fold {step.number} published"
    if step.name == "narrowing":
        return f"{step.component} batch {step.number}: a row raised, looking for the message"
    kind = _KINDS.get(step.detail.get("kind", ""), "")
    return f"{step.component} batch {step.number}{kind}: {step.name}"
