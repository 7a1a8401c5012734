"""Cycles: how much of what there is a spout reads and a bolt takes in."""

import pytest

from acker.airflow import tasks
from acker.operations.cycle import CycleResult, drain, run_bolt, run_cycle, run_spout
from acker.reports.status import status_report
from acker.topology.topology import Topology
from tests.kit.polars_topology import PolarsTopology, TableSource


def test_max_pending_holds_the_spout_back_and_batch_rows_splits_what_is_read(place, states):
    topology = PolarsTopology("held", max_pending=3, batch_rows=2)
    numbers = topology.spout("numbers", TableSource(place.add("numbers", id=[1, 2, 3, 4, 5])))
    kept = topology.bolt(numbers, name="kept")(lambda tuples: tuples)
    run = place.run(topology)
    assert [run_spout(run, numbers) for _ in range(3)] == [(1, 2, 0), (1, 1, 0), (0, 0, 0)]
    found = status_report(run.topology, run.store, run.clock())
    assert (found["in_flight"], found["max_pending"]) == ({"numbers": 3}, 3)
    assert run_bolt(run, kept) == 2
    result = run_cycle(run, limit=5)
    assert (result, states(run)) == (
        CycleResult(0, 0, 0, 0),
        [(1, 1, "acked"), (2, 1, "acked"), (3, 1, "acked")],
    )
    assert run_spout(run, numbers, limit=1) == (1, 1, 0)
    planned = [batch.input.to_json() for batch in run.snapshot().rows("component = 'kept'")]
    assert planned == [{"numbers": {"after": 0, "upto": 1}}, {"numbers": {"after": 1, "upto": 2}}]


def test_a_topology_that_says_nothing_has_an_end_to_what_is_in_flight():
    assert Topology("plain").max_pending == 10_000_000


def test_a_run_goes_on_where_its_first_fold_makes_room(place, states):
    topology = PolarsTopology("full", max_pending=2)
    numbers = topology.spout("numbers", TableSource(place.add("numbers", id=[1, 2, 3])))
    kept = topology.bolt(numbers, name="kept")(lambda tuples: tuples)
    run = place.run(topology)
    assert (run_spout(run, numbers), run_bolt(run, kept)) == ((1, 2, 0), 1)
    drain(run)
    assert states(run) == [(1, 1, "acked"), (2, 1, "acked"), (3, 1, "acked")]


def test_one_task_for_all_components_goes_on_after_one_that_raises_or_waits(place):
    topology = PolarsTopology("forked")
    numbers = topology.spout("numbers", TableSource(place.add("numbers", id=[1])))

    @topology.bolt(numbers)
    def broken(tuples):
        raise OSError("no route")

    topology.bolt(numbers, name="kept")(lambda tuples: tuples)
    run = place.run(topology)
    with pytest.raises(OSError, match="no route"):
        tasks.run_components(run)
    assert run.snapshot().logged("kept") == 1
    place.add("numbers", id=[2])
    done = {"numbers": {"batches": 1, "messages": 1}, "kept": {"batches": 1}}
    assert tasks.run_components(run, waits=True) == done
    with pytest.raises(OSError, match="no route"):
        tasks.run_components(run)
