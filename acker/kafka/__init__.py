"""A Kafka cluster without Spark: its address, its topics and records, and consumer groups."""
