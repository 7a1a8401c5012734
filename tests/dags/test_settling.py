"""The task that waits until the messages of a replay have settled, as a worker and the triggerer run it."""

from typing import Any

import polars as pl
import pytest

from acker.core.events import State
from acker.core.retry import ExponentialBackoff
from acker.operations.cycle import drain
from acker.operations.replay import emit_requested, request_by_hand
from acker.operations.selection.selection import Selection
from tests.kit.dags import run_with_dags
from tests.kit.places import Place
from tests.kit.polars_topology import NoSpark, PolarsTopology, TableSource

TRIED = """
import asyncio, json
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException, TaskDeferred
from acker.airflow.settling import Settling, settled_task

task = settled_task("mended")

def looked(request, minutes):
    began = datetime.now(UTC) - timedelta(minutes=minutes)
    ti = SimpleNamespace(start_date=began, xcom_push=lambda **_: None)
    named = SimpleNamespace(dag_id="mended.replay")
    try:
        context = {"dag_run": SimpleNamespace(run_id=request), "ti": ti, "dag": named}
        return task.resume_execution("__fail__", {"error": "Trigger timeout"}, context)
    except (AirflowFailException, AirflowSkipException) as error:
        return str(error)
    except TaskDeferred as deferred:
        assert deferred.trigger.serialize()[1] == {"topology": "mended", "request_id": request, "seconds": 60}
        return round(deferred.timeout.total_seconds() / 60)

async def fired(request):
    return [event.payload async for event in Settling("mended", request, 60).run()]

print("RESULT" + json.dumps([
    [looked("all", minutes) for minutes in (0, 2000)],
    looked("some", 0),
    looked("nobody", 0),
    [looked("open", minutes) for minutes in (0, 1430, 1441)],
    asyncio.run(fired("some")),
]))
"""


@pytest.fixture
def place(tmp_path: Any, empty_store: Any) -> Place:
    return Place(tmp_path / "place", NoSpark(), empty_store)  # type: ignore[arg-type]


def ask(run, request_id, *ids, state=State.ACKED):
    selection = Selection(states=(state,), positions=tuple(("0", number) for number in ids))
    emit_requested(run, request_by_hand(run, selection, "why", "me", request_id)[1])


@pytest.mark.extended
def test_it_waits_for_an_hour_at_most_until_all_have_settled_and_is_red_where_some_failed_again(
    place, tmp_path, monkeypatch
):
    topology = PolarsTopology("mended", retry=ExponentialBackoff(initial_seconds=60, limit=0))
    numbers = topology.spout("numbers", TableSource(place.add("numbers", id=[1, 2, 3])))

    @topology.bolt(numbers)
    def checked(tuples):
        return tuples.with_columns(_error=pl.when(pl.col("id") == 3).then(pl.lit("broken")))

    run = place.run(topology)
    drain(run)
    ask(run, "all", 1, 2)
    drain(run)
    ask(run, "some", 3, state=State.DEAD_LETTER)
    drain(run)
    ask(run, "open", 1)
    monkeypatch.setenv("PIPELINE_STORE", place.path("store"))
    counts = {"matched": 2, "emitted": 2, "acked": 2, "dead_letter": 0, "lost": 0, "open": 0}
    late = (
        "Of 1 messages that were emitted again: acked 0, open 1. What is open has not settled within the "
        "1,440 minutes of PIPELINE_SETTLE_MINUTES: `acker status mended` shows what it waits for. It goes "
        "on; clear this task, and it waits again."
    )
    assert run_with_dags(TRIED, tmp_path, "branches:topology") == [
        [counts, counts],
        "Of 1 messages that were emitted again: acked 0, given up again 1. `acker failures mended` says why; "
        "mend that, and trigger mended.replay again.",
        "Nothing was emitted.",
        [60, 10, late],
        [{}],
    ]
