from acker.airflow import dags

globals().update(dags())
