"""`<topology>.acker`: the periodic fold, which decides what became of each message."""

from typing import Any

from airflow.sdk import DAG, AssetOrTimeSchedule, CronTriggerTimetable, task
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from dags.wiring import SETTINGS, SHAPES, dag_of, due, events, ledger, report
from pipeline.shape import Shape

DOC = """\
Folds the new events of `{name}` into its ledger, whenever events were logged and at least by the clock,
since messages also time out. The asset `{name}.ledger` shows what each fold decided.

**When a task fails** nothing is half done: a fold is one commit, and the next one takes up what this one
did not. `check` fails when a fold gave messages up: `python -m pipeline audit {name}` lists them,
`python -m pipeline trace {name} MESSAGE` tells the story of one, and `{name}.replay` emits them again.
"""


def build(shape: Shape) -> DAG:
    """The DAG of one topology."""
    schedule = AssetOrTimeSchedule(
        timetable=CronTriggerTimetable(SETTINGS.acker_schedule, timezone="UTC"), assets=[events(shape)]
    )
    with dag_of(shape, "acker", schedule, DOC.format(name=shape.name)) as dag:
        counts = _fold_task(shape)
        _due_task(shape, counts)
        _check_task(shape, counts)
    return dag


def _fold_task(shape: Shape) -> Any:
    @task(outlets=[ledger(shape)], doc_md="Decides what became of each message. It needs no Spark.")
    def fold() -> dict[str, int]:
        from pipeline import tasks

        return report(tasks.fold(tasks.open_run(shape.name)))

    return fold()


def _due_task(shape: Shape, counts: Any) -> Any:
    @task(task_id="due", outlets=[due(shape)], doc_md=f"Starts `{shape.name}.replay` if there are any.")
    def are_due(counts: dict[str, int]) -> dict[str, int]:
        if not counts["due"]:
            raise AirflowSkipException("No message is due.")
        return report({"due": counts["due"]})

    return are_due(counts)


def _check_task(shape: Shape, counts: Any) -> Any:
    @task(retries=0, doc_md="Fails when the fold gave messages up.")
    def check(counts: dict[str, int]) -> None:
        dead, lost = counts.get("dead_letter", 0), counts.get("lost", 0)
        if dead > SETTINGS.dead_letters_allowed or lost:
            given_up = [f"{n:,} as {what}" for n, what in ((dead, "dead letters"), (lost, "lost")) if n]
            raise AirflowFailException(
                f"See `python -m pipeline audit {shape.name}`: "
                f"fold {counts['fold']} gave up messages, {' and '.join(given_up)}."
            )

    return check(counts)


for _shape in SHAPES:
    globals()[f"{_shape.name}_acker"] = build(_shape)
