"""`<topology>.retry`: emits the messages again whose next attempt is due."""

from typing import Any

from airflow.sdk import DAG

from acker.airflow.wiring import dag_of, due, events, replayed, spark_task
from acker.runtime.manifest import Manifest


def build(manifest: Manifest) -> DAG:
    """The DAG of one topology."""
    with dag_of(manifest, "retry", [due(manifest)]) as dag:
        _emit_task(manifest)
    return dag


def _emit_task(manifest: Manifest) -> Any:
    def step(connect: Any) -> dict[str, int]:
        from acker.airflow import tasks

        return tasks.replay_due(tasks.open_run(manifest.name, connect))

    return spark_task("emit", step, outlets=[events(manifest), replayed(manifest)])
