"""The command `forget`."""

from dataclasses import asdict
from typing import Any

import click

from acker.cli.context import Context, command, user
from acker.cli.selecting import selecting
from acker.core.events import SELECTABLE


@command
@selecting("Only those whose newest state it is; may be given several times.")
@click.option("--why", required=True, help="Kept in replay_requests.")
@click.option("--requested-by", default=None, help="Kept in replay_requests; you by default.")
@click.option("--dry-run", is_flag=True, help="Change nothing; say what would be.")
def forget(context: Context, why: str, requested_by: str | None, dry_run: bool, **fields: Any) -> None:
    """Remove the reasons of chosen messages' failures from the store, since reasons may quote rows.

    Messages in flight are refused. The source, the streams until their retention, and published tables keep
    their rows: docs/how-to/personal-data.md says what to do about each. It needs no Spark.
    """
    from acker.cli import rendering as render
    from acker.core.errors import SettingsError
    from acker.core.snapshot.journal import Journal
    from acker.operations.maintenance import forget as forgetting
    from acker.operations.selection.selection import Selection

    if not any(fields.values()):
        raise SettingsError(
            "Choose what to forget: name messages with --message, or narrow by the other options."
        )
    fields["states"] = fields["states"] or tuple(state.value for state in SELECTABLE)
    selection = Selection.parse(fields, context.topology)
    assert selection is not None  # it has states
    if dry_run:
        journal = Journal(context.store, context.topology.roles)
        found = forgetting.dry_run(context.topology, journal, selection)
    else:
        with context.running() as running:
            found = forgetting.forget(running, selection, why, requested_by or user())
    hours = context.settings.file_retention_hours
    result = {"dry_run": dry_run, **asdict(found), "file_retention_hours": hours}
    context.print(result, lambda: render.forgotten(found, dry_run, hours))
