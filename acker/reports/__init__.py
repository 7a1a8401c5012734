"""What a store says of itself, as typed results for terminals, Airflow and pages alike. No Spark."""
