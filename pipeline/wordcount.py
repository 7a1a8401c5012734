"""Count the words of the Python standard library's own source files, one line a message.

`make run` copies them to `SOURCES`, or with SOURCE=kafka writes them to `TOPIC`. These are two topologies, by
two names, so that each has a store, counts and DAGs of its own. On Kafka the counts are a compacted topic as
well. Some lines are trouble: those that mention a
lookup fail while the file `OUTAGE` exists, as rows do whose lookup service is down; those that raise
NotImplementedError always fail; and some of the library's test files are not UTF-8.
"""

import os
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from acker.components.anchors import fail_when
from acker.core.retry import ExponentialBackoff
from acker.runtime.settings import Settings
from acker.spouts import FileSpout, Spout
from acker.targets.functions import Count
from acker.topology.topology import Topology

if TYPE_CHECKING:
    from acker.targets.kafka import KafkaTarget

SERVERS = os.environ.get("PIPELINE_KAFKA_SERVERS", "").strip()  # of Kafka; empty: the lines are in files
NAME = "wordcount_kafka" if SERVERS else "wordcount"
HOME = Settings.from_env().home / NAME
SOURCES = HOME / "sources"
TOPIC, GROUP, COUNTS_TOPIC = "lines", "wordcount", "word_counts"
OUTAGE = HOME / "lookup-is-down"
COUNTS = HOME / "word_counts"


def source() -> Spout:
    """Where the lines are."""
    if not SERVERS:
        return FileSpout(str(SOURCES), format="text", glob="*.py")
    from acker.spouts.kafka.spout import KafkaSpout

    return KafkaSpout(SERVERS, TOPIC, group=GROUP)


def counts_topic() -> "KafkaTarget | None":
    """Where the counts are sent as well."""
    if not SERVERS:
        return None
    from acker.targets.kafka import KafkaTarget

    return KafkaTarget(SERVERS, COUNTS_TOPIC, key="word")


topology = Topology(
    NAME,
    message_timeout="10 minutes",
    retry=ExponentialBackoff(initial_seconds=1, limit=2),
    batch_rows=50_000,
)
lines = topology.spout("lines", source())


@topology.bolt(lines)
def words(tuples: DataFrame) -> DataFrame:
    """Split each line at white space."""
    down = F.lit(OUTAGE.exists())
    trouble = F.coalesce(
        fail_when(F.col("value").contains("raise NotImplementedError"), "raises NotImplementedError"),
        fail_when(down & F.col("value").contains("lookup"), "the lookup service does not answer"),
    ).alias("_error")
    word = F.explode_outer(F.filter(F.split("value", r"\s+"), lambda word: word != "")).alias("word")
    return tuples.select("anchor", word, trouble).where("word IS NOT NULL OR _error IS NOT NULL")


@topology.bolt(words)
def lowered(tuples: DataFrame) -> DataFrame:
    """Count words whatever their case."""
    return tuples.select("anchor", F.lower("word").alias("word"))


topology.publish(lowered, to=str(COUNTS), by="word", aggregates={"count": Count()}, topic=counts_topic())
