"""A Kafka cluster without Spark: how it is reached, what it holds, and consumer groups."""
