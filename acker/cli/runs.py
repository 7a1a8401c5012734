"""The commands `run`, `fold`, `publish` and `give-up`, which do a topology's work, and `acknowledge`."""

import sys
from dataclasses import asdict
from typing import Any

import click

from acker.cli.context import Context, command, user

NOTHING_PASSED = 3  # the exit code


@command
@click.option("--limit", type=click.IntRange(min=0), help="Read at most so many new messages.")
@click.option("--drain", is_flag=True, help="Repeat until nothing is left to read, replay or wait for.")
def run(context: Context, limit: int | None, drain: bool) -> None:
    """Run one cycle: replay due messages, read new ones, run every bolt, fold, publish.

    Exit code 3 says that new messages failed, and that no message was acked or is still in flight.
    """
    from acker.cli import rendering as render
    from acker.core.snapshot.journal import Journal
    from acker.core.snapshot.ledger import newest_fold
    from acker.core.snapshot.settled import nothing_passed
    from acker.operations import cycle
    from acker.reports.failures import commonest_failures
    from acker.reports.held_back import all_held_back
    from acker.reports.sources import changed, gone, left_out, never_read, source_backlogs
    from acker.topology.advice import advice

    if not context.as_json:
        render.advice(advice(context.topology))
    before = newest_fold(context.store)
    after = before.number if before else 0
    with context.running("made") as running:
        if drain:
            result: dict[str, Any] = {"cycles": cycle.drain(running, limit)}
        else:
            result = asdict(cycle.run_cycle(running, limit))
    journal = Journal(context.store, context.topology.roles)
    failed = commonest_failures(journal, after, journal.fold.number if journal.fold else 0)
    sources = source_backlogs(context.topology, journal)
    held = all_held_back(context.topology, journal)

    def rendered() -> None:
        render.advice(never_read(sources, journal))
        render.left_out(left_out(sources))
        render.changed(changed(sources))
        render.gone(gone(sources))
        render.held_back(held)
        render.failed(context.topology.name, failed)
        render.pairs(result)

    failures = [{**asdict(each), "sample": str(each.sample)} for each in failed.commonest]
    context.print({**result, "failed": failed.count, "failures": failures, "held_back": held}, rendered)
    if nothing_passed(journal.fold, after):
        sys.exit(NOTHING_PASSED)


@command
def fold(context: Context) -> None:
    """Run the acker once."""
    from acker.cli import rendering as render
    from acker.core.snapshot.ledger import fold_counts
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


@command
@click.argument("bolt")
@click.option("--why", required=True, help="Becomes part of the reason of each message that fails.")
@click.option("--requested-by", default=None, help="Becomes part of it too; you by default.")
def give_up(context: Context, bolt: str, why: str, requested_by: str | None) -> None:
    """Fail the messages of the batch that BOLT has left unfinished, so that it goes on after it.

    The messages are replayed or become dead letters, as the retry policy says. It needs no Spark.
    """
    from acker.batches.batch import give_up as give_up_batch
    from acker.cli import rendering as render

    component = context.topology.component(bolt)
    with context.running() as running:
        batch = give_up_batch(running, component, f"given up by {requested_by or user()}: {why}")
    result = {"component": bolt, "batch": batch.number}
    context.print(
        result,
        lambda: render.line(f"{bolt} batch {batch.number} is given up; the next fold fails its messages."),
    )


@command
@click.option("--fold", type=int, help="The fold that you have looked at, as `acker failures` shows it.")
@click.option("--why", default="", help="Kept in acknowledgements.")
@click.option("--by", "who", default=None, help="Kept in acknowledgements; you by default.")
def acknowledge(context: Context, fold: int | None, why: str, who: str | None) -> None:
    """Say that you know of the messages that were given up in the folds up to --fold.

    These are dead letters and lost messages. The DAG `<topology>.monitor` fails for them until somebody says
    so. Messages that are given up in later folds stay unacknowledged. It needs no Spark.
    """
    from acker.cli import rendering as render
    from acker.operations.acknowledge import acknowledge as acknowledge_all

    with context.running() as running:
        upto = acknowledge_all(running, fold, who or user(), why)
    context.print(
        {"fold": upto}, lambda: render.line(f"What was given up is acknowledged up to fold {upto}.")
    )
