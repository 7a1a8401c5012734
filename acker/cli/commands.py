"""`acker COMMAND TOPOLOGY`: the commands, their arguments and what they print.

Exit codes: 0 all is well, 1 the audit failed or no server runs, 2 an error or a wrong argument, 130
interrupted.
"""

import getpass
import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

import click
from pyspark.errors import PySparkException

from acker.cli import rendering as render
from acker.cli.setup import setup
from acker.core.delta import Store
from acker.core.errors import AckerError
from acker.core.ledger import fold_counts
from acker.core.quoting import printable
from acker.operations.selection import SELECTABLE, Selection
from acker.reports.audit import audit_json, audit_report
from acker.reports.status import status_report
from acker.runtime.manifest import manifest_of
from acker.runtime.registry import load_topology
from acker.runtime.settings import Settings
from acker.topology.topology import Topology

FAILED = 1
ERROR = 2
INTERRUPTED = 130

_LINES = "\n\t"  # in what Spark says


class Context:
    """What every command needs: the settings, the topology, its store, and how to print."""

    def __init__(self, topology: str, as_json: bool) -> None:
        self.settings = Settings.from_env()
        self.topology: Topology = load_topology(topology, self.settings)
        self.store = Store(self.settings.store, self.topology.name)
        self.as_json = as_json

    def print(self, value: Any, rendered: Callable[[], None]) -> None:
        """Print a result as JSON or for people."""
        if self.as_json:
            click.echo(json.dumps(value, default=_plain, indent=2))
        else:
            rendered()

    @contextmanager
    def running(self) -> Iterator[Any]:
        """A run with a Spark session, if it comes to need one, and a progress bar."""
        # Spark's client takes a while to import, and half of the commands do without.
        from acker.batches.run import Run
        from acker.cli.progress import ProgressReport
        from acker.runtime.sessions import connect

        with ExitStack() as stack:

            def session() -> Any:
                spark = connect(self.settings)
                stack.callback(spark.stop)
                return spark

            report = stack.enter_context(ProgressReport(self.topology, quiet=self.as_json))
            self.store.create()
            yield Run(self.topology, self.store, session, on_step=report)


def _plain(value: Any) -> str:
    return value.isoformat() if isinstance(value, datetime) else str(value)


def _user() -> str:
    """Who calls; by number where the system has no name, as in a container."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())


class Commands(click.Group):
    """Turns every error into one message and an exit code."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command."""
        try:
            return super().invoke(ctx)
        except AckerError as error:
            _fail(str(error))
        except PySparkException as error:
            _fail(f"Spark refused: {spark_message(error)}")
        except KeyboardInterrupt:
            _fail("Interrupted. What was logged stays; run the command again to go on.", INTERRUPTED)


def spark_message(error: PySparkException) -> str:
    """What Spark says, without the traces of its insides."""
    return str(error).split("JVM stacktrace:")[0].strip()


def _fail(message: str, code: int = ERROR) -> None:
    if "--json" in sys.argv:
        click.echo(json.dumps({"error": message}))
    else:
        click.echo(f"Error: {printable(message, keep=_LINES)}", err=True)
    sys.exit(code)


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
def main() -> None:
    """Run pipelines whose every source message is accounted for.

    TOPOLOGY is an import string, package.module:attribute, or the name of a topology that
    PIPELINE_TOPOLOGIES registers. The store is PIPELINE_STORE.
    """


def command(function: Callable[..., None]) -> click.Command:
    """A command that takes a topology and --json; its function takes a `Context` first."""

    def run(topology: str, as_json: bool, **options: Any) -> None:
        function(Context(topology, as_json), **options)

    run.__name__ = function.__name__
    run.__doc__ = function.__doc__
    run.__click_params__ = getattr(function, "__click_params__", [])  # type: ignore[attr-defined]
    wrapped = click.option("--json", "as_json", is_flag=True, help="Print JSON.")(run)
    return main.command()(click.argument("topology")(wrapped))


@command
@click.option("--limit", type=click.IntRange(min=0), help="Read at most so many new messages.")
@click.option("--drain", is_flag=True, help="Repeat until nothing is left to read, replay or wait for.")
def run(context: Context, limit: int | None, drain: bool) -> None:
    """Run one cycle: replay what is due, read on, run every bolt, fold, publish."""
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
    from acker.operations.fold import fold as fold_once

    with context.running() as running:
        done = fold_once(running)
    counts = fold_counts(done)
    result = {**done.as_dict(), "counts": counts}
    context.print(result, lambda: render.pairs({"fold": done.number, **counts}))


@command
def publish(context: Context) -> None:
    """Bring the published tables up to the newest fold."""
    from acker.operations.publish import publish as publish_all

    with context.running() as running:
        result = {"commits": publish_all(running)}
    context.print(result, lambda: render.pairs(result))


@command
@click.option(
    "--state",
    "states",
    multiple=True,
    type=click.Choice([state.value for state in SELECTABLE]),
    help="Choose messages by hand, by their newest state; may be given several times.",
)
@click.option("--spout", help="Only this spout's.")
@click.option("--message", "messages", multiple=True, help="Only this one, SPOUT:PARTITION:OFFSET.")
@click.option("--since", type=click.DateTime(), help="Only those emitted at this time (UTC) or later.")
@click.option("--until", type=click.DateTime(), help="Only those emitted at this time (UTC) or earlier.")
@click.option("--reason", help="Only those whose reason contains this text.")
@click.option("--limit", type=click.IntRange(min=1), help="At most so many messages.")
@click.option("--why", default="", help="Kept in replay_requests.")
@click.option("--requested-by", default=None, help="Kept in replay_requests; you by default.")
@click.option("--dry-run", is_flag=True, help="Only count.")
def replay(context: Context, why: str, requested_by: str | None, **fields: Any) -> None:
    """Emit messages again: those that are due, or with --state those that you choose.

    Messages in flight are left alone. Acked ones may be chosen; what they published is replaced once
    they are acked again. `run` then takes the emitted messages on.
    """
    from acker.operations import replay as replays

    selection = Selection.parse(fields, context.topology)
    if selection is not None and fields["dry_run"]:
        result = asdict(replays.dry_run(context.topology, context.store, selection))
    else:
        with context.running() as running:
            if selection is None:
                result = {"replayed": replays.replay_due(running)}
            else:
                who = requested_by or _user()
                result = asdict(replays.replay_by_hand(running, selection, why, who))
    context.print(result, lambda: render.pairs(result))


@command
def audit(context: Context) -> None:
    """Judge whether anything is lost, unexpected or duplicated."""
    result = audit_report(context.topology, context.store)
    context.print(audit_json(result), lambda: render.audit(result))
    if not result.passed:
        sys.exit(FAILED)


@command
def status(context: Context) -> None:
    """Show where each component, the acker, each publisher and each source stand, and what is unread."""
    result = status_report(context.topology, context.store, datetime.now(UTC))
    context.print(result, lambda: render.status(result))


@command
@click.argument("message")
def trace(context: Context, message: str) -> None:
    """Tell one message's story; MESSAGE is SPOUT:PARTITION:OFFSET."""
    from acker.reports.trace import trace_report

    entries = trace_report(context.topology, context.store, message)
    context.print([asdict(entry) for entry in entries], lambda: render.trace(message, entries))


@main.command()
@click.argument("name", metavar="TOPOLOGY")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def describe(name: str, as_json: bool) -> None:
    """Show the topology's components, what each reads and where it publishes."""
    topology = load_topology(name, Settings.from_env())
    module = sys.modules[name.partition(":")[0]] if ":" in name else None
    manifest = manifest_of(topology, (module.__doc__ or "").strip() if module else "")
    if as_json:
        click.echo(json.dumps(asdict(manifest)))
    else:
        render.manifest(manifest)


@main.command()
@click.argument("action", type=click.Choice(["start", "run", "stop", "status"]))
@click.option("--port", type=click.IntRange(1, 65535), help="Of a new server; a free one by default.")
def server(action: str, port: int | None) -> None:
    """Start, stop or find the Spark Connect server; commands that need it start it themselves.

    `run` starts it, stays, and ends it when it is ended itself, as a supervisor wants it.
    """
    from acker.runtime import server as servers

    settings = Settings.from_env()
    if action == "run":
        from acker.runtime.sessions import serve

        serve(settings, port, lambda url: click.echo(f"Spark Connect server at {url}."))
    elif action == "start":
        started = servers.start(settings, port=port)
        click.echo(f"Spark Connect server at {started.url}, process {started.pid}.")
    elif action == "stop":
        click.echo("Stopped." if servers.stop(settings) else "No server runs.")
    else:
        found = servers.find(settings)
        click.echo(
            f"Spark Connect server at {found.url}, process {found.pid}." if found else "No server runs."
        )
        sys.exit(0 if found else FAILED)


main.add_command(setup)
