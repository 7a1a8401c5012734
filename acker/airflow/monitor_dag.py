"""`<topology>.monitor`: tells an operator what is late, has become too much, is broken, or was given up."""

from datetime import timedelta
from typing import Any

from airflow.sdk import DAG, CronTriggerTimetable, get_current_context, task
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from acker.airflow.wiring import SETTINGS, dag_of
from acker.runtime.manifest import Manifest


def build(manifest: Manifest) -> DAG:
    """The DAG of one topology."""
    schedule = CronTriggerTimetable(SETTINGS.monitor_schedule, timezone="UTC")
    with dag_of(manifest, "monitor", schedule) as dag:
        _check_task(manifest) >> _stands_task(manifest)
    return dag


def _check_task(manifest: Manifest) -> Any:
    @task(
        retries=0,
        execution_timeout=timedelta(minutes=20),
        doc_md="Fails when there is something new to tell, succeeds when something is over, else is skipped.",
    )
    def check() -> str:
        from acker.airflow import alarms

        news = alarms.look(manifest.name, get_current_context()["run_id"])
        if news.is_alarm:
            raise AirflowFailException(str(news))
        if not news.over:
            raise AirflowSkipException("There is nothing new to tell.")
        return str(news)

    return check()


def _stands_task(manifest: Manifest) -> Any:
    @task(
        retries=0,
        trigger_rule="all_done",
        doc_md="Fails for as long as something is late, too much, broken, or was given up.",
    )
    def stands() -> None:
        from acker.airflow import alarms

        found = alarms.standing(manifest.name, get_current_context()["run_id"])
        if found:
            raise AirflowFailException("\n".join(found))

    return stands()
