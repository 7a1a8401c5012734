"""The demonstration's topic, to which its lines go."""

from acker.kafka import groups
from acker.kafka.cluster import Cluster, Partition
from pipeline.demo.topic import Topic


def test_the_lines_of_a_file_are_records_of_one_partition_and_the_group_is_seen(broker):
    topic = Topic(broker.servers)
    topic.add("a.py", b"to be\n\nor")
    topic = Topic(broker.servers)  # which is there already
    topic.add("b.py", b"not \xff")
    assert topic.files() == {"a.py", "b.py"}
    found = dict(topic.messages())
    of_a = next(message.rpartition(":")[0] for message, line in found.items() if line == b"to be")
    assert [found[f"{of_a}:{offset}"] for offset in range(3)] == [b"to be", b"", b"or"]
    assert sorted(found.values()) == [b"", b"not \xff", b"or", b"to be"]
    name = of_a.removeprefix("lines:")
    groups.commit(Cluster(broker.servers), "wordcount", {Partition.parse(name): 2})
    committed, end = topic.lags()[name]
    assert (committed, end >= 3, len(topic.lags())) == (2, True, 4)
