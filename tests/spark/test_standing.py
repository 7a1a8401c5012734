"""Where a publisher stands is known in the store and in the target; what does not agree is refused."""

import shutil
from datetime import timedelta
from pathlib import Path

import pytest
from deltalake import DeltaTable

from acker.batches.run import Run
from acker.core.errors import StoreError
from acker.core.store.schemas import LEDGER
from acker.core.store.store import Store
from acker.operations.cycle import run_cycle
from acker.operations.maintenance.trim import trim_streams
from acker.operations.publish import publish
from acker.operations.standing import adopt, announce, look, republish
from acker.reports.audit import audit_report
from acker.spouts import DeltaSpout
from acker.targets.standing import StandingError
from acker.topology.topology import Topology


def topology_of(place):
    topology = Topology("n", message_timeout=None)
    topology.publish(topology.spout("lines", DeltaSpout(place.path("lines"), key="id")), to=place.path("out"))
    return topology


def run_of(place, store="store"):
    run = Run(topology_of(place), Store(place.path(store), "n"), lambda: place.spark, clock=place.clock)
    run.store.create()
    return run


def ids(place):
    return [row for (row,) in place.rows("out")]


@pytest.fixture
def run(place):
    """Two messages in two folds, published."""
    run = run_of(place)
    for number in (1, 2):
        place.add("lines", id=[number])
        run_cycle(run)
    return run


def dropped(place):
    shutil.rmtree(place.path("out"))


def anew(place):
    dropped(place)
    place.add("out", id=[7])


def old_copy(place):
    Path(place.path("out"), "_delta_log", f"{1:020}.json").unlink()


def restored(place):
    DeltaTable(place.path("out")).restore(0)


# What is done, what is told, up to which fold the table is whole, and whose rows are there beside.
DAMAGES = [
    pytest.param(dropped, r"out is gone, and .*/n has published fold 2 there", 0, [], id="dropped"),
    pytest.param(
        anew, r"out is not the one to which .*/n has published fold 2: that was", 0, [7], id="made anew"
    ),
    pytest.param(
        old_copy, r"out holds lines up to fold 1, and .* fold 2 there: it was", 1, [], id="old copy"
    ),
    pytest.param(
        restored, r"out holds lines up to fold 1, and .* fold 2 there: it was", 1, [], id="restored"
    ),
]


@pytest.mark.parametrize(("damage", "told", "after", "more"), DAMAGES)
def test_what_a_target_has_lost_is_told_and_published_again_when_asked(place, run, damage, told, after, more):
    damage(place)
    place.add("lines", id=[3])
    for refused in (lambda: run_cycle(run), lambda: audit_report(run.topology, run.store)):
        with pytest.raises(StandingError, match=told + r".*`acker republish n lines`, first with --dry-run"):
            refused()
    found = look(run.topology, run.store, "lines")
    assert (found.after, found.messages, found.gone) == (after, 2 - after, 0)
    republish(run, "lines")
    assert ids(place) == [1, 2, 3, *more]
    assert (look(run.topology, run.store, "lines").why, republish(run, "lines")[1]) == (None, 0)
    place.add("lines", id=[4])
    run_cycle(run)
    assert ids(place) == [1, 2, 3, 4, *more]
    found = audit_report(run.topology, run.store)
    assert (found.lost, found.unexpected, found.duplicated) == (0, len(more), 0)


def test_a_new_store_is_not_made_where_another_has_published(place, run):
    new = Store(place.path("elsewhere"), "n")
    with pytest.raises(
        StandingError, match=r"out has rows of another store\. The store .*store/n has published"
    ):
        announce(run.topology, new)
    assert not Path(new.path("")).exists()
    Path(run.store.path("")).rename(place.path("away"))
    with pytest.raises(
        StandingError, match=r"^The store .*store/n is gone: it has published lines to .*out up"
    ):
        announce(run.topology, run.store)
    Path(place.path("away")).rename(run.store.path(""))
    assert announce(run.topology, run.store) is None
    assert announce(Topology("m"), Store(place.path("store"), "m")).startswith("A new store at ")


@pytest.mark.extended
def test_two_stores_publish_to_one_table_only_where_that_is_said(place, run):
    second = run_of(place, "second")
    with pytest.raises(StandingError, match=r"out has rows of another store.*`acker adopt n lines`"):
        run_cycle(second)
    assert ids(place) == [1, 2]
    adopt(second, "lines")
    publish(second)
    assert ids(place) == [1, 1, 2, 2]
    place.add("lines", id=[3])
    run_cycle(run)  # which sees that the second one knows of it
    assert ids(place) == [1, 1, 2, 2, 3]


@pytest.mark.extended
def test_a_store_of_an_older_version_learns_where_it_stands(place, run):
    shutil.rmtree(run.store.path("publishers"))
    older = run_of(place)
    place.add("lines", id=[3])
    run_cycle(older)
    assert ids(place) == [1, 2, 3]
    dropped(place)
    with pytest.raises(StandingError, match="out is gone, and"):
        publish(older)


def test_what_is_published_and_not_recorded_is_known_at_the_next_publish(place, run):
    newest = max(Path(run.store.path("publishers"), "_delta_log").glob("*.json"))
    newest.unlink()  # as if the publisher had died before it
    again = run_of(place)
    place.clock.advance(60)
    assert trim_streams(again, timedelta(0)) == {"lines": 1}
    assert (publish(again), publish(again)) == (0, 0)
    assert trim_streams(again, timedelta(0)) == {"lines": 1}
    old_copy(place)
    with pytest.raises(StandingError, match="out holds lines up to fold 1, and"):
        publish(again)


@pytest.mark.extended
def test_what_was_trimmed_is_not_published_again_and_is_counted(place, run):
    place.clock.advance(60)
    assert trim_streams(run, timedelta(0)) == {"lines": 2}
    place.add("lines", id=[3])
    run_cycle(run)
    dropped(place)
    with pytest.raises(StandingError):
        trim_streams(run, timedelta(0))
    found, _ = republish(run, "lines")
    assert (found.messages, found.gone, ids(place)) == (1, 2, [3])


def test_rows_of_which_nobody_knows_are_not_published_again(place, run):
    rows = DeltaTable(place.path("out")).to_pyarrow_table()
    shutil.rmtree(place.path("out"))
    place.add("out", **{name: rows[name].to_pylist() for name in rows.column_names})
    with pytest.raises(StoreError, match=r"out has rows that were published, and its history does not tell"):
        republish(run, "lines")
    assert run.store.require(LEDGER) and ids(place) == [1, 2]
