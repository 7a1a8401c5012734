"""`<topology>.monitor`: tells an operator what is late, has become too much, or was given up."""

from datetime import timedelta
from typing import Any

from airflow.sdk import DAG, CronTriggerTimetable, task
from airflow.sdk.exceptions import AirflowFailException

from acker.airflow.wiring import SETTINGS, dag_of
from acker.runtime.manifest import Manifest

DOC = """\
Looks how `{name}` stands, apart from all that does its work: a task that hangs cannot stop it. `check` fails
at each look for as long as something lasts: dead letters that nobody has acknowledged, a batch that is held
or not done, events that are not folded, a fold that is not published, messages that do not settle, a long
backlog, a full disk.

**When `check` fails** its message says what is wrong, and which page says what to do.
"""


def build(manifest: Manifest) -> DAG:
    """The DAG of one topology."""
    schedule = CronTriggerTimetable(SETTINGS.monitor_schedule, timezone="UTC")
    with dag_of(manifest, "monitor", schedule, DOC.format(name=manifest.name)) as dag:
        _check_task(manifest)
    return dag


def _check_task(manifest: Manifest) -> Any:
    @task(
        retries=0,
        execution_timeout=timedelta(minutes=10),
        doc_md="Fails for as long as something is late, too much, or was given up.",
    )
    def check() -> None:
        from acker.airflow import tasks

        warnings = tasks.health_warnings(manifest.name)
        if warnings:
            raise AirflowFailException(" ".join(warnings))

    return check()
