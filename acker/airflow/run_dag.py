"""`<topology>.run`: the spouts, then the bolts in the topology's own order and branches, then publish."""

from typing import Any

from airflow.sdk import DAG, AssetAll, AssetAny, task
from airflow.sdk.exceptions import AirflowFailException

from acker.airflow.wiring import (
    SETTINGS,
    awaited,
    dag_of,
    events,
    published,
    replayed,
    schedule_of,
    spark_of,
    spark_task,
    waits_for_held_batches,
)
from acker.runtime.manifest import ComponentManifest, Manifest

DOC = """\
{doc}

Runs every component once over what there is: each task takes up the batch that an earlier run left, or
plans the next. A task that finds nothing is skipped. What the acker has found complete is published last.

**When a task fails** it is tried again and resumes its batch. A bolt's batch that raises through no fault of
a row is held, and tried again later and later; no message fails for it, and the other tasks go on. `watcher`
fails with the tasks before it, so that the run does. `{name}.monitor` tells what lasts.

`acker status {name}` shows where each component stands.
"""


def build(manifest: Manifest) -> DAG:
    """The DAG of one topology."""
    with dag_of(
        manifest, "run", _schedule(manifest), DOC.format(doc=manifest.doc, name=manifest.name)
    ) as dag:
        if manifest.one_task:
            work = [_components_task(manifest)]
            tasks = {each.name: work[0] for each in manifest.components}
        else:
            tasks = {each.name: _component_task(manifest, each) for each in manifest.components}
            for component in manifest.components:
                for upstream in component.inputs:
                    tasks[upstream] >> tasks[component.name]
            work = list(tasks.values())
        for component in manifest.components:
            for stream in manifest.published_by(component.name):
                tasks[component.name] >> _publish_task(manifest, stream)
        work >> _watcher_task()
    return dag


def _schedule(manifest: Manifest) -> Any:
    """What the topology says, or else the deployment, and when a replay has emitted messages."""
    if not isinstance(manifest.schedule, tuple):
        return schedule_of(manifest, "run", manifest.schedule or SETTINGS.run_schedule, replayed(manifest))
    assets = [awaited(each) for each in manifest.schedule]
    return AssetAny(replayed(manifest), AssetAll(*assets)) if assets else [replayed(manifest)]


def _components_task(manifest: Manifest) -> Any:
    def step(connect: Any) -> dict[str, Any]:
        from acker.airflow import tasks

        return tasks.run_components(tasks.open_run(manifest.name, connect), waits_for_held_batches())

    return spark_task(
        "components", step, outlets=[events(manifest)], doc_md="Runs the spouts, and then the bolts."
    )


def _component_task(manifest: Manifest, component: ComponentManifest) -> Any:
    def step(connect: Any) -> dict[str, Any]:
        from acker.airflow import tasks

        run = tasks.open_run(manifest.name, connect)
        if component.inputs:
            return tasks.run_bolt(run, component.name, waits_for_held_batches())
        return tasks.read_source(run, component.name)

    return spark_task(
        component.name,
        step,
        spark_of(manifest, component.name),
        outlets=[events(manifest)],
        # A spout that found nothing is skipped, and a bolt may have failed. Those after it still take what
        # earlier runs left them.
        trigger_rule="all_done",
        doc_md=component.doc,
    )


def _publish_task(manifest: Manifest, stream: str) -> Any:
    def step(connect: Any) -> dict[str, int]:
        from acker.airflow import tasks

        return tasks.publish(tasks.open_run(manifest.name, connect), stream)

    return spark_task(
        f"publish_{stream}",
        step,
        outlets=[published(manifest, stream)],
        trigger_rule="all_done",
        doc_md=f"Appends what the acker has found complete to `{manifest.tables[stream]}`.",
    )


def _watcher_task() -> Any:
    """Airflow judges a run by its last tasks, and those after a component that failed may succeed."""

    @task(
        retries=0,
        trigger_rule="one_failed",
        doc_md="Fails when a spout or a bolt failed, so that the run does; else it is skipped.",
    )
    def watcher() -> None:
        raise AirflowFailException("A task before this one failed: its log says why.")

    return watcher()
