"""`<topology>.maintain`: deletes rows and files that nobody needs, makes small files fewer, and audits."""

from collections.abc import Callable
from typing import Any

from airflow.sdk import DAG, CronTriggerTimetable, task
from airflow.sdk.exceptions import AirflowFailException

from acker.airflow.wiring import SETTINGS, dag_of, spark_task
from acker.runtime.manifest import Manifest

AUDIT_PAGE = "docs/how-to/alerts.md#audit"


def build(manifest: Manifest) -> DAG:
    """The DAG of one topology."""
    schedule = CronTriggerTimetable(SETTINGS.maintain_schedule, timezone="UTC")
    with dag_of(manifest, "maintain", schedule) as dag:
        (
            _maintain_task(manifest, "trim")
            >> _maintain_task(manifest, "compact")
            >> _maintain_task(manifest, "vacuum")
        )
        _audit_task(manifest)
    return dag


def _audit_task(manifest: Manifest) -> Any:
    @task(
        retries=0,
        doc_md="Judges whether anything is lost, unexpected, duplicated or overdue.",
    )
    def audit() -> None:
        from acker.airflow import tasks

        wrong = tasks.audit(manifest.name)
        if wrong:
            raise AirflowFailException(
                f"The audit of {manifest.name} fails: {', '.join(wrong)}. `acker audit {manifest.name}` "
                f"lists them. See {AUDIT_PAGE}."
            )

    return audit()


def _maintain_task(manifest: Manifest, name: str) -> Any:
    def step(connect: Any) -> dict[str, int]:
        from acker.airflow import tasks

        work: Callable[[Any], dict[str, int]] = getattr(tasks, name)
        return work(tasks.open_run(manifest.name, connect))

    return spark_task(name, step)
