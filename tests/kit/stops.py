"""Runs that end between two steps."""

from collections.abc import Callable
from dataclasses import replace

from acker.batches.run import Run, Step
from acker.operations.cycle import run_cycle


class Stop(BaseException):
    """Ends a run between two steps, as the end of its process does: nothing of the run handles it."""


def stopping_at(name: str, component: str) -> Callable[[Step], None]:
    """Stop a run at the first sight of a step."""
    stops = [(name, component)]

    def on_step(step: Step) -> None:
        if stops == [(step.name, step.component)]:
            stops.clear()
            raise Stop

    return on_step


def stopped_once_at_each_step(run: Run) -> list[tuple[str, str]]:
    """Run a cycle to its end, through a stop at the first sight of every step, and tell the steps."""
    seen: list[tuple[str, str]] = []

    def on_step(step: Step) -> None:
        if (step.name, step.component) not in seen:
            seen.append((step.name, step.component))
            raise Stop

    stubborn = replace(run, on_step=on_step)
    while True:
        try:
            run_cycle(stubborn)
            return seen
        except Stop:
            continue
