"""A topic, or that of the markers, which is deleted or made anew: nothing is sent before somebody says so."""

import shutil

import pytest

from acker import KafkaTarget
from acker.batches.run import Run
from acker.core.errors import SourceError
from acker.core.store.store import Store
from acker.kafka.cluster import Cluster
from acker.operations.cycle import run_bolt, run_cycle, run_spout
from acker.operations.fold import fold
from acker.operations.publish import publish
from acker.operations.standing import look, republish
from acker.reports.audit import audit_report
from acker.reports.health import findings
from acker.reports.looks import Look
from acker.targets.standing import StandingError
from tests.kafka.words import Words
from tests.kit.limits import LIMITS
from tests.kit.received import received
from tests.kit.waiting import wait_for


@pytest.fixture
def words(place, broker, topic):
    return Words(place.folder, KafkaTarget(broker.servers, topic().name, value="word"))


@pytest.fixture
def run(place, words):
    """Two folds, which are sent."""
    run = place.run(words.topology())
    for name in ("x", "y"):
        words.feed(name, (name, 1))
        run_cycle(run)
    return run


def delete(words, pattern):
    cluster = Cluster(words.target.servers)
    for name in cluster.names(pattern):
        admin = cluster.admin()
        admin.delete_topics([name])[name].result()
        wait_for(lambda name=name: not cluster.has(name))


def sent(words):
    return sorted(value for _, value, _ in received(words.target.servers, words.target.topic))


@pytest.mark.parametrize(
    ("after", "again", "then"), [(None, 2, ["x", "x", "y", "y", "z"]), (2, 0, ["x", "y", "z"])]
)
def test_without_its_markers_nothing_is_sent_before_it_is_said_what_is_there(words, run, after, again, then):
    delete(words, "acker-published-.*-checked")
    words.feed("z", ("z", 1))
    told = (
        r"holds checked up to fold 0, .* fold 2 there: the topic acker-published-.*-checked, which .* deleted"
    )
    with pytest.raises(StandingError, match=told):
        run_cycle(run)
    assert sent(words) == ["x", "y"]
    found, _ = republish(run, "checked", after)
    assert (found.messages, found.gone, found.is_sent_twice) == (again, 0, True)
    assert sent(words) == then
    assert look(run.topology, run.store, "checked").why is None
    assert audit_report(run.topology, run.store).passed


def test_a_topic_that_was_made_anew_gets_nothing_before_it_is_asked_for_and_then_all(words, run, broker):
    delete(words, words.target.topic)
    broker.create(words.target.topic, 1)
    words.feed("z", ("z", 1))
    with pytest.raises(
        StandingError, match=r"is not the one to which .* has published fold 2: that was deleted"
    ):
        run_cycle(run)
    assert sent(words) == []
    assert republish(run, "checked")[0].is_sent_twice is False
    assert sent(words) == ["x", "y", "z"]
    assert audit_report(run.topology, run.store).passed


def test_a_second_store_is_not_new_to_a_topic(place, words, run):
    other = Run(run.topology, Store(place.path("second"), "words"), run.connect, clock=run.clock)
    other.store.create()
    with pytest.raises(
        StandingError, match=r"has rows of another store\. The store .*/store/words has published"
    ):
        run_cycle(other)
    assert sent(words) == ["x", "y"]


def test_a_store_of_an_older_version_learns_how_far_a_topic_is(place, words, run):
    shutil.rmtree(run.store.path("publishers"))
    older = place.run(run.topology)
    older.store.create()
    assert publish(older) == 0
    delete(words, "acker-published-.*-checked")
    with pytest.raises(StandingError, match="deleted or emptied"):
        publish(older)


def test_a_topic_that_is_gone_before_it_has_anything_is_told_as_why_nothing_is_published(place, words):
    run = place.run(words.topology())
    words.feed("x", ("x", 1))
    for step in (*run.topology.spouts, *run.topology.bolts):
        (run_bolt if step.inputs else run_spout)(run, step)
    fold(run)
    delete(words, words.target.topic)
    with pytest.raises(SourceError, match="topic"):
        publish(run)
    place.clock.advance(2 * 86_400)

    late = audit_report(run.topology, run.store, overdue_before=run.clock()).overdue["checked"]

    assert (late.messages, late.tries, words.target.topic in str(late.reason)) == (1, 1, True)
    broker_said = findings(Look(run.topology, run.store, LIMITS, run.clock()))
    assert [str(late.reason) in str(each) for each in broker_said] == [True, False]
