"""Runs that are stopped at any step or overtaken: the end is as if nothing had happened."""

from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import functions as F

from acker.components.anchors import fail_when
from acker.core.retry import ExponentialBackoff
from acker.operations.cycle import run_cycle
from acker.reports.audit import audit_report
from acker.spouts import DeltaSpout
from acker.topology.topology import Topology
from tests.kit.stops import stopped_once_at_each_step


def squares(folder):
    """Squares of numbers; number 2 fails while the file `outage` is there, and is tried again at once."""
    topology = Topology("squares", retry=ExponentialBackoff(initial_seconds=0, limit=20))
    numbers = topology.spout("numbers", DeltaSpout(f"{folder}/numbers", key="id"))

    @topology.bolt(numbers)
    def squared(tuples):
        down = F.lit(Path(folder, "outage").exists()) & (F.col("id") == 2)
        return tuples.select(
            "anchor", (F.col("id") ** 2).cast("int").alias("square"), fail_when(down, "down")
        )

    topology.publish(squared, to=f"{folder}/squares")
    return topology


def verdict(run):
    found = audit_report(run.topology, run.store)
    return found.verdict, found.emitted, found.acked, found.unpublished, found.recovered


@pytest.mark.extended
def test_a_run_that_is_stopped_at_every_step_ends_as_one_that_was_not(place):
    place.add("numbers", id=[1, 2, 3])
    outage = Path(place.path("outage"))
    outage.touch()
    run = place.run(squares(place.folder))
    first = stopped_once_at_each_step(run)
    outage.unlink()
    again = stopped_once_at_each_step(run)
    steps = [(name, one) for one in ("numbers", "squared") for name in ("planned", "written", "logged")]
    assert first == again == [*steps, ("folding", "acker"), ("folded", "acker"), ("published", "squared")]
    assert (place.rows("squares"), verdict(run)) == ([(1,), (4,), (9,)], ("pass", 3, 3, 0, 1))


def test_a_run_that_is_overtaken_while_it_looks_for_messages_follows_the_faster_one(place):
    faster = []

    class Overtaken(DeltaSpout):
        def next_range(self, *looked):
            found = super().next_range(*looked)
            while faster:
                run_cycle(faster.pop())
            return found

    topology = Topology("overtaken")
    numbers = topology.spout("numbers", Overtaken(place.add("numbers", id=[1, 2, 3]), key="id"))
    kept = topology.bolt(numbers, name="kept")(lambda tuples: tuples)
    topology.publish(kept, to=place.path("kept"))
    run = place.run(topology)
    faster.append(replace(run, run_id="faster"))
    run_cycle(run)
    assert [batch.run_id for batch in run.snapshot().rows("true")] == ["faster", "faster"]
    assert place.rows("kept") == [(1,), (2,), (3,)]
