"""The DAG files as Airflow reads them: in a process of their own, against a folder with a topology."""

import json
import re
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from acker.airflow import KINDS
from tests.kit import ROOT
from tests.kit.dags import run_with_dags

POLICY = """
def tell(context):
    print(context["exception"])

def task_policy(task):
    if "acker" in task.dag.tags and task.task_id != "stands":
        task.on_failure_callback = tell
"""

READ = """
import json, sys
from datetime import UTC, datetime
from airflow.dag_processing.dagbag import DagBag
from airflow.providers.standard.operators.hitl import ApprovalOperator
from airflow.serialization.serialized_objects import DagSerialization, LazyDeserializedDAG

def schedule(dag):
    return json.dumps(LazyDeserializedDAG.from_dag(dag).data["dag"]["timetable"])

def days(dag):
    # the run that the scheduler would make next, and those of a backfill
    read = DagSerialization.from_dict(LazyDeserializedDAG.from_dag(dag).data)
    first, last = (datetime(2026, 1, day, tzinfo=UTC) for day in (29, 31))
    runs = read.iter_dagrun_infos_between(first, last)
    return read.next_dagrun_info(last_automated_run_info=None), [each.partition_key for each in runs]

bag = DagBag(sys.argv[1])
tasks = [task for dag in bag.dags.values() for task in dag.tasks]
heavy = ("pyspark", "delta", "deltalake", "pyarrow", "pandas", "costly")
print("RESULT" + json.dumps({
    "errors": bag.import_errors,
    "graph": {
        dag.dag_id: {task.task_id: sorted(task.downstream_task_ids) for task in dag.tasks}
        for dag in bag.dags.values()
    },
    "alerts": [f"{task.dag_id}.{task.task_id}" for task in tasks if task.on_failure_callback],
    "approvals": {
        task.dag_id: [str(task.response_timeout), task.defaults]
        for task in tasks if isinstance(task, ApprovalOperator)
    },
    "backfilled": {
        dag.dag_id: days(dag) for dag in bag.dags.values()
        if dag.allowed_run_types is None or "backfill" in {each.value for each in dag.allowed_run_types}
    },
    "assets": sorted(
        asset.name for task in tasks for asset in task.outlets if task.task_id.startswith("publish_")
    ),
    "due": [dag.dag_id for dag in bag.dags.values() if "/due" in schedule(dag)],
    "docs": {dag.dag_id: dag.doc_md for dag in bag.dags.values()},
    "lines": {dag.dag_id: dag.description for dag in bag.dags.values()},
    "form": {
        name: [param.value, param.description or param.schema["description_md"], param.schema]
        for name, param in bag.dags["branches.replay"].params.items()
    } if "branches.replay" in bag.dags else None,
    "heavy": sorted(set(heavy) & set(sys.modules)),
}))
"""


def read_dags(folder: Path, topologies: str) -> Any:
    """What Airflow finds in `dags/`, with some topologies registered."""
    return run_with_dags(READ, folder, topologies)


@pytest.fixture(scope="module")
def dags(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("dags")
    write_deltalake(str(folder / "left"), pa.table({"id": [1], "day": [date(2026, 1, 31)]}))
    return read_dags(folder, "pipeline.wordcount:topology,branches:topology")


def test_every_dag_file_imports(dags):
    assert dags["errors"] == {}


def test_a_run_is_drawn_as_its_topology_is_built(dags):
    assert dags["graph"]["branches.run"] == {
        "left": ["both"],
        "right": ["both"],
        "both": ["odd", "plain"],
        "plain": ["publish_plain"],
        "odd": ["held", "publish_odd"],
        "held": ["publish_held.late"],
        "publish_held.late": ["watcher"],
        "publish_plain": ["watcher"],
        "publish_odd": ["watcher"],
        "watcher": [],
    }


def test_each_topology_has_its_dags(dags):
    assert set(dags["graph"]) == {f"{name}.{kind}" for name in ("wordcount", "branches") for kind in KINDS}


def test_the_other_dags_are_short(dags):
    assert dags["graph"]["wordcount.acker"] == {"fold": ["due"], "due": []}
    assert dags["graph"]["wordcount.monitor"] == {"check": ["stands"], "stands": []}
    assert dags["graph"]["wordcount.retry"] == {"emit": []}
    assert dags["graph"]["wordcount.replay"] == {
        "select": ["approve", "emit"],
        "approve": ["emit"],
        "emit": ["settled"],
        "settled": [],
    }
    assert dags["graph"]["wordcount.reprocess"] == {
        "select": ["approve", "emit"],
        "approve": ["emit"],
        "emit": ["run", "settled"],
        "run": [],
        "settled": [],
    }
    assert dags["graph"]["wordcount.maintain"] == {
        "trim": ["compact"],
        "compact": ["vacuum"],
        "vacuum": [],
        "audit": [],
    }


def test_what_is_due_has_a_dag_in_which_nothing_waits_for_a_person(dags):
    assert sorted(dags["due"]) == ["branches.retry", "wordcount.retry"]
    assert sorted(dags["approvals"]) == [
        f"{name}.{kind}" for name in ("branches", "wordcount") for kind in ("replay", "reprocess")
    ]


def test_the_one_dag_that_airflow_offers_to_backfill_has_a_run_for_each_day_and_never_runs_by_itself(dags):
    days = ["2026-01-29", "2026-01-30", "2026-01-31"]
    assert dags["backfilled"] == {f"{name}.reprocess": [None, days] for name in ("branches", "wordcount")}


def test_a_published_table_is_the_asset_that_a_user_makes_of_its_uri(dags):
    assert [name for name in dags["assets"] if not name.startswith("file:///")] == []
    assert len(dags["assets"]) == 4


def test_an_approval_that_nobody_gives_in_a_day_is_a_rejection(dags):
    assert dags["approvals"]["wordcount.replay"] == ["1 day, 0:00:00", ["Reject"]]


def test_reading_the_dag_files_imports_neither_spark_nor_what_a_topology_needs(dags):
    assert dags["heavy"] == []


def test_the_page_on_airflow_says_of_each_dag_what_airflows_own_page_says(dags):
    page = (ROOT / "docs" / "reference" / "airflow.md").read_text()
    told = {kind: dags["lines"][f"branches.{kind}"] for kind in KINDS}
    row = {kind: page.partition(f"\n| `<topology>.{kind}` ")[2].partition("\n")[0] for kind in told}
    assert [kind for kind, line in told.items() if f"| {line}" not in row[kind]] == []
    tasks = {task for kind in KINDS[1:] for task in dags["graph"][f"branches.{kind}"]}
    assert sorted(task for task in tasks if f"`{task}`" not in page) == []


def test_the_form_opens_with_nothing_missing_and_with_the_two_most_used_fields_first(dags):
    form = dags["form"]
    assert [
        name for name, (value, _, schema) in form.items() if value is None and "null" not in schema["type"]
    ] == []
    assert [*form][:2] == ["states", "reason"]
    assert form["states"][0] == ["dead_letter"]
    shown = [name for name, (_, _, schema) in form.items() if "section" not in schema]
    assert shown == ["states", "reason", "why", "dry_run"]


def test_the_form_speaks_of_the_topologys_own_tables_spouts_and_columns(dags):
    told = {name: text for name, (_, text, _) in dags["form"].items()}
    assert "- **acked**: what they have published of plain, odd, held.late is replaced" in told["states"]
    assert "More than 1,000 messages, with what else you have asked for within a day, are" in told["why"]
    assert "A message that is called left:monday.json:2 elsewhere is monday.json:2 here." in told["positions"]
    assert told["where"].endswith("left has id, day. Such as day = '2026-01-31'.")
    assert "UTC where a call of the API names none" in told["since"]


def test_a_run_is_documented_by_its_topology(dags):
    assert dags["docs"]["branches.run"].startswith("Numbers, two ways.")


RENDER = """
import json
from datetime import UTC, datetime
from acker.airflow.approval import body_of
from acker.airflow.wiring import REGISTERED
from acker.operations.approvals import Question, Told
from acker.operations.selection.requests import Request

why = "![](http://elsewhere)\\n- limit: 1 ` {{ 7 * 6 }}"
chosen = {"states": ["acked"], "positions": [["a", 1], ["b", 2]], "reason": "<img src=x>", "limit": None}
selection = json.dumps(chosen)
request = Request("run", selection, 1300, "ann", datetime(2026, 1, 1, tzinfo=UTC), why)
told = Told(chosen=1000, partners=300, acked=1250, gone=1200)
together = "Together with 2 other requests of [ann](http://elsewhere), it is of 4,000 messages."
said = list(body_of(Question(request, told, together), REGISTERED.manifests[0]))
print("RESULT" + json.dumps([said, list(REGISTERED.manifests[0].tables.values())]))
"""


SCHEDULED = """
from acker import DeltaSpout, Topology

def scheduled(name, schedule, **options):
    topology = Topology(name, schedule=schedule, **options)
    numbers = topology.spout("numbers", DeltaSpout("numbers", key="id"))
    topology.publish(numbers, to="published")
    return topology

half_hourly = scheduled("half_hourly", "*/30 * * * *")
waiting = scheduled("waiting", ["shop.sales", "s3://bucket/orders", "half_hourly.numbers"])
by_hand = scheduled("by_hand", [], one_task=True)
"""

TIMETABLES = """
import json, sys
from airflow.dag_processing.dagbag import DagBag
from airflow.serialization.serialized_objects import LazyDeserializedDAG

bag = DagBag(sys.argv[1])
found = {dag.dag_id: LazyDeserializedDAG.from_dag(dag).data["dag"]["timetable"] for dag in bag.dags.values()}
tasks = {dag.dag_id: sorted(dag.task_ids) for dag in bag.dags.values()}
both = [{name: each[name + ".run"] for name in sys.argv[2:]} for each in (found, tasks)]
print("RESULT" + json.dumps([bag.import_errors, *both]))
"""


@pytest.mark.extended
def test_a_topology_is_run_by_its_own_schedule_and_in_one_task_where_it_says_so(tmp_path):
    (tmp_path / "scheduled.py").write_text(SCHEDULED)
    names = ("half_hourly", "waiting", "by_hand", "branches")
    topologies = [*(f"scheduled:{name}" for name in names[:3]), "branches:topology"]
    errors, found, tasks = run_with_dags(TIMETABLES, tmp_path, ",".join(topologies), *names)
    assert errors == {}
    assert [json.dumps(found[name]).count(f"{name}.replayed") for name in names] == [1, 1, 1, 1]
    crons = [re.findall(r'"expression": "(.*?)"', json.dumps(found[name])) for name in names]
    assert crons == [["*/30 * * * *"], [], [], ["0 * * * *"]]
    assert tasks["waiting"] == ["numbers", "publish_numbers", "watcher"]
    assert tasks["by_hand"] == ["components", "publish_numbers", "watcher"]
    watched = [re.findall("acker.airflow.watch.Watch", json.dumps(found[name])) for name in names]
    assert [len(each) for each in watched] == [0, 0, 0, 1]
    assert re.findall("shop.sales|s3://bucket/orders|file://.*/published", json.dumps(found["waiting"])) == [
        "shop.sales",
        "s3://bucket/orders",
        f"file://{tmp_path}/published",  # by topology and stream
    ]


@pytest.mark.extended
def test_who_approves_a_replay_is_told_what_it_does_and_what_was_filled_in_is_no_markdown(tmp_path):
    said, tables = run_with_dags(RENDER, tmp_path, "branches:topology")
    assert len(tables) == 3
    assert said == [
        "1,000 messages were chosen and 300 that come along, since they were settled together with chosen "
        "ones.",
        f"1,250 of them are acked: what they have published is replaced in "
        f"{', '.join(f'`{table}`' for table in tables)} once their new attempt is acked.",
        "1,200 of them are gone from their source, cannot be read any more, and would be lost; the log of "
        "`select` says why.",
        "`Together with 2 other requests of [ann](http://elsewhere), it is of 4,000 messages.`",
        "- `states`: `acked`\n"
        "- `positions`: `a:1, b:2`\n"
        "- `reason`: `<img src=x>`\n"
        "- `why`: `` ![](http://elsewhere)\\n- limit: 1 ` {{ 7 * 6 }} ``\n"
        "- `requested by`: `ann`",
        "Rejecting leaves every message as it is.",
    ]


WHO = """
import json
from airflow.sdk.exceptions import AirflowFailException
from acker.airflow import approval
from acker.airflow.wiring import REGISTERED

def says(call, *arguments):
    try:
        call(*arguments)
    except AirflowFailException as error:
        return str(error)

task = approval.approval_task(REGISTERED.manifests[0])
print("RESULT" + json.dumps([
    task.assigned_users,
    len(task.notifiers),
    [says(approval.check_approver, user and {"id": user, "name": user}, "branches.replay")
        for user in ("ann", "eve", None)],
    says(approval.check_notifier),
]))
"""


@pytest.mark.extended
def test_who_may_approve_and_what_is_called_are_settings(tmp_path, monkeypatch):
    monkeypatch.setenv("PIPELINE_APPROVERS", "ann, bob")
    monkeypatch.setenv("PIPELINE_APPROVAL_NOTIFIER", "nowhere:tell")
    users, notifiers, said, notifier = run_with_dags(WHO, tmp_path, "branches:topology")
    assert (users, notifiers) == ([{"id": name, "name": name} for name in ("ann", "bob")], 1)
    again = "Nothing was emitted. Clear the task approve of this run of branches.replay, and it asks again."
    assert said == [
        None,
        f"eve is not among the ann, bob of PIPELINE_APPROVERS, who may approve a replay. {again}",
        f"Nobody has approved this replay. {again}",
    ]
    assert notifier == (
        "PIPELINE_APPROVAL_NOTIFIER is 'nowhere:tell', which does not import: ModuleNotFoundError: No module "
        "named 'nowhere'. Mend that, and clear this task."
    )


OWN = """
import json, os
from airflow.sdk.exceptions import AirflowFailException
from acker.airflow.approval import check_own

def may(**core):
    for name, value in core.items():
        os.environ[f"AIRFLOW__CORE__{name.upper()}"] = value
    try:
        check_own("ann", "branches.replay")
    except AirflowFailException as error:
        return str(error)

print("RESULT" + json.dumps([
    may(simple_auth_manager_users="ann:admin"),
    may(simple_auth_manager_users="ann:admin, bob:viewer"),
    may(simple_auth_manager_users="bob:admin"),
    may(simple_auth_manager_all_admins="True"),
    may(auth_manager="airflow.providers.fab.auth_manager.fab_auth_manager.FabAuthManager"),
]))
"""
ANN = "ann asked for this replay, so another user must approve it. Nothing was emitted."


@pytest.mark.extended
def test_who_asked_for_a_replay_may_approve_it_where_airflow_knows_nobody_else(tmp_path):
    found = run_with_dags(OWN, tmp_path, "branches:topology")
    assert [said and said[: len(ANN)] for said in found] == [None, ANN, ANN, None, ANN]


@pytest.mark.thorough
@pytest.mark.parametrize(("said", "found"), [("on", [None] * 5), ("off", [ANN] * 5)])
def test_whether_who_asked_may_approve_is_a_setting(tmp_path, monkeypatch, said, found):
    monkeypatch.setenv("PIPELINE_SELF_APPROVAL", said)
    every = run_with_dags(OWN, tmp_path, "branches:topology")
    assert [each and each[: len(ANN)] for each in every] == found


@pytest.mark.thorough
def test_a_policy_of_airflows_puts_a_callback_on_every_task_but_that_which_fails_at_each_look(tmp_path):
    (tmp_path / "airflow_local_settings.py").write_text(POLICY)
    found = read_dags(tmp_path, "branches:topology")
    every = [f"{dag}.{task}" for dag, tasks in found["graph"].items() for task in tasks]
    assert sorted(found["alerts"]) == sorted(set(every) - {"branches.monitor.stands"})


@pytest.mark.extended
def test_a_topology_that_does_not_import_is_an_import_error_and_leaves_the_others_alone(tmp_path):
    found = read_dags(tmp_path, "branches:topologie,missing:topology,branches:topology")
    assert {name.split(".")[0] for name in found["graph"]} == {"branches"}
    (text,) = found["errors"].values()
    assert "branches:topologie is nothing and not a Topology" in text
    assert "there is no module missing" in text


@pytest.mark.extended
@pytest.mark.parametrize(
    "broken",
    ["raise ValueError('no such column')", "import os; os._exit(3)", "from time import sleep; sleep(60)"],
)
def test_a_topology_that_imports_no_more_keeps_its_monitor_and_leaves_the_others_alone(tmp_path, broken):
    topologies = "scheduled:half_hourly,branches:topology"
    (tmp_path / "scheduled.py").write_text(SCHEDULED)
    assert len(read_dags(tmp_path, topologies)["graph"]) == 2 * len(KINDS)
    (tmp_path / "scheduled.py").write_text(broken)
    found = read_dags(tmp_path, topologies)
    assert sorted(found["graph"]) == [*sorted(f"branches.{kind}" for kind in KINDS), "half_hourly.monitor"]
    (text,) = found["errors"].values()
    assert text.count("scheduled:half_hourly ") >= 1
    broken, others = run_with_dags(BROKEN, tmp_path, topologies, "branches")
    assert [name for name, _ in broken] == ["half_hourly"] and "broken" not in others


@pytest.mark.thorough
def test_two_topologies_of_one_name_are_an_import_error(tmp_path):
    found = read_dags(tmp_path, "branches:topology,branches:topology")
    assert len(found["graph"]) == len(KINDS)
    assert "more than one topology called branches" in str(found["errors"])


BROKEN = """
import json, sys
from acker.airflow import tasks
from acker.airflow.wiring import REGISTERED

broken = [(manifest.name, fault) for manifest, fault in REGISTERED.broken]
print("RESULT" + json.dumps([broken, [each.kind for each in tasks.findings(sys.argv[2])]]))
"""
WATCHED = """
import asyncio, json, os
from acker.airflow.watch import Watch

def first(topology):
    async def event():
        return await anext(Watch(topology, "run", 60).run())
    return asyncio.run(event()).payload["waits"]

found = [first("branches"), first("nobody")]
os.utime("branches.py", (0, 0))
print("RESULT" + json.dumps([*found, first("branches"), Watch("branches", "acker", 5).serialize()]))
"""


@pytest.mark.thorough
def test_a_watch_that_cannot_look_starts_the_tasks_which_then_tell(tmp_path):
    unknown, nobody, changed, serialized = run_with_dags(WATCHED, tmp_path, "branches:topology")
    assert [re.sub(": .*", "", each) for each in unknown] == [
        "left may have something to read",
        "right may have something to read",
    ]
    assert nobody[0].startswith("No topology is called nobody; registered are: branches.")
    assert changed == [
        "branches:topology has changed since the triggerer imported it; start the triggerer again"
    ]
    kwargs = {"topology": "branches", "kind": "acker", "seconds": 5}
    assert serialized == ["acker.airflow.watch.Watch", kwargs]
