"""What a cluster says of its topics, and what is said where it does not answer."""

from datetime import UTC, datetime

import pytest

from acker.core.errors import SourceError
from acker.kafka.cluster import Cluster, Partition
from tests.kit.waiting import wait_for


def test_a_partition_is_named_as_by_kafkas_tools():
    assert str(Partition("orders-eu", 3)) == "orders-eu-3"
    assert Partition.parse("orders-eu-3") == Partition("orders-eu", 3)


def test_topics_are_found_by_name_and_by_pattern(broker, topic):
    one = topic(partitions=3)
    cluster = Cluster(broker.servers)
    found = cluster.topics([one.name])[one.name]
    assert (found.name, found.partitions) == (one.name, 3)
    assert cluster.names(one.name) == [one.name]
    assert cluster.names(one.name[1:]) == []  # a pattern is for whole names
    one.delete()
    broker.create(one.name)
    assert cluster.topics([one.name])[one.name].id != found.id


def test_the_end_of_what_is_committed_is_before_a_transaction_that_is_open(broker, topic):
    one = topic()
    one.add("a", "b")
    producer = one.add_in_transaction("c", end="open")
    cluster, at = Cluster(broker.servers), Partition(one.name, 0)
    assert (cluster.ends([at], committed=True)[at], cluster.ends([at], committed=False)[at]) == (2, 3)
    producer.abort_transaction(30)
    wait_for(lambda: cluster.ends([at], committed=True)[at] == 4, 0.1)  # with the marker


def test_an_offset_is_found_by_time(broker, topic):
    one = topic()
    for second in (1_000, 2_000):
        one.add("x", timestamp=second * 1_000)
    cluster, at = Cluster(broker.servers), Partition(one.name, 0)
    found = [cluster.since([at], datetime.fromtimestamp(s, UTC))[at] for s in (0, 1_500, 2_000, 3_000)]
    assert found == [0, 1, 1, None]


def test_a_topic_that_is_not_there_is_named(broker):
    with pytest.raises(SourceError, match="asked for topic nowhere: It is not there: create it"):
        Cluster(broker.servers).topics(["nowhere"])


@pytest.mark.extended
def test_a_broker_that_is_down_is_named():
    with pytest.raises(SourceError, match=r"Kafka at 127\.0\.0\.1:9, asked for topic orders: "):
        Cluster("127.0.0.1:9").topics(["orders"])
