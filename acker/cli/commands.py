"""`acker COMMAND`: which commands there are, where each is defined, and how an error ends.

A command's module is imported when the command is called, so `acker --help` loads no table and no Spark.

Exit codes: 0 all is well, 1 the audit failed or no server runs, 2 an error or a wrong argument, 3 new
messages failed and none was acked or is in flight, 130 interrupted.
"""

import json
import sys
from importlib import import_module
from typing import Any, NoReturn

import click

from acker.core.error_messages import message_of
from acker.core.errors import AckerError
from acker.core.names import did_you_mean
from acker.core.quoting import printable

ERROR = 2
INTERRUPTED = 130

_LINES = "\n\t"  # in what Spark says

# Command -> its import string, and its help in one line.
COMMANDS = {
    "run": (
        "acker.cli.runs:run",
        "Run one cycle: replay what is due, read on, run every bolt, fold, publish.",
    ),
    "fold": ("acker.cli.runs:fold", "Run the acker once."),
    "publish": ("acker.cli.runs:publish", "Bring the published tables up to the newest fold."),
    "republish": ("acker.cli.standing:republish", "Publish again what a table or topic has lost."),
    "adopt": (
        "acker.cli.standing:adopt",
        "Publish to a table or topic to which another store publishes, from now on.",
    ),
    "give-up": ("acker.cli.runs:give_up", "Fail the messages of a batch that a bolt cannot finish."),
    "acknowledge": ("acker.cli.runs:acknowledge", "Say that you know of what was given up so far."),
    "replay": ("acker.cli.replays:replay", "Emit messages again: what is due, or what you choose."),
    "forget": ("acker.cli.forget:forget", "Take the reasons of messages' failures out of the store."),
    "audit": (
        "acker.cli.reports:audit",
        "Judge whether anything is lost, unexpected, doubled or overdue.",
    ),
    "status": ("acker.cli.reports:status", "Show where components, acker, publishers and sources stand."),
    "failures": (
        "acker.cli.reports:failures",
        "Show what fails: by component, reason and state, with one message each.",
    ),
    "trace": ("acker.cli.reports:trace", "Tell one message's story."),
    "show": ("acker.cli.reports:show", "Show the first rows of a published table."),
    "list": ("acker.cli.topologies:list_registered", "List the registered topologies."),
    "describe": (
        "acker.cli.topologies:describe",
        "Show the topology's components, what each reads and where it publishes.",
    ),
    "migrate": ("acker.cli.migrate:migrate", "Bring a store of an older version up to this one's format."),
    "backup": ("acker.cli.backup:backup", "Copy the store and what it has published, and audit the copy."),
    "restore": ("acker.cli.backup:restore", "Make a store of its own from a backup, in another place."),
    "move": ("acker.cli.backup:move", "Move the store to another place."),
    "server": ("acker.cli.servers:server", "Start, stop or find the Spark Connect server."),
    "init": ("acker.cli.init:init", "Make a project of your own in a new folder."),
    "setup": ("acker.cli.setup:setup", "Check Java and fetch the jars that the Spark server loads."),
}


class Commands(click.Group):
    """Imports a command when it is called, and turns every error into one message and an exit code."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names of all commands, in the order of the help."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """A command by its name; None where there is none."""
        if cmd_name not in COMMANDS:
            return None
        module, _, attribute = COMMANDS[cmd_name][0].partition(":")
        found: click.Command = getattr(import_module(module), attribute)
        return found

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command that the arguments name, and the arguments after it."""
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            ctx.fail(f"There is no command {args[0]!r}.{did_you_mean(args[0], COMMANDS)}")
        _check_filled(ctx, args)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in COMMANDS.items()])

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        """Read the arguments before the command."""
        try:
            return super().make_context(info_name, args, parent, **extra)
        except click.UsageError as error:
            _fail_usage(error)

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command."""
        try:
            return super().invoke(ctx)
        except click.UsageError as error:
            _fail_usage(error)
        except AckerError as error:
            _fail(str(error))
        except KeyboardInterrupt:
            _fail("Interrupted. What was logged stays; run the command again to go on.", INTERRUPTED)
        except (click.ClickException, click.Abort, click.exceptions.Exit, SystemExit, BrokenPipeError):
            raise
        except BaseException as error:  # a panic of a library in Rust is no Exception
            unexpected = import_module("acker.cli.unexpected")
            if _is_of_spark(error):
                _fail(f"Spark refused: {spark_message(error)} {unexpected.kept(error)}")
            _fail(unexpected.told(error))


def _is_of_spark(error: BaseException) -> bool:
    """Whether Spark raised an error. No command imports Spark only to ask."""
    spark = sys.modules.get("pyspark.errors")
    return spark is not None and isinstance(error, spark.PySparkException)


def spark_message(error: BaseException) -> str:
    """The message of an error of Spark's, or of Python in Spark's workers, as a sentence."""
    return f"{message_of(error).rstrip('. ')}."


def _fail_usage(error: click.UsageError) -> NoReturn:
    """Tell of a wrong argument, without the lines of usage that click puts before it."""
    if isinstance(error, click.exceptions.NoArgsIsHelpError):  # which is the help itself
        raise error
    told = " ".join(error.format_message().split())  # in one line, as where it lists what may be chosen
    if isinstance(error, click.MissingParameter) and error.ctx is not None:
        told = f"{told.rstrip('.')}. `acker {error.ctx.info_name} -h` says what it takes."
    _fail(told)


def _fail(message: str, code: int = ERROR) -> NoReturn:
    if "--json" in sys.argv:
        click.echo(json.dumps({"error": message}))
    else:
        click.echo(f"Error: {printable(message, keep=_LINES)}", err=True)
    sys.exit(code)


def _check_filled(ctx: click.Context, args: list[str]) -> None:
    """Refuse an argument that is there and empty: a variable that is not set would choose everything."""
    for before, each in zip(("", *args), args, strict=False):
        option, is_given, value = each.partition("=")
        if option.startswith("--") and is_given and not value.strip():
            ctx.fail(f"{option} is empty. Give it a value, or leave it out.")
        if not each.strip():
            what = before if before.startswith("-") else f"An argument of {args[0]}"
            ctx.fail(f"{what} is empty. Give it a value, or leave it out.")


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="acker", message="acker %(version)s")
def main() -> None:
    """Run pipelines whose every source message is accounted for.

    TOPOLOGY is an import string, package.module:attribute, or the name of a topology that
    PIPELINE_TOPOLOGIES registers. The store is PIPELINE_STORE.
    """
