"""A fold that has nothing for a target leaves it alone, and counts as published all the same."""

from datetime import timedelta

from acker import Count
from acker.core.store.tables import open_table
from acker.operations import publish as publishing
from acker.operations.cycle import run_cycle
from acker.operations.maintenance.trim import trim_streams
from acker.operations.publish import publish, published_through
from acker.reports.audit import audit_report
from acker.spouts import DeltaSpout
from acker.topology.topology import Topology


def sorted_lines(place):
    """Lines, of which those whose number is below 0 are rejected and counted by their word."""
    topology = Topology("sorted")
    lines = topology.spout("lines", DeltaSpout(place.path("lines"), key="id"))

    @topology.bolt(lines)
    def good(tuples):
        return tuples.where("n >= 0")

    @topology.bolt(lines)
    def rejected(tuples):
        return tuples.where("n < 0")

    topology.publish(good, to=place.path("good"))
    topology.publish(rejected, to=place.path("rejects"), by="word", aggregates={"times": Count()})
    return place.run(topology)


def version_of(place, name):
    table = open_table(place.path(name))
    return None if table is None else table.version()


def test_a_fold_with_nothing_for_a_table_makes_no_commit_there_and_is_published(place):
    run = sorted_lines(place)
    seen = []
    for number, n in enumerate((1, -1, 2, 3, -2)):
        place.add("lines", id=[number], word=["a"], n=[n])
        commits = run_cycle(run).commits
        passed = published_through(run.topology, run.snapshot())
        seen.append((commits, version_of(place, "good"), version_of(place, "rejects"), passed))
        assert (audit_report(run.topology, run.store).unpublished, publish(run)) == (0, 0)
    assert seen == [(1, 0, None, 1), (1, 0, 0, 2), (1, 1, 0, 3), (1, 2, 0, 4), (1, 2, 1, 5)]
    assert place.rows("rejects") == [("a", 2)]
    assert audit_report(run.topology, run.store).verdict == "pass"


def test_what_was_passed_over_is_trimmed_and_what_comes_after_it_is_published(place):
    run = sorted_lines(place)
    for number in range(3):
        place.add("lines", id=[number], word=["a"], n=[1])
        run_cycle(run)
        place.clock.advance(1_000)
    assert trim_streams(run, older_than=timedelta(seconds=500)) == {"lines": 3, "good": 3, "rejected": 3}
    place.add("lines", id=[3], word=["a"], n=[-1])
    run_cycle(run)
    assert (place.rows("rejects"), audit_report(run.topology, run.store).verdict) == ([("a", 1)], "pass")


def test_of_many_folds_with_nothing_the_newest_is_taken_in_now_and_then(place, monkeypatch):
    monkeypatch.setattr(publishing, "MOST_PASSED_OVER", 2)
    run = sorted_lines(place)
    versions = []
    for number in range(4):
        place.add("lines", id=[number], word=["a"], n=[1])
        run_cycle(run)
        versions.append(version_of(place, "rejects"))
    assert versions == [None, 0, 0, 1]
    assert audit_report(run.topology, run.store).verdict == "pass"
