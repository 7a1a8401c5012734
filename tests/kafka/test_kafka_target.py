"""Publishing to topics: each fold once for readers of what is committed, and what a topic does not take."""

import json
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from functools import partial

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource
from deltalake import DeltaTable
from pyspark.sql import functions as F

from acker import Count, DeltaSpout, KafkaSpout, KafkaTarget, Topology
from acker.core.errors import SourceError, TopologyError
from acker.core.events import State
from acker.core.store.tables import query
from acker.kafka import sending
from acker.kafka.cluster import Cluster
from acker.operations.cycle import drain, run_bolt, run_cycle, run_spout
from acker.operations.fold import fold
from acker.operations.maintenance.trim import trim_streams
from acker.operations.publish import publish
from acker.operations.replay import replay_by_hand
from acker.operations.selection.selection import Selection
from acker.reports.audit import audit_report
from acker.targets import kafka
from tests.kafka.words import Words, cut_short
from tests.kit.broker import running_broker
from tests.kit.received import newest, received


def test_tuples_of_acked_messages_are_records_with_message_and_attempt(place, broker, topic):
    one = topic()
    words = Words(place.folder, KafkaTarget(broker.servers, one.name, key="word"))
    words.feed("a", ("x", 1), ("y", -2))
    run = place.run(words.topology())
    run_cycle(run)
    assert [key for key, _, _ in received(broker.servers, one.name)] == ["x"]
    words.mend()
    drain(run, sleep=place.clock.advance)
    assert received(broker.servers, one.name) == [
        ("x", '{"word":"x","n":1}', {"acker-message": "lines:a.json:1", "acker-attempt": "1"}),
        ("y", '{"word":"y","n":-2}', {"acker-message": "lines:a.json:2", "acker-attempt": "2"}),
    ]
    assert publish(run) == 0
    assert audit_report(run.topology, run.store).passed


def test_topic_key_and_value_are_expressions_and_a_null_topic_sends_nothing(place, broker, topic):
    small, large = topic(), topic()
    where = f"CASE WHEN n < 10 THEN '{small.name}' WHEN n < 100 THEN '{large.name}' END"
    words = Words(place.folder, KafkaTarget(broker.servers, topic_by=where, key="n", value="upper(word)"))
    words.feed("a", ("x", 1), ("y", 20), ("z", 300))
    run = place.run(words.topology())
    run_cycle(run)
    assert [record[:2] for record in received(broker.servers, small.name)] == [("1", "X")]
    assert [record[:2] for record in received(broker.servers, large.name)] == [("20", "Y")]
    assert audit_report(run.topology, run.store).passed


def test_a_record_that_its_topic_would_not_take_fails_its_message_before_the_ack(place, broker, topic):
    one = topic(max_message_bytes="2000")
    where = f"if(n < 3, '{one.name}', 'nowhere')"
    words = Words(place.folder, KafkaTarget(broker.servers, topic_by=where, value="word"))
    words.feed("a", ("x", 1), ("y" * 2_000, 2))
    run = place.run(words.topology())
    words.feed("b", ("z", 3))
    run_cycle(run)
    assert [value for _, value, _ in received(broker.servers, one.name)] == ["x"]
    failed = query(
        "SELECT reason FROM ledger WHERE state = 'failed' ORDER BY reason", ledger=run.store.require("ledger")
    )
    assert [row["reason"] for row in failed] == [
        "there is no topic nowhere",
        f"topic {one.name} takes 2000 bytes at most, and the record has 2500",
    ]


def test_what_a_topic_does_not_take_any_more_after_the_ack_is_a_dead_letter(place, broker, topic):
    one = topic(max_message_bytes="9000")
    words = Words(place.folder, KafkaTarget(broker.servers, one.name, value="word"))
    words.feed("a", ("x", 1), ("y" * 2_000, 2), ("z", 3))
    run = place.run(words.topology())
    for component in (*run.topology.spouts, *run.topology.bolts):
        (run_spout if component.is_spout else run_bolt)(run, component)
    fold(run)
    limit = ConfigEntry("max.message.bytes", "2000", incremental_operation=AlterConfigOpType.SET)
    changed = ConfigResource(ConfigResource.Type.TOPIC, one.name, incremental_configs=[limit])
    admin = AdminClient({"bootstrap.servers": broker.servers})
    admin.incremental_alter_configs([changed])[changed].result()
    drain(run)
    assert [value for _, value, _ in received(broker.servers, one.name)] == ["x", "z"]
    found = audit_report(run.topology, run.store)
    assert (found.verdict, found.acked, found.dead_letter) == ("pass", 2, 1)
    assert f"topic {one.name} takes 2000 bytes at most" in found.dead_letters[0].why


def test_a_fold_of_many_parts_goes_on_where_it_was_cut_short(place, broker, topic, monkeypatch):
    one = topic(partitions=2)
    target = KafkaTarget(broker.servers, one.name, key="word", value="word")
    words = Words(place.folder, target)
    words.feed("a", *((f"w{n}", n) for n in range(10)))
    run = place.run(words.topology())
    with cut_short(monkeypatch, rows=3, parts=2) as parts:
        run_cycle(run)
    assert len(received(broker.servers, one.name, 2)) == sum(parts)
    assert audit_report(run.topology, run.store).passed
    monkeypatch.setattr(kafka, "PART_ROWS", 5)  # the fold stays divided as it was
    assert publish(run) == 1
    assert sorted(value for _, value, _ in received(broker.servers, one.name, 2)) == [
        f"w{n}" for n in range(10)
    ]
    assert audit_report(run.topology, run.store).passed


def test_what_a_replay_of_an_acked_message_publishes_comes_beside_the_former(place, broker, topic):
    one = topic()
    words = Words(place.folder, KafkaTarget(broker.servers, one.name, key="word", value="word"))
    words.feed("a", ("x", 1), ("y", 2))
    run = place.run(words.topology())
    run_cycle(run)
    replay_by_hand(run, Selection(states=(State.ACKED,), positions=(("a.json", 1),)), "again", "ada")
    drain(run, sleep=place.clock.advance)
    found = [(key, headers["acker-attempt"]) for key, _, headers in received(broker.servers, one.name)]
    assert found == [("x", "1"), ("y", "1"), ("x", "2")]
    assert audit_report(run.topology, run.store).passed
    words.feed("b", ("z", 3))
    place.clock.advance(1_000)
    run_cycle(run)
    assert trim_streams(run, older_than=timedelta(seconds=500)) != {}
    assert audit_report(run.topology, run.store).passed


def test_a_compacted_topic_holds_what_the_table_of_a_running_aggregate_holds(place, broker, topic):
    one = topic(cleanup_policy="compact")
    counts = KafkaTarget(broker.servers, one.name, key="word")
    words = Words(place.folder, counts, counted=True)
    words.feed("a", ("x", 1), ("x", 2), ("y", 3), ("z", -1))
    run = place.run(words.topology())
    run_cycle(run)
    words.feed("b", ("x", 4), ("w", 5))
    run_cycle(run)
    words.mend()
    drain(run, sleep=place.clock.advance)
    assert newest(received(broker.servers, one.name)) == {
        "w": '{"word":"w","n":1}',
        "x": '{"word":"x","n":3}',
        "y": '{"word":"y","n":1}',
        "z": '{"word":"z","n":1}',
    }
    assert place.rows("counts") == [("w", 1), ("x", 3), ("y", 1), ("z", 1)]
    assert audit_report(run.topology, run.store).passed


def test_what_a_table_refuses_after_the_ack_is_not_sent_to_its_topic_either(place, broker, topic):
    one = topic(cleanup_policy="compact")
    words = Words(place.folder, KafkaTarget(broker.servers, one.name, key="word"), counted=True)
    words.feed("a", ("x", 1), ("y", 2))
    run = place.run(words.topology())
    run_cycle(run)
    words.feed("b", ("x", 3), ("y", 4), ("z", 5))
    for component in (*run.topology.spouts, *run.topology.bolts):
        (run_spout if component.is_spout else run_bolt)(run, component)
    fold(run)
    DeltaTable(place.path("counts")).alter.add_constraint({"few": "word <> 'x' OR n < 2"})
    drain(run)
    counted = {"x": 1, "y": 2, "z": 1}
    assert dict(place.rows("counts")) == counted
    assert {
        word: json.loads(row)["n"] for word, row in newest(received(broker.servers, one.name)).items()
    } == counted
    assert [key for key, _, _ in received(broker.servers, one.name)].count("x") == 1  # not even for a while
    found = audit_report(run.topology, run.store)
    assert (found.verdict, found.acked, found.dead_letter) == ("pass", 4, 1)
    assert "CHECK constraint few" in found.dead_letters[0].why


@pytest.mark.thorough
def test_a_topic_that_is_added_to_a_table_gets_what_changes_and_a_tombstone_of_a_row_that_is_gone(
    place, broker, topic
):
    one = topic(cleanup_policy="compact")
    is_retracted = (place.folder / "retracted").exists

    def counted(target):
        topology = Topology("counted")
        words = topology.spout("words", DeltaSpout(place.path("words"), key="id"))

        @topology.bolt(words)
        def kept(tuples):
            return tuples.select("anchor", "word").where((F.col("word") != "x") | F.lit(not is_retracted()))

        topology.publish(kept, place.path("counts"), by="word", aggregates={"n": Count()}, topic=target)
        return place.run(topology)

    place.add("words", id=[1, 2], word=["x", "y"])
    run_cycle(counted(None))
    run = counted(KafkaTarget(broker.servers, one.name, key="word"))
    place.add("words", id=[3], word=["x"])
    run_cycle(run)
    assert received(broker.servers, one.name) == [("x", '{"word":"x","n":2}', {})]
    (place.folder / "retracted").touch()
    replay_by_hand(run, Selection(states=(State.ACKED,), spout="words"), "retracted", "ada")
    drain(run, sleep=place.clock.advance)
    later = {key: value for key, value, _ in received(broker.servers, one.name)[1:]}
    assert later == {"x": None, "y": '{"word":"y","n":1}'}
    assert place.rows("counts") == [("y", 1)]
    assert audit_report(run.topology, run.store).passed


def test_two_clients_that_publish_the_same_fold_at_once_send_it_once(place, broker, topic):
    one = topic()
    words = Words(place.folder, KafkaTarget(broker.servers, one.name, value="word"))
    words.feed("a", *((f"w{n}", n) for n in range(100)))
    run = place.run(words.topology())
    run_spout(run, run.topology.spouts[0])
    run_bolt(run, run.topology.bolts[0])
    fold(run)
    with ThreadPoolExecutor() as pool:
        done = list(pool.map(publish, [place.run(run.topology), place.run(run.topology)]))
    assert max(done) == 1
    assert len(received(broker.servers, one.name)) == 100
    assert audit_report(run.topology, run.store).passed


@pytest.mark.parametrize("left", [KafkaException(KafkaError(KafkaError._FENCED)), None])
def test_what_ends_a_producer_while_it_calls_back_is_told_also_where_python_has_lost_it(left):
    with pytest.raises(KafkaException) as raised, sending._as_raised():
        raise SystemError("flush returned NULL without setting an exception") from left
    assert raised.value.args[0].name() in sending._FENCED


class Slow(Producer):
    """One that hears of its end after a record that it took, and not before."""

    def produce(self, *args, **options):
        super().produce(*args, **options)
        time.sleep(0.5)


def test_a_sender_that_another_ends_while_it_sends_says_so(broker, topic, monkeypatch):
    one = topic()
    record = sending.Record(one.name, None, b"x")
    monkeypatch.setattr(sending, "Producer", Slow)

    def new_sender():
        return sending.Sender(Cluster(broker.servers), "same", {one.name: 1_000_000}, transactional=True)

    def records():
        new_sender()
        yield from [record] * 10

    ended = new_sender()
    for _ in range(2):  # and at the next transaction as well
        with pytest.raises(sending.Fenced, match="Another client sends as same"):
            ended.send(records(), lambda part: [record])
    assert received(broker.servers, one.name) == []


def test_a_client_that_a_later_fold_overtook_sends_nothing(place, broker, topic, monkeypatch):
    one = topic()
    words = Words(place.folder, KafkaTarget(broker.servers, one.name, value="word"))
    words.feed("a", ("x", 1))
    run = place.run(words.topology())
    run_spout(run, run.topology.spouts[0])
    run_bolt(run, run.topology.bolts[0])
    fold(run)
    create = kafka.create_markers

    def overtaken(*where):
        monkeypatch.setattr(kafka, "create_markers", create)
        words.feed("b", ("y", 2))
        run_cycle(place.run(words.topology()))
        create(*where)

    monkeypatch.setattr(kafka, "create_markers", overtaken)
    publish(run)
    assert sorted(value for _, value, _ in received(broker.servers, one.name)) == ["x", "y"]
    assert audit_report(run.topology, run.store).passed


def test_two_streams_are_published_to_one_topic(place, broker, topic):
    one = topic()
    target = KafkaTarget(broker.servers, one.name, value="word")
    words = Words(place.folder, target)
    words.feed("a", ("x", 1))
    run = place.run(words.topology())

    @run.topology.bolt(run.topology.spouts[0])
    def shouted(tuples):
        return tuples.select("anchor", F.upper("word").alias("word"))

    run.topology.publish(shouted, to=target)
    run_cycle(run)
    assert sorted(value for _, value, _ in received(broker.servers, one.name)) == ["X", "x"]
    assert audit_report(run.topology, run.store).passed


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"topic": "t"}, "KafkaTarget needs servers or a connection, and not both."),
        ({"servers": "s"}, "KafkaTarget needs a topic or topic_by, and not both."),
    ],
)
def test_what_does_not_fit_together_is_refused(arguments, said):
    with pytest.raises(TopologyError, match=said):
        KafkaTarget(**arguments)


def test_an_expression_that_does_not_fit_the_stream_names_it(place, broker, topic):
    for wrong, said in (
        ({"key": "wrod"}, "KafkaTarget of what checked publishes: .*wrod"),
        ({"value": "struct(word)"}, "value is struct<word:string>; make it text"),
    ):
        words = Words(place.folder, KafkaTarget(broker.servers, topic().name, **wrong))
        words.feed("a", ("x", 1))
        run = place.run(words.topology())
        with pytest.raises(TopologyError, match=said):
            run_cycle(run)


def test_a_topic_of_a_running_aggregate_needs_a_key(place):
    with pytest.raises(TopologyError, match="give its KafkaTarget a key"):
        Words(place.folder, KafkaTarget("s", "t"), counted=True).topology()


def test_a_topic_that_is_not_there_holds_the_batch(place, broker):
    words = Words(place.folder, KafkaTarget(broker.servers, "never_made"))
    words.feed("a", ("x", 1))
    run = place.run(words.topology())
    with pytest.raises(SourceError, match="the settings of topic never_made: It is not there: create it"):
        run_cycle(run)
    broker.create("never_made")
    run_cycle(run)
    assert len(received(broker.servers, "never_made")) == 1


@pytest.mark.thorough
def test_while_the_broker_is_down_nothing_is_published_and_the_next_run_goes_on(place, tmp_path):
    with running_broker(tmp_path / "broker") as broker:
        one = broker.create("words")
        words = Words(place.folder, KafkaTarget(broker.servers, "words", value="word"))
        words.feed("a", ("x", 1))
        run = place.run(words.topology())
        run_spout(run, run.topology.spouts[0])
        run_bolt(run, run.topology.bolts[0])
        broker.kill()
        with pytest.raises(SourceError, match=f"Kafka at {broker.servers}"):
            fold(run)
        broker.start()
        run_cycle(run)
        assert [value for _, value, _ in received(broker.servers, one.name)] == ["x"]


@pytest.mark.extended
def test_a_broker_that_is_killed_among_the_records_of_a_fold(place, tmp_path, monkeypatch):
    monkeypatch.setattr(sending, "_PATIENCE_SECONDS", 2)
    with running_broker(tmp_path / "broker") as broker:
        broker.create("words")
        words = Words(place.folder, KafkaTarget(broker.servers, "words", value="word"))
        words.feed("a", *((f"w{n}", n) for n in range(10)))
        run = place.run(words.topology())
        run_spout(run, run.topology.spouts[0])
        run_bolt(run, run.topology.bolts[0])
        fold(run)
        with monkeypatch.context() as patched:
            patched.setattr(kafka, "_each", partial(killing, broker, kafka._each))
            with pytest.raises(SourceError, match=f"Kafka at {broker.servers}"):
                publish(run)
        broker.start()
        assert publish(run) == 1
        assert sorted(value for _, value, _ in received(broker.servers, "words")) == [
            f"w{n}" for n in range(10)
        ]
        assert audit_report(run.topology, run.store).passed


def killing(broker, each, records):
    """The records of a fold; the broker is killed when half of them are out."""
    for number, record in enumerate(each(records)):
        if number == 5:
            broker.kill()
        yield record


def test_without_transactions_each_record_is_there_at_least_once(place, broker, topic):
    one = topic()
    words = Words(place.folder, KafkaTarget(broker.servers, one.name, value="word", exactly_once=False))
    words.feed("a", ("x", 1), ("y", 2))
    run = place.run(words.topology())
    run_cycle(run)
    assert publish(run) == 0
    assert [value for _, value, _ in received(broker.servers, one.name)] == ["x", "y"]
    assert audit_report(run.topology, run.store).passed


@pytest.mark.thorough
def test_a_record_of_10_mb_goes_from_topic_to_topic(place, broker, topic):
    here, there = (topic(max_message_bytes="12000000") for _ in range(2))
    producer = Producer({"bootstrap.servers": broker.servers, "message.max.bytes": 12_000_000})
    producer.produce(here.name, "x" * 10_000_000)
    assert producer.flush(30) == 0
    topology = Topology("large")
    texts = topology.spout("texts", KafkaSpout(broker.servers, here.name))

    @topology.bolt(texts)
    def copied(tuples):
        return tuples.select("anchor", "value")

    topology.publish(copied, KafkaTarget(broker.servers, there.name, value="value"))
    run_cycle(place.run(topology))
    assert [len(value) for _, value, _ in received(broker.servers, there.name)] == [10_000_000]
