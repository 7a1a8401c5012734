"""A batch that is held says why in one line, wherever a person looks."""

import pytest

from acker.batches.holds import held_if_it_raises
from acker.batches.plan import plan_bolt
from acker.cli import rendering as render
from acker.operations.cycle import run_spout
from acker.reports.failures import Failures, held_batches
from acker.reports.health import findings
from acker.reports.looks import Look
from acker.reports.status import status_report
from tests.kit.limits import LIMITS
from tests.kit.polars_topology import PolarsTopology, TableSource

WORKER = """
  An exception was thrown from the Python worker. Please see the stack trace below.
Traceback (most recent call last):
  File "/srv/shop.py", line 12, in items
    import nosuch
ModuleNotFoundError: No module named 'nosuch'

JVM stacktrace:
org.apache.spark.api.python.PythonException
"""
SAID = "ModuleNotFoundError: No module named 'nosuch'"


@pytest.fixture
def run(place):
    """A run whose bolt's first batch has raised in Spark's Python workers."""
    topology = PolarsTopology("shop")
    numbers = topology.spout("numbers", TableSource(place.add("numbers", id=[1])))
    topology.bolt(numbers, name="items")(lambda tuples: tuples)
    run = place.run(topology)
    run_spout(run, topology.components["numbers"])
    batch = plan_bolt(run, run.snapshot(), topology.components["items"])
    with pytest.raises(RuntimeError), held_if_it_raises(run, batch):
        raise RuntimeError(WORKER)
    return run


def test_a_held_batch_says_the_last_line_of_the_workers_own_trace(run):
    status = status_report(run.topology, run.store, run.clock())
    assert [each["held"] and each["held"]["reason"] for each in status["components"]] == [None, SAID]
    assert [hold.reason for hold in held_batches(run.snapshot())] == [SAID]
    told = [str(each) for each in findings(Look(run.topology, run.store, LIMITS, run.clock()))]
    assert [each for each in told if SAID in each and "acker give-up" in each] != []


def test_failures_names_the_batches_that_are_held(run, capsys):
    render.failures(Failures((), 0, 0), {}, 1, held_batches(run.snapshot()))
    assert capsys.readouterr().out.splitlines() == [
        f"items holds batch 1 since {run.clock():%Y-%m-%d %H:%M} UTC, tried once: {SAID}. Its messages wait.",
        "No message fails.",
    ]
