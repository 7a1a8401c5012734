"""Bolts of one topology on Spark servers of their own, as Airflow's connections say."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from acker.core.store.store import Store
from acker.core.store.tables import open_table, query
from acker.reports.audit import audit_report
from acker.runtime.registry import load_topology
from acker.runtime.server import process as server
from acker.runtime.server.tokens import read_token
from acker.runtime.settings import Settings
from tests.kit import ROOT

TOPOLOGY = """
import os

from pyspark.sql import functions as F

from acker import DeltaSpout, Topology

topology = Topology("plain")
numbers = topology.spout("numbers", DeltaSpout(os.environ["LAKE"] + "/numbers", key="id"))


@topology.bolt(numbers)
def near(tuples):
    return tuples.withColumn("near", F.lit(tuples.sparkSession.conf.get("spark.app.id")))


@topology.bolt(near)
def large(tuples):
    return tuples.withColumn("large", F.lit(tuples.sparkSession.conf.get("spark.app.id")))


topology.publish(large, to=os.environ["LAKE"] + "/found")
"""
RUN = """
import sys
from airflow.dag_processing.dagbag import DagBag

bag = DagBag(sys.argv[1])
for name in ("plain.run", "plain.acker", "plain.run"):
    print(bag.dags[name].test().state)
"""


@pytest.mark.thorough
def test_a_bolt_has_a_spark_server_of_its_own_where_a_connection_says_so(tmp_path: Path, monkeypatch) -> None:
    lake = tmp_path / "lake"
    (tmp_path / "plain.py").write_text(TOPOLOGY)
    write_deltalake(str(lake / "numbers"), pa.table({"id": [1, 2, 3]}))
    homes = [Settings.from_env({"PIPELINE_HOME": str(tmp_path / name)}) for name in ("home", "larger")]
    servers = [server.start(replace(home, driver_memory="1g"), owned=True) for home in homes]
    try:
        url = "spark-connect://:{}@127.0.0.1:{}".format
        common, own = (url(read_token(home), each.port) for home, each in zip(homes, servers, strict=True))
        for name, value in {
            "AIRFLOW_HOME": tmp_path / "airflow",
            "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
            "AIRFLOW__CORE__DAGS_FOLDER": ROOT / "dags",
            "AIRFLOW_CONN_SPARK_CONNECT": common,
            "AIRFLOW_CONN_SPARK_CONNECT_PLAIN_LARGE": own,
            "PIPELINE_HOME": homes[0].home,
            "PIPELINE_TOPOLOGIES": "plain:topology",
            "PYTHONPATH": f"{ROOT}{os.pathsep}{tmp_path}",
            "LAKE": lake,
        }.items():
            monkeypatch.setenv(name, str(value))
        airflow = ["-m", "airflow"]
        commands = (
            [*airflow, "db", "migrate"],
            [*airflow, "dags", "reserialize"],
            ["-c", RUN, str(ROOT / "dags")],
        )
        for command in commands:
            done = subprocess.run([sys.executable, *command], cwd=tmp_path, capture_output=True, text=True)
            assert done.returncode == 0, done.stdout + done.stderr
    finally:
        for home in homes:
            server.stop(home)
    found = query("SELECT id, near, large FROM t ORDER BY id", t=open_table(str(lake / "found")))
    assert [row["id"] for row in found] == [1, 2, 3]
    assert len({row["near"] for row in found}) == len({row["large"] for row in found}) == 1
    assert found[0]["near"] != found[0]["large"]
    settings = Settings.from_env()
    monkeypatch.syspath_prepend(tmp_path)
    topology = load_topology("plain", settings)
    assert audit_report(topology, Store(settings.store, "plain")).passed
