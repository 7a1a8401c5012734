"""The demonstration on Kafka, whole: Airflow, Spark and a broker, with failures, killings and its verdict."""

import os
import re
import subprocess
import sys

import pytest
from confluent_kafka import Consumer, TopicPartition

from acker.testing.session import SHORT_LIVED
from tests.kit import ROOT
from tests.kit.broker import Broker, running_broker


def lags_that_kafka_tells(broker: Broker) -> dict[str, tuple[int, int]]:
    """Partition -> how far the group is, and the end."""
    consumer = Consumer({"bootstrap.servers": broker.servers, "group.id": "wordcount"})
    found = consumer.committed([TopicPartition("lines", n) for n in range(4)], timeout=30)
    lags = {f"lines-{at.partition}": (at.offset, consumer.get_watermark_offsets(at)[1]) for at in found}
    consumer.close()
    return lags


def number(text: str) -> int:
    return int(text.replace(",", ""))


@pytest.mark.extended
def test_the_demonstration_on_kafka_agrees_with_a_plain_count_and_with_the_lag_that_kafka_tells(tmp_path):
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PIPELINE_")}
    ours = {"PIPELINE_HOME": str(tmp_path), "SOURCE": "kafka", "ONCE": "1", "LINES": "4000"}
    done = subprocess.run(
        [sys.executable, "-m", "pipeline.demo"],
        cwd=ROOT,
        env=kept | SHORT_LIVED | ours,
        capture_output=True,
        text=True,
    )
    print(done.stdout, done.stderr)
    assert done.returncode == 0
    assert "The counts agree." in done.stdout
    told = re.findall(r"^(lines-\d): committed ([\d,]+) of ([\d,]+), lag 0$", done.stdout, re.MULTILINE)
    with running_broker(tmp_path / "broker") as broker:  # on the data that the demonstration has left
        assert lags_that_kafka_tells(broker) == {name: (number(c), number(end)) for name, c, end in told}
