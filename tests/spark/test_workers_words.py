"""What Python code says in Spark's workers reaches who runs it: what it prints, and why a batch is held."""

import pytest
from pyspark.errors import PySparkException

from acker import DeltaSpout, RichBolt, Topology
from acker.operations.cycle import run_cycle
from acker.reports.failures import held_batches
from acker.runtime.printed import PrintedLines


def test_what_bolts_print_is_shown_with_their_names(place, settings):
    topology = Topology("prints")
    words = topology.spout("words", DeltaSpout(place.add("words", id=[1], word=["tea"]), key="id"))

    @topology.basic_bolt(words, schema="word string")
    def items(row):
        print("basic", row.word)
        yield {"word": row.word}

    @topology.rich_bolt(items, schema="word string")
    class Rich(RichBolt):
        def execute(self, tup, collector):
            print("rich", tup.word)
            collector.ack(tup)

    lines = PrintedLines(settings, "prints")
    run_cycle(place.run(topology))
    assert list(lines.new()) == ["items: basic tea", "rich: rich tea"]


def test_a_held_batch_says_the_last_line_of_the_workers_own_trace(place):
    topology = Topology("held")
    words = topology.spout("words", DeltaSpout(place.add("words", id=[1]), key="id"))

    @topology.basic_bolt(words, schema="id int")
    def items(row):
        import nosuch  # noqa: F401

        yield row

    run = place.run(topology)
    with pytest.raises(PySparkException):
        run_cycle(run)
    (hold,) = held_batches(run.snapshot())
    assert hold.reason == "ModuleNotFoundError: No module named 'nosuch'"
