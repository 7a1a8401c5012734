"""Parts that the commands of a topology share: its argument, `--json`, and the `Context` that they get.

Modules that take long to import are imported when a command runs: `acker run -h` needs neither Spark nor a
table.
"""

import getpass
import json
import os
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import datetime
from functools import cache
from typing import TYPE_CHECKING, Any, Literal

import click

from acker.core.errors import InTheWay
from acker.core.quoting import printable
from acker.runtime.settings import Settings

_TRIES = 3  # as many as a task has
_CONFLICT = "2D521"  # the SQLSTATE of all errors of Delta that say so

if TYPE_CHECKING:
    from acker.batches.run import Run
    from acker.core.store.lease import Lease
    from acker.core.store.sightings import Sightings


class Context:
    """The context of a command: the settings, the topology, its store, and the format of its output."""

    def __init__(self, topology: str, as_json: bool) -> None:
        from acker.core.store.store import Store
        from acker.runtime.registry import load_topology

        self.settings = Settings.from_env()
        os.umask(self.settings.umask)
        self.topology = load_topology(topology, self.settings)
        self.store = Store(self.settings.store, self.topology.name)
        self.as_json = as_json
        self.call_id = uuid.uuid4().hex  # that of each try

    def print(self, value: Any, rendered: Callable[[], None]) -> None:
        """Print a result as JSON or for people."""
        if self.as_json:
            click.echo(json.dumps(value, default=_plain, indent=2))
        else:
            rendered()

    @contextmanager
    def running(self, new: Literal["refused", "made", "beside others"] = "refused") -> Iterator["Run"]:
        """A run with a progress bar, and with a Spark session once it needs one.

        Args:
            new: whether a store that does not exist yet is made. "made": only where no other store has
                published to its targets. "beside others": in any case.

        Raises:
            StoreError: the store does not exist, and may not be made.
        """
        from acker.cli.progress import ProgressReport
        from acker.core.store.schemas import LEDGER
        from acker.runtime.opening import open_run
        from acker.runtime.printed import PrintedLines

        with ExitStack() as stack:
            stack.callback(self._tell_of_server)

            @cache  # that of the run and of the acker's tasks are one
            def session() -> Any:
                from acker.runtime.server.sessions import connect

                spark = connect(self.settings)
                stack.callback(spark.stop)
                return spark

            if new == "refused" and not self.lease().read().closed:  # else the lease says what to do
                self.store.require(LEDGER)
            printed = PrintedLines(self.settings, self.topology.name).new
            report = stack.enter_context(ProgressReport(self.topology, self.as_json, printed))
            yield open_run(
                self.topology,
                self.store,
                self.settings,
                session,
                report,
                announced=self._announce if new == "made" else None,
            )

    def _announce(self, sentence: str) -> None:
        if not self.as_json:
            click.echo(sentence, err=True)

    def lease(self) -> "Lease":
        """The lease of the store: the right of this deployment to work on the store."""
        from acker.runtime.opening import lease_of

        return lease_of(self.settings, self.store)

    @property
    def sightings(self) -> "Sightings":
        """The record of the leases that this deployment has seen, and since when."""
        from acker.runtime.deployment import sightings_of

        return sightings_of(self.settings)

    def _tell_of_server(self) -> None:
        from acker.runtime.server.process import is_left_running

        if not self.as_json and is_left_running(self.settings):
            click.echo(
                "A Spark server keeps running for the next command; `acker server stop` ends it.", err=True
            )


def user() -> str:
    """The name of the user who calls, or the number where the system has no name, as in a container."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())


def is_in_the_way(error: Exception) -> bool:
    """Whether an error says that another commit came first, also in a table that Spark writes."""
    if isinstance(error, InTheWay):
        return True
    state = getattr(error, "getSqlState", lambda: None)()  # of Spark's errors, which nobody imports for it
    return state == _CONFLICT


def _first_line(error: Exception) -> str:
    return printable(str(error).partition("\n")[0])


def _plain(value: Any) -> str:
    return value.isoformat() if isinstance(value, datetime) else str(value)


def command(function: Callable[..., None]) -> click.Command:
    """A command that takes a topology and --json; its function takes a `Context` first.

    Where another commit, such as a compaction's, is in the way of the function, the function is called again.
    It then resumes its work, as a task does that Airflow tries again.
    """

    def run(topology: str, as_json: bool, **options: Any) -> None:
        context = Context(topology, as_json)
        for _ in range(_TRIES - 1):
            try:
                return function(context, **options)
            except Exception as error:
                if not is_in_the_way(error):
                    raise
                click.echo(f"Another commit was in the way. Trying again … ({_first_line(error)})", err=True)
        return function(context, **options)

    run.__name__ = function.__name__
    run.__doc__ = function.__doc__
    run.__click_params__ = getattr(function, "__click_params__", [])  # type: ignore[attr-defined]
    wrapped = click.option("--json", "as_json", is_flag=True, help="Print JSON.")(run)
    return click.command()(click.argument("topology")(wrapped))
