"""What a scheduler is told of a topology."""

from acker import FileSpout, KafkaTarget, Topology
from acker.runtime.manifest import manifest_of


def test_streams_that_share_a_topic_have_places_of_their_own(tmp_path):
    topology = Topology("words")
    lines = topology.spout("lines", FileSpout(str(tmp_path)))
    for name in ("checked", "shouted"):
        topology.bolt(lines, name=name)(lambda tuples: tuples)
        topology.publish(name, KafkaTarget("broker:9092", "words"))
    assert manifest_of(topology).tables == {
        "checked": "kafka://broker:9092/words?stream=words.checked",
        "shouted": "kafka://broker:9092/words?stream=words.shouted",
    }
