"""The monitor's look at a topology. A variable of Airflow's keeps the findings that still stand.

Users who may only trigger DAGs cannot write that variable. It is there even where a store is not.
"""

import json
import logging
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from urllib.parse import unquote, urlsplit

from airflow.configuration import conf
from airflow.sdk import Variable

from acker.airflow import KINDS, tasks
from acker.airflow.wiring import REGISTERED
from acker.batches.run import utc_now
from acker.reports.looks import EVERYTHING, Finding
from acker.reports.news import News, from_json, news_of, to_json
from acker.runtime.settings import Settings

_DESCRIPTION = "What the monitor has told. Delete it to be told again."
_NOT_FOUND = 404

log = logging.getLogger(__name__)


def look(topology: str, run_id: str) -> News:
    """Look at a topology, keep the findings that stand, and return the news since the last look.

    Args:
        topology: the topology's name.
        run_id: the id of the run that looks.
    """
    faults = {manifest.name: fault for manifest, fault in REGISTERED.broken}
    if topology in faults:  # and is not imported here, where it may hang or end the process
        found = [Finding("broken", "", faults[topology], hides=EVERYTHING)]
    else:
        found = [*tasks.findings(topology, [*_places()]), *_paused(topology)]
    for each in found:
        log.warning("%s", each)
    again = timedelta(minutes=Settings.from_env().alarm_again_minutes)
    news = news_of(from_json(_kept(topology).get("stands")), found, utc_now(), again)
    kept = {"run_id": run_id, "stands": to_json(news.stands)}
    Variable.set(_name(topology), json.dumps(kept), description=_DESCRIPTION)
    return news


def standing(topology: str, run_id: str) -> list[str]:
    """Sentences on the findings that stand as of a run's look.

    If this look has not ended, a first sentence says so, and the findings are those of earlier looks.

    Args:
        topology: the topology's name.
        run_id: the id of the run that has looked.
    """
    kept = _kept(topology)
    said = [str(each.finding) for each in from_json(kept.get("stands"))]
    if kept.get("run_id") != run_id:
        said.insert(0, "The look of this run has not ended: see the log of `check`. Earlier looks found:")
    return said


def _name(topology: str) -> str:
    return f"acker_{topology}_monitor"


def _kept(topology: str) -> dict[str, str]:
    try:
        found = json.loads(Variable.get(_name(topology), default="{}"))
    except ValueError:
        found = {}
    return found if isinstance(found, dict) else {}


def _places() -> Iterator[tuple[str, Path]]:
    """The folders of Airflow on this machine, each with a name for it."""
    yield "Airflow's logs", Path(conf.get("logging", "base_log_folder"))
    database = urlsplit(conf.get("database", "sql_alchemy_conn", fallback=""))
    if database.scheme.startswith("sqlite"):
        yield "Airflow's database", Path(unquote(database.path).removeprefix("/")).parent


def _paused(topology: str) -> Iterator[Finding]:
    """Findings of paused DAGs: those of the topology, and the monitors of other topologies.

    A monitor that is paused cannot tell of it itself.
    """
    names = [each.name for each in (*REGISTERED.manifests, *(each for each, _ in REGISTERED.broken))]
    others = [name for name in names if name != topology]
    own = [f"{topology}.{kind}" for kind in KINDS if kind != "monitor"]
    for dag_id in [*own, *(f"{name}.monitor" for name in others)]:
        try:
            if _is_paused(dag_id):
                yield Finding("paused", dag_id, f"The DAG {dag_id} is paused, so its work is not done.")
        except Exception as error:  # of Airflow's API; the looks at the store are told all the same
            said = f"Whether the DAG {dag_id} is paused is not known: {type(error).__name__}: {error}."
            yield Finding("not-looked", f"paused {dag_id}", said, hides=(("paused", dag_id),))


def _is_paused(dag_id: str) -> bool:
    """Whether a DAG is paused.

    A DAG that does not exist is not paused: a DAG file may draw only some kinds of DAGs.
    """
    from airflow.sdk.exceptions import AirflowRuntimeError
    from airflow.sdk.execution_time.comms import DagResult, GetDag
    from airflow.sdk.execution_time.task_runner import SUPERVISOR_COMMS

    try:
        found = SUPERVISOR_COMMS.send(GetDag(dag_id=dag_id))
    except AirflowRuntimeError as error:
        if (error.error.detail or {}).get("status_code") == _NOT_FOUND:
            return False
        raise
    return isinstance(found, DagResult) and found.is_paused
