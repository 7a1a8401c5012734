"""Consumer groups: the offsets that a reader has committed, for monitors of its lag."""

from collections.abc import Mapping

from acker.core.errors import SourceError
from acker.kafka.cluster import Cluster, Partition, translating_errors, when_ready

try:
    from confluent_kafka import ConsumerGroupTopicPartitions, KafkaException, TopicPartition
except ImportError as error:
    raise ImportError("Kafka needs the package confluent-kafka: pip install 'acker[kafka]'.") from error

_HAS_MEMBERS = ("UNKNOWN_MEMBER_ID", "REBALANCE_IN_PROGRESS", "NON_EMPTY_GROUP")


def commit(cluster: Cluster, group: str, offsets: Mapping[Partition, int]) -> None:
    """Set the offsets of a group, which nobody may be a member of.

    Args:
        offsets: partition -> one past the last offset that is done.

    Raises:
        SourceError: the group has members, or the cluster does not answer.
    """
    if not offsets:
        return
    asked = [TopicPartition(*partition, offset) for partition, offset in offsets.items()]
    with translating_errors(cluster, f"the offsets of group {group}"):
        try:
            _alter(cluster, ConsumerGroupTopicPartitions(group, asked))
        except KafkaException as error:
            if error.args[0].name() not in _HAS_MEMBERS:
                raise
            raise SourceError(
                f"The consumer group {group} has members, so its offsets are theirs: end them, or give the "
                "spout a group of its own."
            ) from error


def _alter(cluster: Cluster, asked: ConsumerGroupTopicPartitions) -> None:
    """Set the offsets as soon as the group's coordinator can, which takes moments after a start."""
    admin = cluster.admin()

    def ask() -> None:
        (future,) = admin.alter_consumer_group_offsets([asked]).values()
        for each in future.result().topic_partitions or ():
            if each.error is not None:
                raise KafkaException(each.error)

    when_ready(ask)


def committed(cluster: Cluster, group: str) -> dict[Partition, int]:
    """The offsets of a group.

    Raises:
        SourceError: the cluster does not answer.
    """
    admin = cluster.admin()
    asked = [ConsumerGroupTopicPartitions(group)]
    with translating_errors(cluster, f"the offsets of group {group}"):
        answer = when_ready(lambda: admin.list_consumer_group_offsets(asked)[group].result())
    found = answer.topic_partitions or ()
    return {Partition(at.topic, at.partition): at.offset for at in found if at.offset >= 0}
