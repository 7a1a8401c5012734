"""The commands that say how a topology stands, without Spark: `audit`, `status`, `trace`."""

import sys
from dataclasses import asdict
from datetime import UTC, datetime

import click

from acker.cli.context import Context, command

FAILED = 1  # the exit code


@command
def audit(context: Context) -> None:
    """Judge whether anything is lost, unexpected or duplicated."""
    from acker.cli import rendering as render
    from acker.reports.audit import audit_json, audit_report

    result = audit_report(context.topology, context.store)
    context.print(audit_json(result), lambda: render.audit(result))
    if not result.passed:
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
def trace(context: Context, message: str) -> None:
    """Tell one message's story; MESSAGE is SPOUT:PARTITION:OFFSET."""
    from acker.cli import rendering as render
    from acker.reports.trace import trace_report

    entries = trace_report(context.topology, context.store, message)
    context.print([asdict(entry) for entry in entries], lambda: render.trace(message, entries))
