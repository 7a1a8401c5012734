"""The commands that look at topologies and at no store: `describe`."""

import json
import sys
from dataclasses import asdict

import click

from acker.runtime.settings import Settings


@click.command()
@click.argument("name", metavar="TOPOLOGY")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def describe(name: str, as_json: bool) -> None:
    """Show the topology's components, what each reads and where it publishes."""
    from acker.cli import rendering as render
    from acker.runtime.manifest import manifest_of
    from acker.runtime.registry import load_topology

    topology = load_topology(name, Settings.from_env())
    module = sys.modules[name.partition(":")[0]] if ":" in name else None
    manifest = manifest_of(topology, (module.__doc__ or "").strip() if module else "")
    if as_json:
        click.echo(json.dumps(asdict(manifest)))
    else:
        render.manifest(manifest)
