"""A batch that is given up: its messages fail at once, and the batches after it go on."""

import pytest
from pyspark.sql import functions as F

from acker.airflow.tasks import run_bolt
from acker.batches.batch import give_up
from acker.core.retry import ExponentialBackoff
from acker.operations.cycle import run_cycle, run_spout
from acker.operations.fold import fold
from acker.reports.audit import audit_report
from acker.spouts import DeltaSpout
from acker.topology.topology import Topology


class Switch:
    """A bolt's dependency that is missing until it is mended."""

    column = "missing"


def topology_over(place, switch: Switch) -> Topology:
    topology = Topology("switched", retry=ExponentialBackoff(initial_seconds=1, limit=3))
    numbers = topology.spout("numbers", DeltaSpout(place.path("numbers"), key="id"))

    @topology.bolt(numbers)
    def doubled(tuples):
        return tuples.select("anchor", (F.col(switch.column) * 2).alias("twice"))

    topology.publish(doubled, to=place.path("doubled"))
    return topology


@pytest.fixture
def switched(place):
    place.add("numbers", id=[1, 2, 3])
    switch = Switch()
    return place.run(topology_over(place, switch)), switch


def test_the_last_try_fails_the_messages_with_the_tasks_error(place, switched, states):
    run, _ = switched
    run_spout(run, run.topology.components["numbers"])
    with pytest.raises(Exception, match="missing"):
        run_bolt(run, "doubled", is_last_try=True)
    fold(run)
    two = ((1, "failed"), (2, "retrying"))
    assert states(run) == [(n, attempt, state) for n in (1, 2, 3) for attempt, state in two]


def test_an_earlier_try_leaves_the_batch_to_be_resumed(switched):
    run, switch = switched
    run_spout(run, run.topology.components["numbers"])
    with pytest.raises(Exception, match="missing"):
        run_bolt(run, "doubled", is_last_try=False)
    switch.column = "id"
    assert run_bolt(run, "doubled", is_last_try=False) == {"batches": 1}


def test_what_was_given_up_is_replayed_and_published(place, switched):
    run, switch = switched
    run_spout(run, run.topology.components["numbers"])
    with pytest.raises(Exception, match="missing"):
        run_bolt(run, "doubled", is_last_try=True)
    fold(run)
    switch.column = "id"
    place.clock.advance(60)
    run_cycle(run)
    assert place.rows("doubled") == [(2,), (4,), (6,)]
    assert audit_report(run.topology, run.store).passed


def test_without_an_unfinished_batch_there_is_nothing_to_give_up(switched):
    run, switch = switched
    switch.column = "id"
    run_cycle(run)
    assert give_up(run, run.topology.components["doubled"], "because") is None
