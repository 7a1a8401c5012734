"""The commands that take a topology on: `run`, `fold`, `publish`."""

from dataclasses import asdict
from typing import Any

import click

from acker.cli.context import Context, command


@command
@click.option("--limit", type=click.IntRange(min=0), help="Read at most so many new messages.")
@click.option("--drain", is_flag=True, help="Repeat until nothing is left to read, replay or wait for.")
def run(context: Context, limit: int | None, drain: bool) -> None:
    """Run one cycle: replay what is due, read on, run every bolt, fold, publish."""
    from acker.cli import rendering as render
    from acker.operations import cycle

    with context.running() as running:
        if drain:
            result: dict[str, Any] = {"cycles": cycle.drain(running, limit)}
        else:
            result = asdict(cycle.run_cycle(running, limit))
    context.print(result, lambda: render.pairs(result))


@command
def fold(context: Context) -> None:
    """Run the acker once."""
    from acker.cli import rendering as render
    from acker.core.ledger import fold_counts
    from acker.operations.fold import fold as fold_once

    with context.running() as running:
        done = fold_once(running)
    counts = fold_counts(done)
    result = {**done.as_dict(), "counts": counts}
    context.print(result, lambda: render.pairs({"fold": done.number, **counts}))


@command
def publish(context: Context) -> None:
    """Bring the published tables up to the newest fold."""
    from acker.cli import rendering as render
    from acker.operations.publish import publish as publish_all

    with context.running() as running:
        result = {"commits": publish_all(running)}
    context.print(result, lambda: render.pairs(result))
