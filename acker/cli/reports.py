"""The commands that say how a topology stands, without Spark."""

import sys
from dataclasses import asdict
from datetime import UTC, datetime

import click

from acker.cli.context import Context, command

FAILED = 1  # the exit code


@command
@click.option("--quick", is_flag=True, help="Count rows, and do not compare what they say.")
@click.option("--strict", is_flag=True, help="Fail as well where anything was not compared by what it says.")
@click.option(
    "--read-topics", is_flag=True, help="Read the topics of Kafka as well, and compare their records."
)
def audit(context: Context, quick: bool, strict: bool, read_topics: bool) -> None:
    """Judge whether anything is lost, unexpected, doubled or overdue."""
    from acker.batches.run import utc_now
    from acker.cli import rendering as render
    from acker.reports.audit import audit_json, audit_report

    before = context.settings.overdue_before(context.topology.schedule, utc_now())
    result = audit_report(context.topology, context.store, not quick, read_topics, before)
    context.print(audit_json(result), lambda: render.audit(result, strict))
    if not (result.vouches if strict else result.passed):
        sys.exit(FAILED)


@command
def status(context: Context) -> None:
    """Show where each component, the acker, each publisher and each partition of a source stand."""
    from acker.cli import rendering as render
    from acker.reports.status import status_report

    result = status_report(context.topology, context.store, datetime.now(UTC))
    context.print(result, lambda: render.status(result))


@command
@click.argument("message")
@click.option("--show", is_flag=True, help="Print the message's row of the source as well.")
def trace(context: Context, message: str, show: bool) -> None:
    """Tell one message's story; MESSAGE is SPOUT:PARTITION:OFFSET."""
    from acker.cli import rendering as render
    from acker.core.snapshot.journal import Journal
    from acker.reports.source_rows import source_rows
    from acker.reports.trace import parse_message, trace_report

    entries = trace_report(context.topology, context.store, message)
    listed = [asdict(entry) for entry in entries]
    if not show:
        context.print(listed, lambda: render.trace(message, entries))
        return
    journal = Journal(context.store, context.topology.roles)
    mine = parse_message(context.topology, journal, message)
    row = source_rows(journal, [mine])[mine]

    def rendered() -> None:
        render.trace(message, entries)
        render.source_row(mine, row)

    context.print({"entries": listed, "source": asdict(row)}, rendered)


@command
@click.option(
    "--limit", type=click.IntRange(1, 100), default=10, help="At most so many kinds, 10 by default."
)
def failures(context: Context, limit: int) -> None:
    """Show what fails: by component, reason and state, the commonest first, with the row of one message."""
    from acker.cli import rendering as render
    from acker.core.snapshot.journal import Journal
    from acker.core.store.schemas import LEDGER
    from acker.reports.failures import failures as failures_report
    from acker.reports.failures import held_batches
    from acker.reports.source_rows import source_rows

    snapshot = Journal(context.store, context.topology.roles)
    snapshot.require(LEDGER)
    found, held = failures_report(snapshot, limit), held_batches(snapshot)
    samples = source_rows(snapshot, {failure.sample for failure in found.commonest})
    fold = snapshot.fold.number if snapshot.fold else 0
    result = {"fold": fold, **asdict(found)}
    for failure, described in zip(found.commonest, result["commonest"], strict=True):
        described |= {"sample": str(failure.sample), "source": asdict(samples[failure.sample])}
    result["held"] = [asdict(hold) for hold in held]
    context.print(result, lambda: render.failures(found, samples, fold, held))


@command
@click.argument("stream")
@click.option(
    "--limit", type=click.IntRange(1, 1_000), default=20, help="At most so many rows, 20 by default."
)
def show(context: Context, stream: str, limit: int) -> None:
    """Show the first rows of a published table; STREAM is the component that publishes it."""
    from acker.cli import rendering as render
    from acker.reports.published import published_rows

    found = published_rows(context.topology, stream, limit)
    context.print(asdict(found), lambda: render.published(found))
