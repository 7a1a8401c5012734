"""The commands that look at topologies and at no store: `list`, `describe`."""

import json
import sys
from dataclasses import asdict

import click

from acker.runtime.settings import Settings


@click.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def list_registered(as_json: bool) -> None:
    """List the topologies that PIPELINE_TOPOLOGIES registers, each with its description or its fault."""
    from acker.cli import rendering as render
    from acker.runtime.registry import registered_topologies

    listed = [
        {
            "name": each.topology.name if each.topology else None,
            "import_string": each.import_string,
            "doc": each.doc.partition("\n")[0],
            "fault": each.fault,
        }
        for each in registered_topologies(Settings.from_env())
    ]
    if as_json:
        click.echo(json.dumps(listed, indent=2))
    else:
        if listed:
            render.registered(listed)
        else:
            render.line(
                "No topology is registered. Add import strings, package.module:attribute, to "
                "PIPELINE_TOPOLOGIES or pyproject.toml, or give a command one in place of a name."
            )


@click.command()
@click.argument("name", metavar="TOPOLOGY")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def describe(name: str, as_json: bool) -> None:
    """Show the topology's components, each with its inputs and the tables that it publishes to."""
    from acker.cli import rendering as render
    from acker.runtime.manifest import manifest_of
    from acker.runtime.registry import load_topology
    from acker.topology.advice import advice

    topology = load_topology(name, Settings.from_env())
    module = sys.modules[name.partition(":")[0]] if ":" in name else None
    manifest = manifest_of(topology, (module.__doc__ or "").strip() if module else "")
    if as_json:
        click.echo(json.dumps(asdict(manifest)))
    else:
        render.manifest(manifest)
        render.advice(advice(topology))
