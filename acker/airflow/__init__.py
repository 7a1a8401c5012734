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

KINDS = ("run", "acker", "retry", "replay", "reprocess", "monitor", "maintain")

log = logging.getLogger(__name__)


def dags(*kinds: str) -> "dict[str, DAG]":
    """The DAGs of the registered topologies, each under a variable name for the module that calls.

    If the manifest of a topology can no longer be made, its monitor stays, and fails with the reason: an
    import error would take the DAGs of the other topologies with it. If no earlier manifest is kept either,
    the topology has no DAG. `check_topologies`, in a file of its own, shows the reasons on Airflow's page.

    Args:
        kinds: kinds of DAGs, of `KINDS`; none: all kinds.

    Raises:
        SettingsError: a kind is not known, a setting cannot serve, or no topology is registered.
        TopologyError: no manifest of a topology can be made, and no earlier one is kept.
    """
    from importlib import import_module

    from acker.airflow.wiring import REGISTERED
    from acker.core.errors import SettingsError

    unknown = [kind for kind in kinds if kind not in KINDS]
    if unknown:
        raise SettingsError(f"There is no kind of DAG called {unknown[0]!r}; there are {', '.join(KINDS)}.")
    if not REGISTERED.manifests and not REGISTERED.broken:
        check_topologies()
        raise SettingsError(
            "No topology is registered. Set PIPELINE_TOPOLOGIES to import strings, package.module:attribute, "
            "for all of Airflow's processes."
        )
    for fault in REGISTERED.faults:
        log.error(fault)
    builders = {kind: import_module(f"acker.airflow.{kind}_dag").build for kind in kinds or KINDS}
    drawn = [(manifest, kind) for manifest in REGISTERED.manifests for kind in builders]
    drawn += [(manifest, "monitor") for manifest, _ in REGISTERED.broken if "monitor" in builders]
    return {f"{manifest.name}_{kind}": builders[kind](manifest) for manifest, kind in drawn}


def check_topologies() -> None:
    """Raise the faults of the registered topologies, for Airflow to show as a file's import error.

    Raises:
        TopologyError: the manifest of a topology cannot be made, or several topologies have one name. The
            message has each fault.
    """
    from acker.airflow.wiring import REGISTERED
    from acker.core.errors import TopologyError

    if REGISTERED.faults:
        raise TopologyError(" ".join(REGISTERED.faults))
