"""The demonstration's topic, to which its lines go."""

from acker.kafka import groups
from acker.kafka.cluster import Cluster, Partition
from pipeline.demo.topic import Topic


def test_lines_are_records_by_turns_of_the_partitions_and_the_group_is_seen(broker):
    Topic(broker.servers).add("a.py", b"to be\n\nor")
    topic = Topic(broker.servers)  # which is there already
    topic.add("b.py", b"not \xff")
    assert topic.files() == {"a.py", "b.py"}
    assert dict(topic.messages()) == {
        "lines:lines-0:0": b"to be",
        "lines:lines-0:1": b"not \xff",
        "lines:lines-1:0": b"",
        "lines:lines-2:0": b"or",
    }
    groups.commit(Cluster(broker.servers), "wordcount", {Partition("lines", 0): 1})
    assert topic.lags() == {"lines-0": (1, 2), "lines-1": (0, 1), "lines-2": (0, 1), "lines-3": (0, 0)}
