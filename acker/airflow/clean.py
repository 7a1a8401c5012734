"""Deletes old rows of Airflow's database and old logs. It is no task, since tasks have no database.

`airflow db clean` goes by age alone. It would delete runs that are not finished, such as a replay that waits
for a person. So nothing is deleted that is younger than the oldest unfinished run.
"""

import logging
import os
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

from acker.runtime.home import writing
from acker.runtime.settings import Settings

_DAY_SECONDS = 24 * 3600
_AGAIN_SECONDS = 3600  # after a failure; and how late it may be where a machine slept
_MARGIN = timedelta(seconds=1)  # SQLite compares times as texts, of which one ends with a zone
_MOST_DAYS = 36_500  # before which there was nothing
_MARK = "airflow-cleaned"  # below the home; when it was changed is when Airflow was cleaned
# A trigger lives for as long as a DAG watches with it, and takes along what waits for it. Airflow's triggerer
# deletes those that nothing needs.
_LEFT_OUT = "trigger"

log = logging.getLogger(__name__)


def clean(days: int, now: datetime) -> None:
    """Delete rows of Airflow's database and log files that are older than some days.

    Args:
        days: the age in days; 0: everything is kept.
        now: the present time, in UTC.

    Raises:
        RuntimeError: a table could not be cleaned; Airflow has logged why.
    """
    if not days:
        print("PIPELINE_AIRFLOW_RETENTION_DAYS is 0: everything is kept.")
        return
    from airflow.configuration import conf
    from airflow.sdk import timezone
    from airflow.utils.db_cleanup import config_dict, run_cleanup

    before = now - timedelta(days=min(days, _MOST_DAYS))
    held = _oldest_unfinished(before)
    if held:
        dag, run, began = held
        before = began - _MARGIN
        print(f"The run {run} of {dag} has not ended, so what came after it is kept: end it, or its DAG.")
    run_cleanup(
        clean_before_timestamp=timezone.coerce_datetime(before),
        table_names=sorted(config_dict.keys() - {_LEFT_OUT}),
        confirm=False,
        skip_archive=True,
        error_on_cleanup_failure=True,
    )
    folders = [*Path(conf.get("logging", "base_log_folder")).glob("dag_id=*/run_id=*")]
    folders += Path(conf.get("logging", "dag_processor_child_process_log_directory")).glob("*")
    deleted = sum(
        _delete_files(folder, before) for folder in folders if folder.is_dir() and not folder.is_symlink()
    )
    print(f"Deleted {deleted} log files of before {before:%Y-%m-%d %H:%M} UTC.")


def clean_daily(settings: Settings) -> None:
    """Clean once a day for ever, each time in a process of its own.

    In a new home the first cleaning is after a day. A cleaning that failed is tried again after an hour.
    """
    mark = settings.home / _MARK
    with writing(settings.home):
        settings.home.mkdir(parents=True, exist_ok=True)
        if not mark.exists():
            mark.touch()
    while True:
        left = mark.stat().st_mtime + _DAY_SECONDS - time.time()
        if left <= 0:
            if subprocess.run([sys.executable, "-m", "acker.airflow", "clean"]).returncode == 0:
                mark.touch()
                continue
            log.error("Airflow was not cleaned. It is tried again in an hour.")
        time.sleep(min(left, _AGAIN_SECONDS) if left > 0 else _AGAIN_SECONDS)


def clean_now(settings: Settings) -> None:
    """Clean at once; see `clean`."""
    clean(settings.airflow_retention_days, datetime.now(UTC))


def _oldest_unfinished(before: datetime) -> tuple[str, str, datetime] | None:
    """The oldest run that began before a time and has not ended; None where there is none.

    A run of a DAG that is gone does not count, since it never ends.

    Returns:
        The id of the DAG, the id of the run, and the beginning of the run.
    """
    from airflow.models.dag import DagModel
    from airflow.models.dagrun import DagRun
    from airflow.utils.session import create_session
    from airflow.utils.state import State
    from sqlalchemy import select

    oldest = (
        select(DagRun.dag_id, DagRun.run_id, DagRun.start_date)
        .join(DagModel, DagModel.dag_id == DagRun.dag_id)
        .where(DagRun.state.in_(State.unfinished_dr_states), DagRun.start_date < before)
        .where(DagModel.is_stale.is_(False))  # a run of a DAG that is gone never ends
        .order_by(DagRun.start_date)
        .limit(1)
    )
    with create_session() as session:
        found = session.execute(oldest).first()
    return None if found is None else (found.dag_id, found.run_id, found.start_date)


def _delete_files(folder: Path, before: datetime) -> int:
    """Delete the files below a folder that were last written before a time, and folders that become empty.

    Returns:
        The number of the deleted files.
    """
    deleted = 0
    for root, _, names in os.walk(folder, topdown=False):
        was_old = Path(root).stat().st_mtime < before.timestamp()
        old = [name for name in names if Path(root, name).lstat().st_mtime < before.timestamp()]
        for name in old:
            Path(root, name).unlink(missing_ok=True)
        deleted += len(old)
        if (old or was_old) and not os.listdir(root):
            Path(root).rmdir()
    for root, _, _ in os.walk(folder, topdown=False):  # of which the last files went just now
        if deleted and not os.listdir(root):
            Path(root).rmdir()
    return deleted
