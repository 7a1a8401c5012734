"""`acker backup`, `restore` and `move`: copies of a store that can be relied on."""

import sys
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from acker.cli.context import Context, command

if TYPE_CHECKING:
    from acker.core.snapshot.verdict import Audit

FAILED = 1  # the exit code: the audit of the copy does not pass


@command
@click.argument("to", metavar="FOLDER")
def backup(context: Context, to: str) -> None:
    """Copy the store and the published Delta tables to FOLDER, a path or URI, and audit the copy.

    Everything may run meanwhile. Give each backup a folder of its own. One that was interrupted goes on when
    it is run again. Exit code 1 says that the audit of the copy does not pass. It needs no Spark.
    """
    from acker.batches.run import utc_now
    from acker.core.paths import absolute
    from acker.operations.maintenance.backup import as_json, back_up, store_in, topology_in
    from acker.operations.maintenance.upkeep import noted_if_raised
    from acker.reports.audit import audit_report

    folder, topology = absolute(to), context.topology
    found = back_up(topology, context.store, folder, utc_now, context.sightings)
    with noted_if_raised(context.store, "backup"):
        judged = audit_report(topology_in(folder, topology), store_in(folder, topology))
        found = replace(found, verdict=judged.verdict)
        found.write(folder)
    _note(context, judged)

    def rendered() -> None:
        for name, each in {**found.tables, **found.published}.items():
            click.echo(f"{name}: version {each.version}, {each.files:,} files, {each.bytes:,} bytes")
        for name, where in found.elsewhere.items():
            click.echo(f"not in the backup: {where}, to which {name} is published")
        click.echo(f"{folder} holds {topology.name} up to fold {found.fold}.")
        _tell(judged)

    context.print({"folder": folder, **as_json(found)}, rendered)
    _exit(judged)


def _note(context: Context, judged: "Audit") -> None:
    """Let the monitor know of a backup."""
    from acker.core.errors import AckerError
    from acker.operations.maintenance.upkeep import note

    try:
        note(context.store, "backup", None if judged.passed else "the audit of the copy does not pass")
    except AckerError as error:
        click.echo(f"The monitor does not learn of this backup: {error}", err=True)


@command
@click.argument("backup", metavar="FOLDER")
def restore(context: Context, backup: str) -> None:
    """Copy a backup to the places of the topology's store and published tables, and audit the copy.

    Nothing may be in these places yet; set PIPELINE_HOME or PIPELINE_STORE to another place. A restore that
    was interrupted goes on when it is run again. The copy is a store of its own, which goes on reading where
    the backup ended, also beside the original. It needs no Spark.
    """
    from acker.batches.run import utc_now
    from acker.core.paths import absolute
    from acker.operations.maintenance.backup import as_json
    from acker.operations.maintenance.restore import restore as copy_back
    from acker.reports.audit import audit_report

    folder = absolute(backup)
    found, lease = copy_back(context.topology, context.store, folder, utc_now)
    judged = audit_report(context.topology, context.store)
    lease.release()
    where = context.store.path("").rstrip("/")

    def rendered() -> None:
        click.echo(f"{where} is {context.topology.name} as it was at {found.taken_at}, fold {found.fold}.")
        for name, to in found.elsewhere.items():
            click.echo(f"{to} was not in the backup. {name} goes on there after fold {found.fold}.")
        _tell(judged)

    context.print({"store": where, **as_json(found), "verdict": judged.verdict}, rendered)
    _exit(judged)


@command
@click.argument("to", metavar="STORE")
@click.option("--stopped", is_flag=True, help="Nobody works on the store any more, though somebody just did.")
def move(context: Context, to: str, stopped: bool) -> None:
    """Move the store to STORE, a path or URI that PIPELINE_STORE is to name from then on.

    Stop the topology's DAGs and commands before. Published tables stay where they are. The old store stays
    too, and refuses all work; remove it when you like. A move that was interrupted goes on when it is run
    again. It needs no Spark.
    """
    from acker.batches.run import utc_now
    from acker.core.paths import absolute
    from acker.operations.maintenance.restore import move as move_all
    from acker.reports.audit import audit_report

    root = absolute(to)
    there, finish = move_all(context.topology, context.store, root, utc_now, stopped, context.sightings)
    judged = audit_report(context.topology, there)
    finish()

    def rendered() -> None:
        click.echo(f"The store is {there.path('').rstrip('/')} now. Set PIPELINE_STORE={root}.")
        _tell(judged)

    context.print({"store": root, "verdict": judged.verdict}, rendered)
    _exit(judged)


def _tell(judged: "Audit") -> None:
    counts = f"{judged.emitted:,} messages emitted, {judged.acked:,} acked"
    wrong = f"{judged.lost:,} lost, {judged.unexpected:,} unexpected, {judged.duplicated:,} duplicated"
    click.echo(f"The audit says {judged.verdict}: {counts}, {wrong}.")


def _exit(judged: "Audit") -> None:
    if not judged.passed:
        sys.exit(FAILED)
