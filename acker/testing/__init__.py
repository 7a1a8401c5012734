"""Tests of an author's bolts and topologies: the product's real code on literal rows, in a temporary store.

from acker.testing import run_bolt, run_topology

Each name is loaded when it is first used, since pytest imports this package in every run.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from acker.testing.results import BoltResult, Failure, TopologyResult
    from acker.testing.runs import run_bolt, run_topology

_MODULES = {
    "run_bolt": "acker.testing.runs",
    "run_topology": "acker.testing.runs",
    "BoltResult": "acker.testing.results",
    "TopologyResult": "acker.testing.results",
    "Failure": "acker.testing.results",
}

__all__ = ["BoltResult", "Failure", "TopologyResult", "run_bolt", "run_topology"]


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'acker.testing' has no attribute {name!r}; it has {', '.join(__all__)}")
    value = getattr(import_module(_MODULES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
