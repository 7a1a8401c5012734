"""Copies of a store that publishes to a topic: what they send, and what they do not."""

import pytest

from acker import KafkaTarget
from acker.batches.run import Run
from acker.core.store.store import Store
from acker.operations.cycle import run_bolt, run_cycle, run_spout
from acker.operations.fold import fold
from acker.operations.maintenance.backup import back_up
from acker.operations.maintenance.restore import move, restore
from acker.operations.publish import publish
from acker.operations.standing import adopt
from acker.reports.audit import audit_report
from acker.reports.trace import trace_report
from acker.targets.standing import StandingError
from tests.kafka.words import Words, cut_short
from tests.kit.received import received


@pytest.fixture
def words(place, broker, topic):
    """Words that are published to a topic."""
    return Words(place.folder, KafkaTarget(broker.servers, topic().name, value="word"))


def restored(place, run):
    """A run over what a backup becomes that is made now, beside the original."""
    backup, store = place.path("backup"), Store(place.path("restored"), run.store.topology)
    manifest = back_up(run.topology, run.store, backup, run.clock)
    manifest.write(backup)
    assert manifest.elsewhere == {"checked": run.topology.publications["checked"].to}
    _, lease = restore(run.topology, store, backup, run.clock)
    lease.release()
    return Run(run.topology, store, run.connect, clock=run.clock)


def moved(place, run):
    """A run over the store in another place."""
    there, finish = move(run.topology, run.store, place.path("moved"), run.clock, is_stopped=True)
    finish()
    return Run(run.topology, there, run.connect, clock=run.clock)


def sent(words):
    return sorted(value for _, value, _ in received(words.target.servers, words.target.topic))


def judged(run):
    """The verdict, and what is wrong with what was published."""
    found = audit_report(run.topology, run.store)
    return found.verdict, [finding.why for each in found.findings.values() for finding in each]


def test_what_the_original_sends_after_a_backup_comes_once_more_from_the_copy(place, words):
    words.feed("a", ("x", 1))
    run = place.run(words.topology())
    run_cycle(run)
    copy = restored(place, run)
    assert judged(copy) == ("pass", [])
    first = [entry.what for entry in trace_report(copy.topology, copy.store, "lines:a.json:1")]
    assert first.count("published") == 1  # in the original's time
    words.feed("b", ("y", 2))
    run_cycle(run)
    with pytest.raises(StandingError, match=r"has rows of another store.* is a copy of it, made at fold 1"):
        run_cycle(copy)
    adopt(copy, "checked")
    assert judged(copy) == ("fail", ["took in 2 tuples, but 1 were acked"])
    publish(copy)
    assert publish(copy) == publish(run) == 0
    assert sent(words) == ["x", "y", "y"]
    assert judged(copy) == ("fail", ["took in 3 tuples, but 2 were acked"])
    assert judged(run) == ("pass", [])


def test_a_fold_that_a_backup_holds_is_sent_by_the_original_or_by_the_copy(place, words):
    words.feed("a", ("x", 1))
    run = place.run(words.topology())
    run_spout(run, run.topology.spouts[0])
    run_bolt(run, run.topology.bolts[0])
    fold(run)
    copy = restored(place, run)
    assert publish(run) == 1
    assert publish(copy) == 0
    assert sent(words) == ["x"]
    assert judged(copy) == judged(run) == ("pass", [])


def test_a_moved_store_goes_on_within_the_fold_that_was_cut_short(place, words, monkeypatch):
    words.feed("a", *((f"w{n}", n) for n in range(10)))
    run = place.run(words.topology())
    with cut_short(monkeypatch, rows=3, parts=2):
        run_cycle(run)
    there = moved(place, run)
    assert judged(there) == ("pass", [])
    assert publish(there) == 1
    words.feed("b", ("x", 1))
    run_cycle(there)
    assert sent(words) == [*(f"w{n}" for n in range(10)), "x"]
    assert judged(there) == ("pass", [])
