"""`<topology>.reprocess`: emits the messages of a day again, by Airflow's backfill."""

from typing import Any

from airflow.providers.standard.operators.trigger_dagrun import TriggerDagRunOperator
from airflow.sdk import DAG, CronPartitionTimetable, Param

from acker.airflow.requested import RUNS_AT_ONCE, requested
from acker.airflow.wiring import START, dag_of
from acker.core.events import SELECTABLE
from acker.runtime.manifest import Manifest

# A partitioned DAG has a run of its own for each time that a day is backfilled, with the name of who asked.
# One with data intervals would clear the run of the first time, which keeps the name of who asked then.
DAYS = CronPartitionTimetable("0 0 * * *", timezone="UTC", key_format="%Y-%m-%d")
RUN_TYPES = ("backfill", "manual", "scheduled")  # Airflow wants the last one of each DAG with a schedule


def build(manifest: Manifest) -> DAG:
    """The DAG of one topology."""
    why = Param(None, type=["null", "string"], maxLength=1000, description="Kept in replay_requests.")
    # What has ended is not scheduled any more. A backfill does not ask for that.
    options = {"params": {"why": why}, "end_date": START, "allowed_run_types": RUN_TYPES}
    with dag_of(manifest, "reprocess", DAYS, max_active_runs=RUNS_AT_ONCE, **options) as dag:
        emit = requested(
            manifest,
            _of_day(manifest),
            "Records which messages are of the run's day, and asks for approval if they are many.",
        )
        emit >> _run_task(manifest)
    return dag


def _of_day(manifest: Manifest) -> Any:
    """A function that returns the fields which choose the messages of a run's day, its partition."""

    def fields(context: Any) -> dict[str, Any]:
        from acker.core.errors import SettingsError

        day = context["dag_run"].partition_date
        if day is None:
            raise SettingsError(
                f"A run of {manifest.name}.reprocess is for a day. Choose Backfill, or trigger it with a "
                "partition key such as 2026-01-31."
            )
        return {
            "states": [str(state) for state in SELECTABLE],
            "day": f"{day:%Y-%m-%d}",
            "day_column": manifest.reprocess_by,
            "why": context["params"]["why"],
            "dry_run": False,
        }

    return fields


def _run_task(manifest: Manifest) -> Any:
    """The task that starts `<topology>.run`.

    Asset events of a run with a partition do not start a DAG without partitions, so a task has to start it.
    """
    return TriggerDagRunOperator(
        task_id="run",
        trigger_dag_id=f"{manifest.name}.run",
        logical_date=None,
        doc_md=f"Starts `{manifest.name}.run`, which takes on what was emitted.",
    )
