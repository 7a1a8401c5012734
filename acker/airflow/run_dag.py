"""`<topology>.run`: the spouts, then the bolts in the topology's own order and branches, then publish."""

from typing import Any

from airflow.sdk import DAG, AssetOrTimeSchedule, CronTriggerTimetable, task
from airflow.sdk.exceptions import AirflowFailException

from acker.airflow.wiring import (
    SETTINGS,
    dag_of,
    events,
    is_last_try,
    published,
    replayed,
    spark_task,
)
from acker.runtime.manifest import ComponentManifest, Manifest

DOC = """\
{doc}

Runs every component once over what there is: each task takes up the batch that an earlier run left, or
plans the next. A task that finds nothing is skipped. What the acker has found complete is published last.

**When a task fails** it is tried again and resumes its batch. After the last try a bolt's batch is given
up: its messages fail with the task's error as the reason, and are replayed. `check` fails when the acker
is late or too many messages are in flight; it holds nothing up.

`acker status {name}` shows where each component stands.
"""


def build(manifest: Manifest) -> DAG:
    """The DAG of one topology."""
    schedule = AssetOrTimeSchedule(
        timetable=CronTriggerTimetable(SETTINGS.run_schedule, timezone="UTC"), assets=[replayed(manifest)]
    )
    with dag_of(manifest, "run", schedule, DOC.format(doc=manifest.doc, name=manifest.name)) as dag:
        tasks = {component.name: _component_task(manifest, component) for component in manifest.components}
        for component in manifest.components:
            for upstream in component.inputs:
                tasks[upstream] >> tasks[component.name]
            for stream in manifest.published_by(component.name):
                tasks[component.name] >> _publish_task(manifest, stream)
        _check_task(manifest)
    return dag


def _component_task(manifest: Manifest, component: ComponentManifest) -> Any:
    def step(spark: Any) -> dict[str, int]:
        from acker.airflow import tasks

        run = tasks.open_run(manifest.name, spark)
        if component.inputs:
            return tasks.run_bolt(run, component.name, is_last_try())
        return tasks.read_source(run, component.name)

    return spark_task(
        component.name,
        step,
        outlets=[events(manifest)],
        # A spout that found nothing is skipped, and the bolts still take what an earlier run left them.
        trigger_rule="none_failed",
        doc_md=component.doc,
    )


def _publish_task(manifest: Manifest, stream: str) -> Any:
    def step(spark: Any) -> dict[str, int]:
        from acker.airflow import tasks

        return tasks.publish(tasks.open_run(manifest.name, spark), stream)

    return spark_task(
        f"publish_{stream}",
        step,
        outlets=[published(manifest, stream)],
        trigger_rule="none_failed",
        doc_md=f"Appends what the acker has found complete to `{manifest.tables[stream]}`.",
    )


def _check_task(manifest: Manifest) -> Any:
    @task(retries=0, doc_md="Fails when the acker is late or too many messages are in flight.")
    def check() -> None:
        from acker.airflow import tasks

        warnings = tasks.health_warnings(manifest.name)
        if warnings:
            look = f"Look further with `acker status {manifest.name}`."
            raise AirflowFailException(" ".join([*warnings, look]))

    return check()
