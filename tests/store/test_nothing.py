"""Which folds have anything for a target, without Spark: the others count as published at once."""

import pytest

from acker.operations import publish as publishing
from acker.operations.cycle import run_bolt, run_spout
from acker.operations.fold import fold
from acker.operations.publish import acked_folds, published_through, published_upto
from acker.reports.audit import audit_report
from tests.kit.polars_topology import PolarsTopology, TableSource


@pytest.fixture
def run(place):
    """A topology whose bolt emits the odd numbers alone, which are published to a table."""
    topology = PolarsTopology("sorted")
    numbers = topology.spout("numbers", TableSource(place.path("numbers")))
    topology.bolt(numbers, name="odd")(lambda tuples: tuples.filter(tuples["id"] % 2 == 1))
    topology.publish("odd", to=place.path("published"))
    return place.run(topology)


def acked(place, run, *numbers):
    """Some messages, which one fold acks."""
    place.add("numbers", id=[*numbers])
    run_spout(run, run.topology.spouts[0])
    run_bolt(run, run.topology.bolts[0])
    fold(run)


def folds(run):
    journal = run.snapshot()
    return [each.fold for each in acked_folds(run.topology, journal, "odd", 0, journal.fold.number)]


def test_a_fold_without_a_tuple_for_a_target_is_published_as_it_is(place, run):
    (publication,) = run.topology.publications.values()
    seen = []
    for numbers in ((2, 4), (6,), (1, 8), (10,), (3, 5)):
        acked(place, run, *numbers)
        seen.append((folds(run), published_upto(run.topology, run.snapshot(), publication)))
    assert seen == [([], 1), ([], 2), ([3], 2), ([3], 2), ([3, 5], 2)]
    assert published_through(run.topology, run.snapshot()) == 2
    assert audit_report(run.topology, run.store).unpublished == 5


def test_of_many_folds_without_a_tuple_every_so_many_the_newest_counts(place, run, monkeypatch):
    monkeypatch.setattr(publishing, "MOST_PASSED_OVER", 2)
    for number in (2, 4, 6, 1, 8, 10):
        acked(place, run, number)
    assert folds(run) == [2, 4, 6]


def test_files_of_a_stream_are_read_some_at_a_time_until_each_fold_is_found(place, run, monkeypatch):
    monkeypatch.setattr("acker.operations.contents._BYTES_AT_ONCE", 1)
    for number in (1, 3, 2, 5):
        acked(place, run, number)
    assert folds(run) == [1, 2, 4]
