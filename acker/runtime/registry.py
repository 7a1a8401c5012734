"""Finding a topology by its import string or, where it is registered, by its name."""

import importlib
from dataclasses import dataclass
from types import ModuleType

from pyspark import cloudpickle

from acker.components.sending import check_sent
from acker.core.errors import AckerError, TopologyError
from acker.core.names import did_you_mean, found_by
from acker.core.paths import is_within
from acker.runtime.imports import search_current_folder
from acker.runtime.manifest import last_manifest, more_than_one
from acker.runtime.settings import Settings
from acker.topology.topology import Topology


@dataclass(frozen=True)
class Registered:
    """A registered import string and its topology. `fault` says why the topology cannot be used."""

    import_string: str
    topology: Topology | None = None
    doc: str = ""  # of its module
    fault: str | None = None


def load_topology(name: str, settings: Settings) -> Topology:
    """Load a topology, and validate it.

    Args:
        name: `package.module:attribute`, or the name of a registered topology.

    Raises:
        TopologyError: the import string gives no topology, the name is not registered or belongs to several
            topologies, the topology is not valid, or it publishes into the store or to a folder around the
            store or the home.
    """
    found = _load(name, settings)
    _check_apart(found, settings)
    return found


def _check_apart(topology: Topology, settings: Settings) -> None:
    """Refuse to publish into the store, or to where a VACUUM of the table would delete the store or the home.

    Raises:
        TopologyError: a publication goes to such a place. The message says what to do.
    """
    for name, publication in topology.publications.items():
        to, store = publication.to, settings.store
        if is_within(to, store):
            where = f"which lies in the store, {store}"
        elif is_within(store, to) or is_within(str(settings.home), to):
            where = (
                f"in which the store, {store}, or PIPELINE_HOME lies: a VACUUM of the table would delete it"
            )
        else:
            continue
        raise TopologyError(f"{name} is published to {to}, {where}. Publish to a folder beside it.")


def _load(name: str, settings: Settings) -> Topology:
    if ":" in name:
        found = _import(name)[0]
        found_by(found.name, name)
        return found
    known_as = [text for text in settings.topologies if _last_name(text, settings) == name]
    if len(known_as) == 1:  # so that no other topology's module is imported, which may hang or be broken
        found = _import(known_as[0])[0]
        if found.name == name:
            found_by(name, name)
            return found
    registered = registered_topologies(settings)
    known = {each.topology.name: each.topology for each in registered if each.topology}
    if name not in known:
        faults = "".join(f" {each.fault}" for each in registered if each.topology is None)
        raise TopologyError(
            f"No topology is called {name}; registered are: {', '.join(sorted(known)) or 'none'}."
            f"{did_you_mean(name, known)} Add its import string to PIPELINE_TOPOLOGIES or pyproject.toml, "
            f"or give that string instead of the name.{faults}"
        )
    for each in registered:
        if each.topology and each.topology.name == name and each.fault:
            raise TopologyError(each.fault)
    found_by(name, name)
    return known[name]


def _last_name(text: str, settings: Settings) -> str | None:
    manifest = last_manifest(text, settings)
    return None if manifest is None else manifest.name


def registered_topologies(settings: Settings) -> list[Registered]:
    """All registered topologies, in the setting's order.

    A topology that cannot be imported has a fault, and so has one whose name an earlier one has.
    """
    found = []
    for text in settings.topologies:
        try:
            topology, module = _import(text)
        except AckerError as error:
            found.append(Registered(text, fault=str(error)))
            continue
        names = [each.topology.name for each in found if each.topology]
        fault = more_than_one(topology.name) if topology.name in names else None
        found.append(Registered(text, topology, (module.__doc__ or "").strip(), fault))
    return found


def _import(text: str) -> tuple[Topology, ModuleType]:
    module_name, _, attribute = text.partition(":")
    search_current_folder()
    try:
        module = importlib.import_module(module_name)
    except AckerError:
        raise
    except (Exception, SystemExit) as error:  # a module may be a program that ends
        hint = f'`python -c "import {module_name}"` shows where.'
        if isinstance(error, ModuleNotFoundError) and error.name == module_name.partition(".")[0]:
            hint = f"Call the command in the folder that {error.name} is in, or put that on PYTHONPATH."
        raise TopologyError(f"{text} does not import: {type(error).__name__}: {error}. {hint}") from error
    topology = getattr(module, attribute, None)
    if not isinstance(topology, Topology):
        found = "nothing" if topology is None else type(topology).__name__
        raise TopologyError(f"{text} is {found} and not a Topology. {_attributes(module, attribute)}")
    topology.validate()
    # Functions of the topology's module travel to Spark's workers whole: those may not find the module.
    cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]
    for bolt in topology.bolts:
        check_sent(bolt)
    return topology, module


def _attributes(module: ModuleType, meant: str) -> str:
    """Advice for an attribute that is no topology: the topologies in its module."""
    there = [name for name, value in vars(module).items() if isinstance(value, Topology)]
    if not there:
        return f"There is no topology in {module.__name__}; make one with topology = Topology(...)."
    listed = ", ".join(f"{module.__name__}:{name}" for name in there)
    return f"The topologies there are: {listed}.{did_you_mean(meant, there)}"
