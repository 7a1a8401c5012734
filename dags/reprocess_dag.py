"""`<topology>.reprocess` of every registered topology. Airflow finds the DAGs among this module's names."""

from acker.airflow import dags

globals().update(dags("reprocess"))
