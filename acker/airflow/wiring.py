"""Parts that the DAGs share: the registered topologies, the assets, and the tasks that run a step.

Nothing here imports Spark or a topology. The tasks do, when they run.
"""

from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from datetime import UTC, datetime, timedelta
from typing import Any

from airflow.sdk import (
    DAG,
    Asset,
    AssetAny,
    AssetOrTimeSchedule,
    AssetWatcher,
    CronTriggerTimetable,
    get_current_context,
    task,
)
from airflow.sdk.exceptions import AirflowNotFoundException, AirflowSkipException

from acker.airflow.about import described
from acker.airflow.watch import Watch
from acker.core.errors import BatchHeld
from acker.runtime.manifest import Manifest, registered_manifests
from acker.runtime.settings import Settings
from acker.topology.schedule import WATCH

SETTINGS = Settings.from_env()
REGISTERED = registered_manifests(SETTINGS)

SPARK = "spark_connect"  # the Airflow connection to the Spark Connect server; without it the settings count
START = datetime(2026, 1, 1, tzinfo=UTC)
# All but `backfill`, which would run a DAG once for each interval of its clock; each run but the first would
# find nothing to do, since what is read and published does not depend on the interval.
RUN_TYPES: Any = ("scheduled", "manual", "asset_triggered", "operator_triggered", "asset_materialization")
RETRIES = 2
RETRY_DELAY = timedelta(seconds=10)


def events(manifest: Manifest) -> Asset:
    """The topology's events: updated when a batch was logged."""
    return _asset(manifest, "events")


def ledger(manifest: Manifest) -> Asset:
    """The topology's ledger: updated by every fold, with the fold's counts of messages by state."""
    return _asset(manifest, "ledger")


def due(manifest: Manifest) -> Asset:
    """The messages whose next attempt is due: updated when there are any."""
    return Asset(f"{manifest.name}.due", uri=f"acker://{manifest.name}/due", group="acker")


def replayed(manifest: Manifest) -> Asset:
    """The messages that a replay has emitted: updated so that the bolts take them on at once."""
    return Asset(f"{manifest.name}.replayed", uri=f"acker://{manifest.name}/replayed", group="acker")


def published(manifest: Manifest, stream: str) -> Asset:
    """A published table, on which other DAGs can be scheduled.

    The asset has its URI as its name and is in no group of acker's, like an asset that a user makes of the
    URI alone. Of two names of one URI Airflow activates one, and the tasks that write the other fail.
    """
    return Asset(_uri(manifest.tables[stream]))


def awaited(text: str) -> Any:
    """The asset that a topology waits for: by its name or URI, or `topology.stream` of a published table."""
    name, _, stream = text.partition(".")
    for manifest in REGISTERED.manifests:
        if manifest.name == name and stream in manifest.tables:
            return Asset.ref(uri=_uri(manifest.tables[stream]))
    return Asset.ref(uri=text) if "://" in text else Asset.ref(name=text)


def _asset(manifest: Manifest, table: str) -> Asset:
    return Asset(
        f"{manifest.name}.{table}", uri=_uri(f"{SETTINGS.store}/{manifest.name}/{table}"), group="acker"
    )


def _uri(path: str) -> str:
    return path if "://" in path else f"file://{path}"


def schedule_of(manifest: Manifest, kind: str, schedule: str, asset: Asset) -> Any:
    """When a DAG runs: by a cron expression or preset, and when an asset is updated.

    With `@watch` the DAG runs when a watch finds something to do, and once an hour in any case. So without a
    triggerer nothing stands still for ever, and Kafka's brokers do not forget offsets, which each run commits
    again.
    """
    if schedule != WATCH:
        return AssetOrTimeSchedule(timetable=CronTriggerTimetable(schedule, timezone="UTC"), assets=asset)
    name = f"{manifest.name}.{kind}_waits"
    watcher = AssetWatcher(name=name, trigger=Watch(manifest.name, kind, SETTINGS.watch_seconds))
    waits = Asset(name, uri=f"acker://{manifest.name}/{kind}_waits", group="acker", watchers=[watcher])
    hourly = CronTriggerTimetable("@hourly", timezone="UTC")
    return AssetOrTimeSchedule(timetable=hourly, assets=AssetAny(waits, asset))


def dag_of(manifest: Manifest, kind: str, schedule: Any, **options: Any) -> DAG:
    """An empty DAG `<topology>.<kind>` with the options that all DAGs have in common."""
    return DAG(
        f"{manifest.name}.{kind}",
        schedule=schedule,
        start_date=START,
        catchup=False,
        tags=["acker", manifest.name],
        default_args={
            "retries": RETRIES,
            "retry_delay": RETRY_DELAY,
            "execution_timeout": timedelta(minutes=SETTINGS.task_timeout_minutes),
            "owner": manifest.name,
        },
        **described(manifest, kind, SETTINGS),
        **{"max_active_runs": 1, "allowed_run_types": RUN_TYPES, **options},
    )


def spark_task(
    task_id: str, step: Callable[..., dict[str, Any]], connections: Sequence[str] = (SPARK,), **options: Any
) -> Any:
    """A task with a Spark session of its own; it is skipped where `step` finds nothing to do, or waits.

    The session is made when the step first needs one: a bolt that finds nothing to do needs none.

    Args:
        task_id: the task's name.
        step: called with a function that makes the session; returns counts, which go to the outlets as
            metadata.
        connections: names of Airflow's connections to Spark. The first one that exists counts.
        options: further options of the task's operator.
    """

    @task(task_id=task_id, **options)
    def run_step() -> dict[str, Any]:
        def connect() -> Any:
            from acker.runtime.server.sessions import session

            return stack.enter_context(session(Settings.from_env(), _spark_url(connections)))

        try:
            with ExitStack() as stack:
                return report(step(connect))
        except BatchHeld as held:
            raise AirflowSkipException(str(held)) from held

    return run_step()


def spark_of(manifest: Manifest, component: str) -> Sequence[str]:
    """The names of a component's connections to Spark: its own, and the one that all components share."""
    return f"{SPARK}_{manifest.name}_{component}", SPARK


def _spark_url(connections: Sequence[str]) -> str | None:
    """The URL of Spark in the first of some connections that exists; None where none exists."""
    from airflow.providers.apache.spark.hooks.spark_connect import SparkConnectHook

    for connection in connections:
        with suppress(AirflowNotFoundException):
            return SparkConnectHook(connection).get_connection_url()
    return None


def report(counts: dict[str, Any]) -> dict[str, Any]:
    """Attach counts to the task's outlets, or skip the task where there are none."""
    if not counts:
        raise AirflowSkipException("There was nothing to do.")
    context = get_current_context()
    for asset in context["task"].outlets:
        context["outlet_events"][asset].extra = {**counts}
    return counts


def waits_for_held_batches() -> bool:
    """Whether the task leaves held batches alone until they are due: not in manual runs, nor on a retry."""
    context = get_current_context()
    return context["ti"].try_number == 1 and context["dag_run"].run_type != "manual"
