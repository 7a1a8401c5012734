"""`<topology>.replay`: emits messages again that a person chooses in a form."""

from typing import Any

from airflow.sdk import DAG

from acker.airflow.form import form
from acker.airflow.requested import RUNS_AT_ONCE, requested
from acker.airflow.wiring import dag_of
from acker.runtime.manifest import Manifest


def build(manifest: Manifest) -> DAG:
    """The DAG of one topology."""
    with dag_of(manifest, "replay", None, params=form(manifest), max_active_runs=RUNS_AT_ONCE) as dag:
        requested(
            manifest,
            _filled_in(manifest),
            "Records what the form selects, and asks for approval if it is much. A dry run only counts.",
        )
    return dag


def _filled_in(manifest: Manifest) -> Any:
    """A function that returns the form of a run, once it has checked that each field is known."""

    def fields(context: Any) -> Any:
        from acker.operations.selection.fields import check_known

        check_known(context["params"], form(manifest))
        return context["params"]

    return fields
