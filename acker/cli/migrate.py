"""`acker migrate`: a store of an older version becomes one of this version."""

import click

from acker.cli.context import Context, command


@command
@click.option("--dry-run", is_flag=True, help="Only tell what would be done.")
def migrate(context: Context, dry_run: bool) -> None:
    """Bring a store that an older version wrote up to this one's format.

    Stop the topology's DAGs and commands before. A migration that was interrupted is run again.
    """
    from acker.core.store import formats
    from acker.core.store.schemas import FORMAT

    folder, topology = context.store.path("").rstrip("/"), context.topology.name
    found = [*formats.pending_migrations(folder, topology)]
    if found and not dry_run:
        context.lease().hold()
        found = formats.migrate(folder, topology)

    def rendered() -> None:
        for each in found:
            click.echo(f"would migrate {each}" if dry_run else f"migrated {each}")
        if not found:
            click.echo(f"Nothing to do: {folder} has format {FORMAT}, or is not there yet.")

    tables = [{"table": each.table, "from": each.found, "columns": list(each.columns)} for each in found]
    context.print({"format": FORMAT, "dry_run": dry_run, "migrated": tables}, rendered)
