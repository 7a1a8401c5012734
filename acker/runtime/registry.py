"""Finding a topology by its import string or, where it is registered, by its name."""

import importlib

from pyspark import cloudpickle

from acker.core.errors import AckerError, TopologyError
from acker.runtime.imports import search_current_folder
from acker.runtime.settings import Settings
from acker.topology.topology import Topology


def load_topology(name: str, settings: Settings) -> Topology:
    """The topology, validated.

    Args:
        name: `package.module:attribute`, or the name of a registered topology.

    Raises:
        TopologyError: it cannot be imported, is not registered, or is not a topology.
    """
    if ":" in name:
        return _import(name)
    registered = {}
    for text in settings.topologies:
        topology = _import(text)
        registered[topology.name] = topology
    if name not in registered:
        known = ", ".join(sorted(registered)) or "none"
        raise TopologyError(
            f"No topology is called {name}; registered are: {known}. "
            "Give its import string, package.module:attribute, instead of the name, or add that string to "
            "PIPELINE_TOPOLOGIES or to [tool.acker] of pyproject.toml in the current folder."
        )
    return registered[name]


def _import(text: str) -> Topology:
    module_name, _, attribute = text.partition(":")
    search_current_folder()
    try:
        module = importlib.import_module(module_name)
    except AckerError:
        raise
    except (Exception, SystemExit) as error:  # a module may be a program that ends
        raise TopologyError(
            f"{text} does not import: {type(error).__name__}: {error}. "
            f'`python -c "import {module_name}"` shows where.'
        ) from error
    topology = getattr(module, attribute, None)
    if not isinstance(topology, Topology):
        found = "nothing" if topology is None else type(topology).__name__
        raise TopologyError(f"{text} is {found} and not a Topology.")
    topology.validate()
    # Functions of the topology's module travel to Spark's workers whole: those may not find the module.
    cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]
    return topology
