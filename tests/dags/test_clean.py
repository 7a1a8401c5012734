"""What is old in Airflow's database and among its logs goes, and what is not finished stays."""

import os
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from sqlalchemy import Connection, create_engine, text

from acker.airflow.clean import clean
from tests.kit.compose import running_database
from tests.kit.waiting import wait_for

URL = "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"

NOW = datetime.now(UTC)
DAYS_AGO = {days: NOW - timedelta(days=days) for days in (80, 95, 100, 120, 130)}
RUNS = [  # DAG, run, state, how many days ago it began
    ("gone.run", "endless", "running", 130),  # of a DAG that is gone
    ("shop.run", "ancient", "success", 120),
    ("shop.replay", "waits", "running", 100),
    ("shop.run", "old", "failed", 95),
    ("shop.run", "recent", "success", 80),
    ("shop.acker", "queued", "queued", None),
]


@pytest.fixture(params=["SQLite", pytest.param("Postgres", marks=pytest.mark.thorough)])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The URL of a database without tables."""
    if request.param == "SQLite":
        yield f"sqlite:///{tmp_path}/airflow.db"
    else:
        with running_database() as found:
            yield found.url


@pytest.fixture
def airflow(tmp_path: Path, database: str) -> dict[str, str]:
    """The environment of an Airflow with a database, in which there are runs, and logs."""
    environ = {
        "AIRFLOW_HOME": str(tmp_path / "airflow"),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        URL: database,
        "PIPELINE_HOME": str(tmp_path / "home"),
    }
    subprocess.run([sys.executable, "-m", "airflow", "db", "migrate"], env=os.environ | environ, check=True)
    with create_engine(database).begin() as connection:
        insert(connection, "dag_bundle", name="dags")
        for dag, is_stale in (("gone.run", True), ("shop.replay", False), ("shop.run", False)):
            most = {"max_active_tasks": 1, "max_consecutive_failed_dag_runs": 0, "timetable_type": "none"}
            more = {"is_paused": False, "has_task_concurrency_limits": False, "partition_mapper_info": "{}"}
            insert(connection, "dag", dag_id=dag, is_stale=is_stale, bundle_name="dags", **most, **more)
        insert(connection, "trigger", id=1, classpath="Approval", kwargs="{}", created_date=DAYS_AGO[100])
        for number, (dag, run, state, days) in enumerate(RUNS):
            start = DAYS_AGO[days] if days else None
            key = {"dag_id": dag, "run_id": run, "start_date": start}
            insert(connection, "dag_run", **key, state=state, run_type="manual", run_after=DAYS_AGO[130])
            waits = {"state": "deferred", "trigger_id": 1} if run == "waits" else {"state": state}
            more = {"task_id": "task", "try_number": 1, "pool": "default_pool", "pool_slots": 1, **waits}
            insert(connection, "task_instance", id=f"{number:032}", **key, **more)
            write(tmp_path, f"dag_id={dag}/run_id={run}/task_id=task/attempt=1.log", start or NOW)
        for days, when in DAYS_AGO.items():
            insert(connection, "log", event=f"{days} days ago", dttm=when)
            write(tmp_path, f"dag_processor/{days} days ago/shop.log", when)
    write(tmp_path, "somebody's.log", DAYS_AGO[130])
    return os.environ | environ


def insert(connection: Connection, table: str, **values: object) -> None:
    names, marks = ", ".join(values), ", ".join(f":{name}" for name in values)
    zone = None if connection.dialect.name == "sqlite" else UTC  # SQLite keeps texts
    rows = {
        name: str(each.replace(tzinfo=zone)) if isinstance(each, datetime) else each
        for name, each in values.items()
    }
    connection.execute(text(f"INSERT INTO {table} ({names}) VALUES ({marks})"), rows)


def write(folder: Path, name: str, when: datetime) -> None:
    file = folder / "airflow" / "logs" / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("said\n")
    os.utime(file, (when.timestamp(), when.timestamp()))


def left(environ: dict[str, str]) -> tuple[list[str], ...]:
    """The runs, the runs of the tasks, what `log` tells, the triggers and the logs, each sorted."""
    home = Path(environ["AIRFLOW_HOME"])
    asked = (
        "SELECT run_id FROM dag_run",
        "SELECT run_id FROM task_instance",
        "SELECT event FROM log WHERE event LIKE '%ago'",
        "SELECT id FROM trigger",
    )
    with create_engine(environ[URL]).connect() as connection:
        rows = [sorted(str(value) for (value,) in connection.execute(text(each))) for each in asked]
    logs = home / "logs"
    return *rows, sorted(str(file.relative_to(logs)) for file in logs.rglob("*.log"))


def kept(runs: dict[str, str], *days: int) -> tuple[list[str], ...]:
    """What is left of these runs, each with its DAG, and of these days."""
    ago = sorted(f"{each} days ago" for each in days)
    logs = [f"dag_id={dag}/run_id={run}/task_id=task/attempt=1.log" for run, dag in runs.items()]
    logs += [f"dag_processor/{each}/shop.log" for each in ago]
    return sorted(runs), sorted(runs), ago, ["1"], sorted([*logs, "somebody's.log"])


@pytest.mark.extended
def test_what_is_old_goes_once_a_day_and_what_waits_for_a_person_stays(airflow: dict[str, str]) -> None:
    mark = Path(airflow["PIPELINE_HOME"], "airflow-cleaned")
    mark.parent.mkdir()
    mark.touch()
    os.utime(mark, (0, 0))
    command = [sys.executable, "-m", "acker.airflow", "clean"]
    daily = subprocess.Popen([*command, "--daily"], env=airflow)
    try:
        wait_for(lambda: mark.stat().st_mtime > 0)
    finally:
        daily.terminate()
        daily.wait()
    runs = {"queued": "shop.acker", "waits": "shop.replay", "old": "shop.run", "recent": "shop.run"}
    assert left(airflow) == kept(runs, 80, 95, 100)
    with create_engine(airflow[URL]).begin() as connection:
        connection.execute(text("UPDATE dag_run SET state = 'success' WHERE run_id = 'waits'"))
    subprocess.run(command, env=airflow, check=True)
    assert left(airflow) == kept({"queued": "shop.acker", "recent": "shop.run"}, 80)


def test_with_a_retention_of_0_all_is_kept(capsys: pytest.CaptureFixture[str]) -> None:
    clean(0, NOW)
    assert capsys.readouterr().out == "PIPELINE_AIRFLOW_RETENTION_DAYS is 0: everything is kept.\n"
