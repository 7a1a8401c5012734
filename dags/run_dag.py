"""`<topology>.run`: the spouts, then the bolts in the topology's own order and branches, then publish."""

from typing import Any

from airflow.sdk import DAG, AssetOrTimeSchedule, CronTriggerTimetable, task
from airflow.sdk.exceptions import AirflowFailException

from dags.wiring import SETTINGS, SHAPES, dag_of, events, is_last_try, published, replayed, spark_task
from pipeline.shape import ComponentShape, Shape

DOC = """\
{doc}

Runs every component once over what there is: each task takes up the batch that an earlier run left, or
plans the next. A task that finds nothing is skipped. What the acker has found complete is published last.

**When a task fails** it is tried again and resumes its batch. After the last try a bolt's batch is given
up: its messages fail with the task's error as the reason, and are replayed. `check` fails when the acker
is late or too many messages are in flight; it holds nothing up.

`python -m pipeline status {name}` shows where each component stands.
"""


def build(shape: Shape) -> DAG:
    """The DAG of one topology."""
    schedule = AssetOrTimeSchedule(
        timetable=CronTriggerTimetable(SETTINGS.run_schedule, timezone="UTC"), assets=[replayed(shape)]
    )
    with dag_of(shape, "run", schedule, DOC.format(doc=shape.doc, name=shape.name)) as dag:
        tasks = {component.name: _component_task(shape, component) for component in shape.components}
        for component in shape.components:
            for upstream in component.inputs:
                tasks[upstream] >> tasks[component.name]
        for stream in shape.tables:
            tasks[stream.partition(".")[0]] >> _publish_task(shape, stream)
        _check_task(shape)
    return dag


def _component_task(shape: Shape, component: ComponentShape) -> Any:
    def step(spark: Any) -> dict[str, int]:
        from pipeline import tasks

        run = tasks.open_run(shape.name, spark)
        if component.inputs:
            return tasks.take_inputs(run, component.name, is_last_try())
        return tasks.read_source(run, component.name)

    return spark_task(
        component.name,
        step,
        outlets=[events(shape)],
        # A spout that found nothing is skipped, and the bolts still take what an earlier run left them.
        trigger_rule="none_failed",
        doc_md=component.doc,
    )


def _publish_task(shape: Shape, stream: str) -> Any:
    def step(spark: Any) -> dict[str, int]:
        from pipeline import tasks

        return tasks.publish(tasks.open_run(shape.name, spark), stream)

    return spark_task(
        f"publish_{stream}",
        step,
        outlets=[published(shape, stream)],
        trigger_rule="none_failed",
        doc_md=f"Appends what the acker has found complete to `{shape.tables[stream]}`.",
    )


def _check_task(shape: Shape) -> Any:
    @task(retries=0, doc_md="Fails when the acker is late or too many messages are in flight.")
    def check() -> None:
        from pipeline import tasks

        complaints = tasks.complaints(shape.name)
        if complaints:
            look = f"Look further with `python -m pipeline status {shape.name}`."
            raise AirflowFailException(" ".join([*complaints, look]))

    return check()


for _shape in SHAPES:
    globals()[f"{_shape.name}_run"] = build(_shape)
