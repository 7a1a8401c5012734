"""Airflow's command line, after the imports of what all tasks need: `python -m acker.airflow scheduler`.

Airflow's LocalExecutor forks each task from a worker that was forked from the scheduler, so what the
scheduler has imported no task imports again. None of these imports starts a thread that a fork would miss.
"""

from importlib import import_module

_OF_ALL_TASKS = ("acker.airflow.tasks", "pyspark.sql.connect.session")


def main() -> None:
    """Import, and do what `airflow` does."""
    for name in _OF_ALL_TASKS:
        import_module(name)
    import_module("airflow.__main__").main()


if __name__ == "__main__":
    main()
