"""A Kafka cluster as it is looked at and written to without Spark."""

from acker.kafka.cluster import Cluster, Partition, Topic

__all__ = ["Cluster", "Partition", "Topic"]
