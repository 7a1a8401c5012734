"""Airflow's command line, after the imports that all tasks need: `python -m acker.airflow scheduler`.

Airflow's LocalExecutor forks each task from a worker that was forked from the scheduler. So no task imports
a module again that the scheduler has imported. None of these imports starts a thread that a fork would miss.

One command is not Airflow's: `python -m acker.airflow clean` deletes old rows of Airflow's database and old
logs, and `clean --daily` stays and does so once a day.
"""

import sys
from importlib import import_module

_OF_ALL_TASKS = ("acker.airflow.tasks", "pyspark.sql.connect.session")


def main() -> None:
    """Run the command `airflow` after the imports, or clean."""
    if sys.argv[1:] in (["clean"], ["clean", "--daily"]):
        _clean()
        return
    for name in _OF_ALL_TASKS:
        import_module(name)
    import_module("airflow.__main__").main()


def _clean() -> None:
    from acker.airflow.clean import clean_daily, clean_now
    from acker.core.errors import AckerError
    from acker.runtime.settings import Settings

    try:
        settings = Settings.from_env()
        clean_daily(settings) if "--daily" in sys.argv else clean_now(settings)
    except AckerError as error:
        sys.exit(f"Error: {error}")


if __name__ == "__main__":
    main()
