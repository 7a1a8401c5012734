"""The DAGs of every registered topology: the only room that imports Airflow.

A deployment's DAG folder needs one file:

    from acker.airflow import dags
    globals().update(dags())
"""

import logging
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from airflow.sdk import DAG

__all__ = ["check_topologies", "dags"]

KINDS = ("run", "acker", "retry", "replay", "monitor", "maintain")

log = logging.getLogger(__name__)


def dags(*kinds: str) -> "dict[str, DAG]":
    """The DAGs of the registered topologies, each under a name for the module that asks.

    A topology that cannot be drawn is told in the log: an import error would take the DAGs of the others with
    it. `check_topologies`, in a file of its own, shows it on Airflow's page.

    Args:
        kinds: of `KINDS`; none: all.

    Raises:
        SettingsError: a kind is not known, a setting cannot serve, or no topology is registered.
        TopologyError: none of the topologies can be drawn.
    """
    from importlib import import_module

    from acker.airflow.wiring import FAULTS, MANIFESTS
    from acker.core.errors import SettingsError

    unknown = [kind for kind in kinds if kind not in KINDS]
    if unknown:
        raise SettingsError(f"There is no kind of DAG called {unknown[0]!r}; there are {', '.join(KINDS)}.")
    if not MANIFESTS:
        check_topologies()
        raise SettingsError(
            "No topology is registered. Set PIPELINE_TOPOLOGIES to import strings, package.module:attribute, "
            "for all of Airflow's processes."
        )
    for fault in FAULTS:
        log.error(fault)
    builders = {kind: import_module(f"acker.airflow.{kind}_dag").build for kind in kinds or KINDS}
    return {
        f"{manifest.name}_{kind}": build(manifest)
        for manifest in MANIFESTS
        for kind, build in builders.items()
    }


def check_topologies() -> None:
    """Raise what is wrong with the registered topologies, for Airflow to show as a file's import error.

    Raises:
        TopologyError: naming each that cannot be drawn.
    """
    from acker.airflow.wiring import FAULTS
    from acker.core.errors import TopologyError

    if FAULTS:
        raise TopologyError(" ".join(FAULTS))
