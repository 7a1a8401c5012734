"""The command `server`."""

import os
import sys

import click

from acker.runtime.settings import Settings

_NONE = 1  # the exit code where no server runs


@click.command()
@click.argument("action", type=click.Choice(["start", "run", "stop", "status"]))
@click.option("--port", type=click.IntRange(1, 65535), help="Of a new server; a free one by default.")
def server(action: str, port: int | None) -> None:
    """Start, stop or find the Spark Connect server; commands that need it start it themselves.

    `run` starts the server and stays, as a supervisor wants it. When `run` is told to end, it ends the
    server.
    """
    from acker.runtime.server import process as servers

    settings = Settings.from_env()
    os.umask(settings.umask)
    if action == "run":
        from acker.runtime.server.sessions import serve

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
        sys.exit(0 if found else _NONE)
