"""The command `replay`."""

from datetime import UTC, datetime
from typing import Any

import click

from acker.cli.context import Context, command, user
from acker.cli.selecting import selecting


@command
@selecting("Choose messages by hand, by their newest state; may be given several times.")
@click.option(
    "--where", metavar="CONDITION", help="Only those whose own columns fulfil a SQL condition: \"day = '…'\"."
)
@click.option("--limit", type=click.IntRange(min=1), help="At most so many messages.")
@click.option("--why", default="", help="Kept in replay_requests.")
@click.option("--requested-by", default=None, help="Kept in replay_requests; you by default.")
@click.option("--dry-run", is_flag=True, help="Emit nothing; say what would be.")
def replay(context: Context, why: str, requested_by: str | None, dry_run: bool, **fields: Any) -> None:
    """Emit messages again: those that are due, or with --state those that you choose.

    Messages in flight are left alone. Acked messages may be chosen; their rows in published tables are
    replaced once they are acked again. `run` then takes the emitted messages through the bolts.
    """
    from acker.cli import rendering as render
    from acker.operations import replay as replays
    from acker.operations.selection.selection import Selection

    selection = Selection.parse(fields, context.topology)
    if dry_run:
        found = replays.dry_run(context.topology, context.store, selection, datetime.now(UTC))
        context.print(found.as_dict(), lambda: render.dry_run(found))
        return
    with context.running() as running:
        if selection is None:
            result = {"replayed": replays.replay_due(running)}
        else:
            who = requested_by or user()
            result = replays.replay_by_hand(running, selection, why, who, context.call_id).counts
    context.print(result, lambda: render.pairs(result))
