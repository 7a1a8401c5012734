"""Nobody runs anything for three timeouts: that is one turn of the window, and no storm of replays."""

from datetime import timedelta

import polars as pl
import pytest

from acker.core.snapshot.ledger import fold_counts
from acker.operations.cycle import run_bolt, run_cycle, run_spout
from acker.operations.fold import fold
from tests.kit.polars_topology import PolarsTopology, TableSource

TIMEOUT = timedelta(minutes=10)


def chain(place, bolts):
    """Numbers that go through some bolts, one after the other."""
    topology = PolarsTopology("outage", message_timeout="10 minutes")
    stream = topology.spout("numbers", TableSource(place.path("numbers")))
    for name in bolts:
        stream = topology.bolt(stream, name=name)(lambda tuples: tuples.with_columns(pl.col("id") + 1))
    return topology


@pytest.fixture
def halfway(place):
    """A run whose messages have passed the first bolt and wait for the second."""
    place.add("numbers", id=list(range(20)))
    run = place.run(chain(place, ["first", "second"]))
    run_spout(run, run.topology.components["numbers"])
    run_bolt(run, run.topology.components["first"])
    fold(run)
    return run


def test_messages_that_waited_out_an_outage_go_on_where_they_were(place, halfway, states):
    place.clock.advance(3 * TIMEOUT.total_seconds())
    assert fold_counts(fold(halfway)) == {"pending": 20, "late": 0}
    run_cycle(halfway)
    assert states(halfway) == [(offset, 1, "acked") for offset in range(20)]


def test_messages_that_wait_for_a_bolt_are_never_too_old(place, halfway):
    turns = halfway.topology.timeouts.turns
    assert turns is not None
    for _ in range(turns + 1):
        place.clock.advance(TIMEOUT.total_seconds())
        assert fold_counts(fold(halfway)) == {"pending": 20, "late": 0}


def test_messages_that_wait_for_nobody_are_given_a_whole_timeout_after_an_outage(place, halfway):
    run = halfway
    run.store.require("streams/first").delete()  # so nobody ever takes it in
    run_bolt(run, run.topology.components["second"])
    place.clock.advance(3 * TIMEOUT.total_seconds())
    turns = run.topology.timeouts.turns
    assert turns is not None
    for _ in range(turns - 1):
        assert fold_counts(fold(run)) == {"pending": 20, "late": 0}
        place.clock.advance(TIMEOUT.total_seconds() / run.topology.timeouts.windows)
    assert fold_counts(fold(run))["timed_out"] == 20
