"""`<topology>.run`: the spouts, then the bolts in the topology's own order and branches, then publish."""

from typing import Any

from airflow.sdk import DAG, AssetAll, AssetAny, get_current_context, task
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


def build(manifest: Manifest) -> DAG:
    """The DAG of one topology."""
    with dag_of(manifest, "run", _schedule(manifest)) as dag:
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
        _add_watcher(dag, work)
    return dag


def _schedule(manifest: Manifest) -> Any:
    """The schedule, the topology's own or else the deployment's, with a run after each replay that emits."""
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


def _add_watcher(dag: DAG, work: list[Any]) -> None:
    """Add the task by which the run fails where a component did: Airflow judges a run by its last tasks.

    The watcher comes after the last tasks, and looks at the states of all. Where one task does all the work,
    the watcher comes right after that task and starts only if the task has failed: a run of small batches has
    no further task.
    """

    @task(
        trigger_rule="one_failed" if len(work) == 1 else "all_done",
        doc_md="Fails when a task of the run failed, so that the run does.",
    )
    def watcher() -> None:
        context = get_current_context()
        run_id = context["run_id"]
        states = context["ti"].get_task_states(dag.dag_id, run_ids=[run_id])[run_id]
        failed = sorted(name for name, state in states.items() if state in ("failed", "upstream_failed"))
        if failed:
            raise AirflowFailException(f"{', '.join(failed)} failed: the log of each says why.")

    last = work if len(work) == 1 else [each for each in dag.tasks if not each.downstream_task_ids]
    last >> watcher()
