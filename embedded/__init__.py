"""Services for trials, on this machine: Airflow and its parts, a Kafka broker, a Spark cluster."""
