"""Offsets that folds commit to a consumer group: seen by any client, and never past what is not settled."""

import logging

import pytest
from confluent_kafka import Consumer

from acker.kafka import groups
from acker.kafka.cluster import Cluster, Partition
from acker.operations.cycle import drain, run_cycle
from acker.reports.status import status_report
from tests.kafka.orders import orders, seen
from tests.kit.stops import Stop, stopping_at
from tests.kit.waiting import wait_for


def test_each_fold_commits_up_to_the_first_message_that_is_not_settled(place, broker, topic):
    one = topic(partitions=2)
    one.add(*(f'{{"id": {n}}}' for n in (1, 3, 2, 5)))
    one.add('{"id": 7}', partition=1)
    one.add_in_transaction('{"id": 9}', end="commit", partition=1)  # and its marker, which is no message
    topology, marker = orders(place, broker.servers, one.name, group=f"{one.name}-watched")
    run = place.run(topology)
    run_cycle(run)
    assert seen(broker, f"{one.name}-watched", one.name, 2) == [2, 3]
    one.add('{"id": 11}')
    marker.touch()
    drain(run, sleep=place.clock.advance)
    one.add('{"id": 13}')
    assert seen(broker, f"{one.name}-watched", one.name, 2) == [5, 3]
    told = status_report(topology, run.store, place.clock())["positions"]
    assert [(row["end"], row["emitted_upto"], row["committed_upto"]) for row in told] == [
        (6, 5, 5),
        (3, 3, 3),
    ]
    at = {Partition(one.name, 0): 5, Partition(one.name, 1): 3}
    assert groups.committed(Cluster(broker.servers), f"{one.name}-watched") == at


def test_a_group_with_members_is_told_and_the_fold_stands(place, broker, topic, caplog):
    one = topic()
    one.add('{"id": 1}')
    group = f"{one.name}-taken"
    member = Consumer({"bootstrap.servers": broker.servers, "group.id": group, "enable.auto.commit": False})
    member.subscribe([one.name])
    wait_for(lambda: member.poll(1) is not None or member.assignment(), 0.1)
    topology, _ = orders(place, broker.servers, one.name, group=group)
    run = place.run(topology)
    with caplog.at_level(logging.ERROR):
        run_cycle(run)
    assert f"The consumer group {group} has members, so its offsets are theirs" in caplog.text
    assert place.rows("checked") == [(1,)]
    member.close()
    run_cycle(run)
    assert seen(broker, group, one.name) == [1]


def test_what_a_fold_that_was_cut_short_did_not_tell_the_group_the_next_one_does(place, broker, topic):
    one = topic()
    one.add('{"id": 1}')
    topology, _ = orders(place, broker.servers, one.name, group=f"{one.name}-late")
    with pytest.raises(Stop):
        run_cycle(place.run(topology, on_step=stopping_at("folded", "acker")))
    assert seen(broker, f"{one.name}-late", one.name) == [-1001]
    run_cycle(place.run(topology))
    assert seen(broker, f"{one.name}-late", one.name) == [1]
    assert place.rows("checked") == [(1,)]
