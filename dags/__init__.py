"""Airflow's DAGs: wiring only. Everything that they run is in `pipeline`."""
