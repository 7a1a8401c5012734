"""A topology of orders from a topic, and what a group of consumers is told of it."""

from confluent_kafka import Consumer, TopicPartition
from pyspark.sql import functions as F

from acker import ExponentialBackoff, Topology, fail_when
from acker.spouts.kafka.schemes import Json
from acker.spouts.kafka.spout import KafkaSpout


def orders(place, servers, topic, **more):
    """Of what has an even id the first attempt fails; a negative id fails each time."""
    topology = Topology("orders", retry=ExponentialBackoff(initial_seconds=60, limit=1))
    spout = KafkaSpout(servers, topic, scheme=Json("id bigint"), **more)
    records = topology.spout("records", spout)
    marker = place.folder / "lookup"

    @topology.bolt(records)
    def checked(tuples):
        is_bad = (F.col("id") < 0) | ((F.col("id") % 2 == 0) & F.lit(not marker.exists()))
        return tuples.select("anchor", "id", fail_when(is_bad, "bad"))

    topology.publish(checked, to=place.path("checked"))
    return topology, marker


def seen(broker, group, topic, partitions=1):
    """The offsets of a group as a client of Kafka's sees them; -1001 where there is none."""
    consumer = Consumer({"bootstrap.servers": broker.servers, "group.id": group})
    try:
        asked = [TopicPartition(topic, number) for number in range(partitions)]
        return [each.offset for each in consumer.committed(asked, 10)]
    finally:
        consumer.close()
