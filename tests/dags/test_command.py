"""Airflow's command line with the imports of all tasks done."""

import os
import subprocess
import sys

import pytest

ASK = """
import runpy, sys
sys.argv = ["airflow", "version"]
try:
    runpy.run_module("acker.airflow", run_name="__main__", alter_sys=False)
except SystemExit as ended:
    assert not ended.code
wanted = ("acker.airflow.tasks", "deltalake", "grpc", "polars", "pyspark.sql.connect.session")
print("MISSING", [name for name in wanted if name not in sys.modules])
"""


@pytest.mark.extended
def test_airflow_runs_after_the_imports_of_all_tasks(tmp_path):
    environ = os.environ | {"AIRFLOW_HOME": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", ASK], env=environ, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    version, missing = done.stdout.splitlines()[-2:]
    assert version[0].isdigit()
    assert missing == "MISSING []"
