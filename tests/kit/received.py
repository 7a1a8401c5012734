"""What a consumer that is not ours finds in a topic."""

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, TopicPartition


def received(servers, topic, partitions=1, level="read_committed"):
    """Its records, partition by partition: (key, value, headers), all as text."""
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": "reader",
            "isolation.level": level,
            "enable.auto.commit": False,
            "enable.partition.eof": True,
        }
    )
    found = []
    try:
        for number in range(partitions):
            consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING)])
            while True:
                record = consumer.poll(10)
                assert record is not None, "no answer"
                if record.error():
                    assert record.error().code() == KafkaError._PARTITION_EOF, record.error()
                    break
                headers = {name: text.decode() for name, text in record.headers() or ()}
                found.append((_text(record.key()), _text(record.value()), headers))
    finally:
        consumer.close()
    return found


def newest(records):
    """Key -> its newest value, as compaction leaves it; tombstones are gone."""
    found = {key: value for key, value, _ in records}
    return {key: value for key, value in found.items() if value is not None}


def _text(data):
    return None if data is None else data.decode()
