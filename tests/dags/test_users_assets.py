"""A DAG of a user's own that waits for a published table, in the database of a stock Airflow."""

import pytest

from tests.kit.dags import run_with_dags

REPORT = """
from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import DAG, Asset

sales = Asset("file://{table}")
with DAG("report", schedule=[sales], catchup=False):
    EmptyOperator(task_id="print", inlets=[sales])
"""

PARSED = """
import json, sys
from pathlib import Path
from airflow.assets.manager import asset_manager
from airflow.dag_processing.bundles.manager import DagBundlesManager
from airflow.dag_processing.dagbag import DagBag, sync_bag_to_db
from airflow.jobs.job import Job
from airflow.jobs.scheduler_job_runner import SchedulerJobRunner
from airflow.models.asset import AssetActive, AssetDagRunQueue, AssetModel
from airflow.models.dag import DagModel
from airflow.utils.db import initdb
from airflow.utils.session import create_session
from acker.runtime import manifest
from sqlalchemy import select, update

manifest._DESCRIBE_SECONDS = 600  # no time is judged here
initdb()
DagBundlesManager().sync_bundles_to_db()
scheduler = SchedulerJobRunner(Job())
errors = {}
for folder in sys.argv[3:]:
    bag = DagBag(folder, bundle_path=Path(folder), bundle_name="dags-folder")
    errors |= bag.import_errors
    sync_bag_to_db(bag, "dags-folder", None)
    with create_session() as session:
        scheduler._update_asset_orphanage(session=session)
with create_session() as session:
    session.execute(update(DagModel).values(is_paused=False))
    active = session.execute(select(AssetActive.name, AssetActive.uri)).all()
    known = session.scalars(select(AssetModel).where(AssetModel.uri == sys.argv[2])).all()
    asset_manager.register_asset_change(asset=known[0], session=session)
    session.flush()
    queued = sorted(session.scalars(select(AssetDagRunQueue.target_dag_id)))
    names = [[each.name, each.group] for each in known]
print("RESULT" + json.dumps([errors, names, [name for name, uri in active if uri == sys.argv[2]], queued]))
"""


@pytest.mark.extended
@pytest.mark.parametrize("users_first", [True, False])
def test_a_users_asset_of_a_published_tables_uri_is_ours_whichever_is_parsed_first(tmp_path, users_first):
    table, own = tmp_path / "plain", tmp_path / "users"
    own.mkdir()
    (own / "report.py").write_text(REPORT.format(table=table))
    ours = str(tmp_path / "ours")
    (tmp_path / "ours").mkdir()
    (tmp_path / "ours" / "acker_dags.py").write_text(
        "from acker.airflow import dags  # airflow\nglobals().update(dags())\n"
    )
    folders = [str(own), ours] if users_first else [ours, str(own)]
    errors, known, active, queued = run_with_dags(
        PARSED, tmp_path, "branches:topology", f"file://{table}", *folders
    )
    assert (errors, active, queued) == ({}, [f"file://{table}"], ["report"])
    assert known == [[f"file://{table}", "asset"]]
