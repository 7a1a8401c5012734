"""The audit of topics: by number and by position, and by what their records say where they are read."""

from dataclasses import replace

import pytest
from pyspark.sql import functions as F

from acker import KafkaTarget
from acker.kafka.cluster import Cluster
from acker.kafka.markers import MARKERS
from acker.operations.cycle import drain, run_cycle
from acker.operations.publish import publish
from acker.operations.replay import replay_by_hand
from acker.operations.selection.selection import Selection
from acker.operations.standing import republish
from acker.reports.audit import audit_report
from tests.kafka.words import Words, cut_short
from tests.kit.broker import Records
from tests.kit.received import received
from tests.kit.waiting import wait_for


@pytest.fixture
def one(topic):
    return topic()


@pytest.fixture
def words(place, one):
    return Words(place.folder, KafkaTarget(one.broker.servers, one.name, key="word", value="word"))


@pytest.fixture
def run(place, words):
    """Two folds, which are sent: x and y, and z."""
    run = place.run(words.topology())
    words.feed("a", ("x", 1), ("y", 2))
    run_cycle(run)
    words.feed("b", ("z", 3))
    run_cycle(run)
    return run


def found(run, read_topics=True):
    """What is wrong, by kind, and why not all was compared."""
    result = audit_report(run.topology, run.store, read_topics=read_topics)
    wrong = {
        kind: sorted((each.message, each.why) for each in findings)
        for kind, findings in result.findings.items()
        if findings
    }
    return wrong, [why for stream in result.streams.values() for why in stream.why]


def add(one, word, offset, attempt="1", value=None):
    """Write a record as that of a line."""
    headers = [("acker-message", f"lines:a.json:{offset}"), ("acker-attempt", attempt)]
    one.add(value or word, key=word, headers=headers)


def make_anew(one):
    one.delete()
    wait_for(lambda: not Cluster(one.broker.servers).has(one.name))
    one.broker.create(one.name)


def test_records_that_are_as_they_were_sent_are_vouched_for_and_what_is_not_read_is_said(run):
    assert found(run) == ({}, [])
    assert audit_report(run.topology, run.store, read_topics=True).vouches
    unread = audit_report(run.topology, run.store)
    (stream,) = unread.streams.values()
    assert (unread.passed, unread.vouches, stream.compared, stream.by_count) == (True, False, 0, 3)
    assert stream.why == ("records are not read, as `acker audit words --read-topics` does",)


DAMAGE = {
    "a record twice": (
        lambda one: add(one, "x", 1),
        {"duplicated": [("lines:a.json:1", "attempt 1: 2 of 1 records")]},
    ),
    "a forged message": (
        lambda one: add(one, "w", 9),
        {
            "unexpected": [
                ("lines:a.json:9", "attempt 1 was not acked, and a record of it is at offset 5 of {topic}-0")
            ]
        },
    ),
    "an attempt that was never made": (
        lambda one: add(one, "x", 1, "7"),
        {
            "unexpected": [
                ("lines:a.json:1", "attempt 7 was not acked, and a record of it is at offset 5 of {topic}-0")
            ]
        },
    ),
    "a record of somebody else": (lambda one: one.add("others", key="x"), {}),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_records_that_nobody_sent_are_named_by_their_messages(damage, run, one):
    change, wrong = DAMAGE[damage]
    change(one)
    assert found(run, read_topics=False)[0] == {}
    told = {kind: [(name, why.format(topic=one.name)) for name, why in each] for kind, each in wrong.items()}
    assert found(run) == (told, [])


def test_deleted_records_fail_no_audit_and_forged_ones_among_the_rest_do(run, one):
    one.forget(before=1)
    gone = f"{one.name}-0 begins at offset 1, and what was sent there at 0"
    short = f"{one.name}-0 has lost its earlier records, which holds 2 of 3 records that were sent there"
    assert found(run) == ({}, [gone, short])
    add(one, "x", 1, value="another value")
    wrong = {"unexpected": [(f"{one.name}-0", "its 3 records do not say what was sent there")]}
    assert found(run) == (wrong, [gone])
    add(one, "y", 2)
    assert found(run)[0] == {"duplicated": [("lines:a.json:2", "attempt 1: 2 of 1 records")]}


def test_a_topic_by_name_that_is_gone_or_made_anew_has_lost_what_was_sent(place, broker, topic):
    one, other = topic(), topic()
    where = f"if(n < 10, '{one.name}', '{other.name}')"
    words = Words(place.folder, KafkaTarget(broker.servers, topic_by=where, value="word"))
    words.feed("a", ("x", 1), ("y", 2), ("z", 30))
    run = place.run(words.topology())
    run_cycle(run)
    assert found(run) == ({}, [])
    other.delete()
    wait_for(lambda: not Cluster(broker.servers).has(other.name))
    gone = (other.name, "1 records were sent to a topic that was deleted since")
    assert found(run, read_topics=False)[0] == {"lost": [gone]}
    make_anew(one)
    words.feed("b", ("v", 4))
    run_cycle(run)
    anew = (one.name, "2 records were sent to a topic that was deleted and made anew since")
    for read_topics in (False, True):
        assert found(run, read_topics)[0] == {"lost": sorted([anew, gone])}
    assert republish(run, "checked", after=2)[0].messages == 0  # which says that it is meant
    said = "of 4 tuples only their number was kept, and not where they were sent"
    assert found(run, read_topics=False)[0] == {}
    words.feed("c", ("u", 5))
    run_cycle(run)
    assert found(run) == ({}, [said])
    assert sorted(value for _, value, _ in received(broker.servers, one.name)) == ["u", "v"]


def test_the_topic_of_an_aggregate_is_looked_at_as_well(place, broker, topic):
    one = topic()
    words = Words(place.folder, KafkaTarget(broker.servers, one.name, key="word"), counted=True)
    words.feed("a", ("x", 1), ("x", 2), ("y", 3))
    run = place.run(words.topology())
    run_cycle(run)
    assert found(run) == ({}, [])
    assert found(run, read_topics=False)[1] == [
        "of its topic: records are not read, as `acker audit words --read-topics` does"
    ]
    one.forget(before=1)
    assert [why.partition(" begins")[0] for why in found(run)[1][:1]] == [f"of its topic: {one.name}-0"]
    make_anew(one)
    wrong = {"lost": [(one.name, "2 records were sent to a topic that was deleted and made anew since")]}
    assert found(run)[0] == found(run, read_topics=False)[0] == wrong


def test_streams_that_share_a_topic_are_compared_together(place, words, one):
    words.feed("a", ("x", 1), ("y", 2))
    run = place.run(words.topology())

    @run.topology.bolt(run.topology.spouts[0])
    def shouted(tuples):
        return tuples.select("anchor", F.upper("word").alias("word"))

    run.topology.publish(shouted, to=replace(words.target))
    run_cycle(run)
    assert found(run) == ({}, [])
    add(one, "x", 1)
    assert found(run) == ({"duplicated": [(f"{one.name}-0", "5 of 4 records that were sent there")]}, [])


def test_attempts_parts_and_tombstones_are_compared_as_they_were_sent(place, broker, topic, monkeypatch):
    one = topic(partitions=3)
    target = KafkaTarget(broker.servers, one.name, key="word", value="if(n = 2, NULL, word)")
    words = Words(place.folder, target)
    words.feed("a", *((f"w{n}", n) for n in range(10)))
    run = place.run(words.topology())
    with cut_short(monkeypatch, rows=3, parts=2):
        run_cycle(run)
    assert found(run) == ({}, [])
    publish(run)
    replay_by_hand(run, Selection(positions=(("a.json", 1),), states=("acked",)), "again", "ada")
    drain(run, sleep=place.clock.advance)
    assert found(run) == ({}, [])
    assert len(received(broker.servers, one.name, 3)) == 11


def test_a_tuple_without_a_topic_is_not_missed(place, broker, one):
    where = f"if(n < 10, '{one.name}', NULL)"
    words = Words(place.folder, KafkaTarget(broker.servers, topic_by=where, value="word"))
    words.feed("a", ("x", 1), ("y", 20))
    run = place.run(words.topology())
    run_cycle(run)
    assert found(run) == ({}, [])
    add(one, "y", 2)
    assert found(run)[0] == {"duplicated": [(f"{one.name}-0", "2 of 1 records that were sent there")]}


def test_what_was_sent_twice_without_transactions_is_told(place, words, one):
    words = replace(words, target=replace(words.target, exactly_once=False))
    words.feed("a", ("x", 1))
    run = place.run(words.topology())
    run_cycle(run)
    assert found(run) == ({}, [])
    add(one, "x", 1)
    numbers = f"{one.name}-0 holds 2 of 1 records that were sent there"
    said = f"{numbers}: without exactly_once some may be there twice"
    assert found(run) == ({}, [said])


def test_what_compaction_took_is_told(place, broker, topic):
    one = topic(cleanup_policy="compact", segment_ms="100", min_cleanable_dirty_ratio="0.01")
    words = Words(place.folder, KafkaTarget(broker.servers, one.name, key="word", value="n"))
    run = place.run(words.topology())
    for number in range(3):
        words.feed(str(number), ("x", number))
        run_cycle(run)
    add_until_compacted(one)
    wrong, why = found(run)
    assert (wrong, why[0].partition(", which")[0]) == ({}, f"the topic {one.name} is compacted")


def add_until_compacted(one):
    """Others write until the records of a key are one."""

    def is_compacted():
        one.add("other", key="other")
        return [key for key, _, _ in received(one.broker.servers, one.name)].count("x") == 1

    wait_for(is_compacted)


def test_who_publishes_again_has_sent_twice_and_that_is_as_it_was_sent(run, words, one):
    make_anew(one)
    republish(run, "checked")
    assert found(run) == ({}, [])


def test_a_marker_of_an_older_version_is_read_and_what_it_does_not_keep_is_said(run, words, one):
    as_of_an_older_version(one)
    old = "of 3 tuples only their number was kept, and not where they were sent"
    assert found(run) == ({}, [old])
    words.feed("c", ("v", 4))
    run_cycle(run)
    assert found(run) == ({}, [old])
    add(one, "x", 1)
    assert found(run)[0] == {"duplicated": [("lines:a.json:1", "attempt 1: 2 of 1 records")]}


def as_of_an_older_version(one):
    """Take from the markers of what was sent to a topic all that an older version did not keep."""
    for name in Cluster(one.broker.servers).names(f"{MARKERS}.*"):
        keys = {key for key, _, _ in received(one.broker.servers, name) if key.startswith(f"{one.name}\0")}
        for key in keys:
            Records(one.broker, name).add(None, key=key)
