"""`<topology>.maintain`: fewer and larger files, and none that nobody reads any more."""

from collections.abc import Callable
from typing import Any

from airflow.sdk import DAG, CronTriggerTimetable

from dags.wiring import SETTINGS, SHAPES, dag_of, spark_task
from pipeline.shape import Shape

DOC = """\
Keeps the tables of `{name}` quick to read: `compact` rewrites small files, and `vacuum` deletes files that
no version of the last {hours} hours refers to.

**When a task fails** nothing is lost, and the next run does what this one did not.
"""


def build(shape: Shape) -> DAG:
    """The DAG of one topology."""
    schedule = CronTriggerTimetable(SETTINGS.maintain_schedule, timezone="UTC")
    doc = DOC.format(name=shape.name, hours=SETTINGS.retention_hours)
    with dag_of(shape, "maintain", schedule, doc) as dag:
        _maintain_task(shape, "compact") >> _maintain_task(shape, "vacuum")
    return dag


def _maintain_task(shape: Shape, name: str) -> Any:
    def step(spark: Any) -> dict[str, int]:
        from pipeline import tasks

        work: Callable[[Any], dict[str, int]] = getattr(tasks, name)
        return work(tasks.open_run(shape.name, spark))

    return spark_task(name, step)


for _shape in SHAPES:
    globals()[f"{_shape.name}_maintain"] = build(_shape)
