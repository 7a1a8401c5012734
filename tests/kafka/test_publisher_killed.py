"""Publishers that are killed with SIGKILL within, before and after a transaction, and the next one."""

import pytest

from acker import KafkaTarget
from acker.operations.cycle import run_bolt, run_spout
from acker.operations.fold import fold
from acker.operations.publish import publish
from acker.reports.audit import audit_report
from tests.kafka.words import Moment, Words, publish_until
from tests.kit.received import newest, received

WHEN = {
    "among the records": [Moment("produce", 2, is_after=True)],
    "after the marker": [Moment("produce", 4, is_after=True)],
    "after the commit": [Moment("commit_transaction", is_after=True)],
    "before the commit twice": [Moment("commit_transaction"), Moment("commit_transaction")],
}
THOROUGH = ("after the marker", "after the commit")


def folded(place, words):
    """A run with a fold of three messages that is not published."""
    words.feed("a", ("x", 1), ("y", 2), ("x", 3))
    run = place.run(words.topology())
    run_spout(run, run.topology.spouts[0])
    run_bolt(run, run.topology.bolts[0])
    fold(run)
    return run


@pytest.mark.parametrize(
    "when", [pytest.param(when, marks=[pytest.mark.thorough] if when in THOROUGH else []) for when in WHEN]
)
def test_a_publisher_that_is_killed_leaves_no_record_twice_and_none_out(when, place, broker, topic, remote):
    one = topic()
    words = Words(place.folder, KafkaTarget(broker.servers, one.name, value="word"))
    run = folded(place, words)
    for moment in WHEN[when]:
        publish_until(moment, words, remote)
    publish(run)
    assert sorted(value for _, value, _ in received(broker.servers, one.name)) == ["x", "x", "y"]
    assert audit_report(run.topology, run.store).passed


@pytest.mark.parametrize(
    "moments",
    [
        pytest.param([Moment("commit_transaction")], id="before", marks=pytest.mark.thorough),
        pytest.param(
            [
                Moment("commit_transaction", is_after=True),
                Moment("init_transactions", is_after=True),
                Moment("init_transactions", is_after=True),
            ],
            id="between the topic and the table, and twice more",
        ),
    ],
)
def test_a_topic_and_its_table_agree_after_a_publisher_was_killed(moments, place, broker, topic, remote):
    one = topic()
    words = Words(place.folder, KafkaTarget(broker.servers, one.name, key="word"), counted=True)
    run = folded(place, words)
    for moment in moments:
        publish_until(moment, words, remote)
    publish(run)
    assert received(broker.servers, one.name) == [
        ("x", '{"word":"x","n":2}', {}),
        ("y", '{"word":"y","n":1}', {}),
    ]
    words.feed("b", ("x", 4))
    run_spout(run, run.topology.spouts[0])
    run_bolt(run, run.topology.bolts[0])
    fold(run)
    publish_until(Moment("commit_transaction", is_after=True), words, remote)
    publish(run)
    assert newest(received(broker.servers, one.name)) == {
        "x": '{"word":"x","n":3}',
        "y": '{"word":"y","n":1}',
    }
    assert place.rows("counts") == [("x", 3), ("y", 1)]
    assert audit_report(run.topology, run.store).passed
