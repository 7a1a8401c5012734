"""The manifest of a registered topology, from which a scheduler draws task graphs without importing it.

A topology imports Spark and all that its bolts need, too much for a process that reads DAG files every
few seconds. So its manifest is described by a process of its own, and kept below `PIPELINE_HOME` until the
topology's module changes.
"""

import hashlib
import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from acker.core.errors import TopologyError
from acker.core.stream_names import component_of
from acker.runtime.imports import search_current_folder
from acker.runtime.settings import Settings

if TYPE_CHECKING:
    from acker.components.base import Component
    from acker.topology.topology import Publication, Topology


_DESCRIBE_SECONDS = 25  # less than Airflow lets a DAG file take


@dataclass(frozen=True)
class ComponentManifest:
    """A spout or a bolt: its name, its place in the graph, and its docstring."""

    name: str
    inputs: tuple[str, ...]  # none on a spout
    doc: str
    columns: Mapping[str, str] = field(default_factory=dict)  # of a spout: column -> type, where known


@dataclass(frozen=True)
class Manifest:
    """A topology without its functions."""

    name: str
    doc: str
    max_pending: int | None
    components: tuple[ComponentManifest, ...]  # each after those that it reads
    tables: dict[str, str]  # published stream -> path or URI of the table that it publishes to
    schedule: str | tuple[str, ...] | None = None  # a cron expression or preset; assets; the deployment's
    one_task: bool = False  # whether all components run in one task
    reprocess_by: str | None = None  # the column in which messages say their day; None: that of the emission

    @property
    def spouts(self) -> list[ComponentManifest]:
        """The components that read a source."""
        return [component for component in self.components if not component.inputs]

    @property
    def bolts(self) -> list[ComponentManifest]:
        """The components that read streams."""
        return [component for component in self.components if component.inputs]

    def published_by(self, component: str) -> list[str]:
        """The streams of a component that are published."""
        return [stream for stream in self.tables if component_of(stream) == component]


def manifest_of(topology: "Topology", doc: str = "") -> Manifest:
    """The manifest of a topology; `doc` describes it to people."""
    components = tuple(
        ComponentManifest(c.name, c.upstreams, c.doc, _columns_of(c)) for c in topology.order()
    )
    tables = {stream: _place(topology.name, each) for stream, each in topology.publications.items()}
    return Manifest(
        topology.name,
        doc,
        topology.max_pending,
        components,
        tables,
        topology.schedule,
        topology.one_task,
        topology.reprocess_by,
    )


def _columns_of(component: "Component") -> dict[str, str]:
    from acker.spouts.base import TellsColumns  # which imports Spark

    source = getattr(component, "source", None)
    return source.message_columns() if isinstance(source, TellsColumns) else {}


def _place(topology: str, publication: "Publication") -> str:
    """The place of a publication, which no other one shares, since Airflow has one asset for each URI."""
    shared = publication.target.takes_several
    return f"{publication.to}?stream={topology}.{publication.stream}" if shared else publication.to


@dataclass(frozen=True)
class Registered:
    """The registered topologies, in the setting's order.

    Args:
        manifests: the manifests of the topologies, without those whose manifest cannot be made.
        broken: the last known manifest of each topology whose manifest can no longer be made, with the fault.
        faults: the faults of the topologies, one sentence or more each. A manifest cannot be made, or several
            topologies have one name.
    """

    manifests: Sequence[Manifest]
    broken: Sequence[tuple[Manifest, str]]
    faults: Sequence[str]


def registered_manifests(settings: Settings) -> Registered:
    """The manifests of the registered topologies, and the faults of those that have none or share a name."""
    manifests: dict[str, Manifest] = {}
    broken: dict[str, tuple[Manifest, str]] = {}
    faults = []
    for text in settings.topologies:
        try:
            manifest = _kept_manifest(text, settings)
        except TopologyError as error:
            faults.append(str(error))
            if (last := last_manifest(text, settings)) is not None:
                broken.setdefault(last.name, (last, str(error)))
            continue
        if manifest.name in manifests:
            faults.append(more_than_one(manifest.name))
        manifests.setdefault(manifest.name, manifest)
    return Registered(
        [*manifests.values()], [each for name, each in broken.items() if name not in manifests], faults
    )


def more_than_one(name: str) -> str:
    """The message about a name that several registered topologies have."""
    return f"PIPELINE_TOPOLOGIES has more than one topology called {name}; rename one."


def _kept_manifest(import_string: str, settings: Settings) -> Manifest:
    kept = settings.home / "manifests" / f"{fingerprint(import_string)}.json"
    try:
        return _from_json(json.loads(kept.read_text()))
    except FileNotFoundError:
        described = _describe(import_string)
    kept.parent.mkdir(parents=True, exist_ok=True)
    for file in (kept, _last(import_string, settings)):
        draft = file.with_suffix(f".{os.getpid()}")
        draft.write_text(json.dumps(described))
        draft.replace(file)
    return _from_json(described)


def last_manifest(import_string: str, settings: Settings) -> Manifest | None:
    """The manifest of a topology when it could last be described; None where none is kept."""
    try:
        return _from_json(json.loads(_last(import_string, settings).read_text()))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _last(import_string: str, settings: Settings) -> Path:
    key = hashlib.sha256(import_string.encode()).hexdigest()[:32]
    return settings.home / "manifests" / f"last-{key}.json"


def fingerprint(import_string: str) -> str:
    """A hash that changes with the topology's module file, and with the variables `PIPELINE_*`.

    Raises:
        TopologyError: there is no such module.
    """
    module = import_string.partition(":")[0]
    search_current_folder()
    try:
        spec = importlib.util.find_spec(module)
    except ImportError:
        spec = None
    if spec is None or spec.origin is None:
        raise TopologyError(
            f"{import_string} does not import: there is no module {module}. "
            "Mend PIPELINE_TOPOLOGIES, or put the module's folder on PYTHONPATH."
        )
    environment = sorted((k, v) for k, v in os.environ.items() if k.startswith("PIPELINE_"))
    parts = [import_string, spec.origin, Path(spec.origin).stat().st_mtime_ns, environment]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:32]


def _describe(import_string: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "acker", "describe", import_string, "--json"]
    path = os.pathsep.join(each or os.getcwd() for each in sys.path)
    environ = os.environ | {"PYTHONPATH": path}
    try:
        done = subprocess.run(command, capture_output=True, text=True, env=environ, timeout=_DESCRIBE_SECONDS)
    except subprocess.TimeoutExpired:
        raise TopologyError(
            f"{import_string} does not import within {_DESCRIBE_SECONDS} s. Let its module do nothing but "
            "define the topology."
        ) from None
    try:
        described: dict[str, Any] = json.loads(done.stdout)
    except ValueError:
        raise TopologyError(f"{import_string} cannot be described: {done.stderr.strip()}") from None
    if "error" in described:
        raise TopologyError(described["error"])
    return described


def _from_json(described: dict[str, Any]) -> Manifest:
    components = tuple(
        ComponentManifest(c["name"], tuple(c["inputs"]), c["doc"], c.get("columns", {}))
        for c in described["components"]
    )
    schedule = described.get("schedule")
    assets = tuple(schedule) if isinstance(schedule, list) else schedule
    return Manifest(**{**described, "components": components, "schedule": assets})
