"""Reports on a store, as typed results for terminals, Airflow and pages alike. They need no Spark."""
