"""`<topology>.acker`: the periodic fold, which decides what became of each message."""

from typing import Any

from airflow.sdk import DAG, task
from airflow.sdk.exceptions import AirflowSkipException

from acker.airflow.wiring import SETTINGS, dag_of, due, events, ledger, report, schedule_of
from acker.runtime.manifest import Manifest


def build(manifest: Manifest) -> DAG:
    """The DAG of one topology."""
    schedule = schedule_of(manifest, "acker", SETTINGS.acker_schedule, events(manifest))
    with dag_of(manifest, "acker", schedule) as dag:
        counts = _fold_task(manifest)
        _due_task(manifest, counts)
    return dag


def _fold_task(manifest: Manifest) -> Any:
    @task(outlets=[ledger(manifest)], doc_md="Decides what became of each message. It needs no Spark.")
    def fold() -> dict[str, int]:
        from acker.airflow import tasks

        return report(tasks.fold(tasks.open_run(manifest.name)))

    return fold()


def _due_task(manifest: Manifest, counts: Any) -> Any:
    @task(task_id="due", outlets=[due(manifest)], doc_md=f"Starts `{manifest.name}.retry` if there are any.")
    def are_due(counts: dict[str, int]) -> dict[str, int]:
        if not counts["due"]:
            raise AirflowSkipException("No message is due.")
        return report({"due": counts["due"]})

    return are_due(counts)
