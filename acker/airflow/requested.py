"""The tasks that `replay` and `reprocess` share: they record, approve and emit the messages of a request."""

from collections.abc import Callable
from typing import Any

from airflow.sdk import get_current_context, task
from airflow.sdk.exceptions import AirflowFailException

from acker.airflow.approval import TASK, approval_task
from acker.airflow.settling import settled_task
from acker.airflow.wiring import SETTINGS, events, replayed, spark_task
from acker.runtime.manifest import Manifest

# Runs wait for a person, or for their messages to settle, while others go on; they emit one after the other.
RUNS_AT_ONCE = 200


def requested(manifest: Manifest, fields: Callable[[Any], Any], doc: str) -> Any:
    """Add the tasks `select`, `approve`, `emit` and `settled` to the DAG that is being built.

    A request has the name of its run: a run that is cleared makes the same request again.

    Args:
        manifest: the manifest of the topology whose messages are emitted again.
        fields: called with the context of `select`; returns the request, as the fields of a replay's form.
            With `dry_run` the messages are only counted.
        doc: the description of `select`, in Markdown.

    Returns:
        The task `emit`.
    """
    select = _select_task(manifest, fields, doc)
    approve = approval_task(manifest)
    emit = _emit_task(manifest)
    select >> [approve, emit]
    approve >> emit >> settled_task(manifest.name)
    return emit


def _select_task(manifest: Manifest, fields: Callable[[Any], Any], doc: str) -> Any:
    @task.branch(task_id="select", doc_md=doc)
    def select() -> str | None:
        from acker.airflow import tasks
        from acker.core.errors import SettingsError, TopologyError, UnknownMessage

        context = get_current_context()
        dag_run = context["dag_run"]
        try:
            asked = fields(context)
            if asked["dry_run"]:
                counts = tasks.count_requested(manifest.name, asked)
            else:
                who = dag_run.triggering_user_name or "airflow"
                run = tasks.open_run(manifest.name)
                counts = tasks.request_by_hand(run, asked, who, dag_run.run_id)
                asks = tasks.must_be_approved(run, dag_run.run_id, SETTINGS.approval_limit)
        except (SettingsError, TopologyError, UnknownMessage) as error:
            raise AirflowFailException(str(error)) from error
        context["ti"].xcom_push(key="matched", value=counts["matched"])
        tasks.log.info("%s messages match; %s more are in flight.", counts["matched"], counts["in_flight"])
        if "unseen" in counts:
            tasks.log.warning("Of %s more nobody can tell: their rows were trimmed.", counts["unseen"])
        if asked["dry_run"]:
            return None
        return TASK if asks else "emit"

    return select()


def _emit_task(manifest: Manifest) -> Any:
    def step(connect: Any) -> dict[str, int]:
        from acker.airflow import tasks
        from acker.core.errors import SettingsError, TopologyError

        context = get_current_context()
        try:
            run = tasks.open_run(manifest.name, connect)
            return tasks.emit_requested(run, context["dag_run"].run_id, SETTINGS.approval_limit)
        except (SettingsError, TopologyError) as error:
            raise AirflowFailException(str(error)) from error

    return spark_task(
        "emit",
        step,
        outlets=[events(manifest), replayed(manifest)],
        max_active_tis_per_dag=1,
        trigger_rule="none_failed_min_one_success",
        doc_md="Emits what `select` has recorded, and nothing that matches since.",
    )
