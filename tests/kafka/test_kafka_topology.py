"""Whole topologies on a broker: failures, replays, a broker that is killed, what is gone meanwhile."""

import pytest

from acker.core.errors import SourceError
from acker.core.store.tables import query
from acker.operations.cycle import drain, run_cycle, run_spout
from acker.reports.audit import audit_report
from acker.reports.status import status_report
from tests.kafka.orders import orders
from tests.kit.broker import running_broker
from tests.kit.waiting import wait_for


def states(run):
    found = query(
        "SELECT source_offset, state, reason FROM ledger WHERE root_id IS NOT NULL "
        "AND state NOT IN ('failed', 'pending', 'retrying') ORDER BY source_offset",
        ledger=run.store.require("ledger"),
    )
    return [(row["source_offset"], row["state"], row["reason"]) for row in found]


def test_what_failed_is_read_back_and_published_once(place, broker, topic):
    one = topic()
    one.add(*(f'{{"id": {n}}}' for n in (1, 2, 3, 4, -5)), "no json")
    topology, marker = orders(place, broker.servers, one.name)
    run = place.run(topology)
    run_cycle(run)
    (backlog,) = status_report(topology, run.store, place.clock())["sources"]
    assert backlog["unread"] == {}
    marker.touch()
    drain(run, sleep=place.clock.advance)
    assert place.rows("checked") == [(1,), (2,), (3,), (4,)]
    assert audit_report(topology, run.store).passed
    assert states(run)[4:] == [
        (4, "dead_letter", "bad"),
        (5, "dead_letter", "for good: not valid JSON for the schema: no json"),
    ]
    (position,) = status_report(topology, run.store, place.clock())["positions"]
    assert (position["source_partition"], position["committed_upto"]) == (f"{one.name}-0", 6)


def test_what_is_gone_before_its_replay_is_lost_with_the_reason(place, broker, topic):
    one = topic(cleanup_policy="compact,delete", segment_ms="100", min_cleanable_dirty_ratio="0.01")
    for n in (2, 4, 6):
        one.add(f'{{"id": {n}}}', key=str(n))
    topology, marker = orders(place, broker.servers, one.name)
    run = place.run(topology)
    run_cycle(run)
    one.add('{"id": 41}', key="4")  # compaction keeps this one in place of the former
    one.forget(before=1)
    await_compaction(one)
    marker.touch()
    place.clock.advance(60)
    run_cycle(run)
    found = {offset: (state, reason) for offset, state, reason in states(run)}
    assert found[0] == ("lost", "gone from the topic, whose partition begins at offset 1")
    assert found[1] == ("lost", "compacted away, of a transaction that was aborted, or without a value")
    assert found[2][0] == "acked"


def await_compaction(one):
    """Write and wait until the log cleaner has taken offset 1; it never takes the newest segment."""

    def is_taken():
        one.add('{"id": 1}', key="other")
        return 1 not in one.offsets()

    wait_for(is_taken)


@pytest.mark.extended
def test_while_the_broker_is_down_nothing_is_planned_and_nothing_is_used_up(place, tmp_path):
    with running_broker(tmp_path / "broker") as broker:
        one = broker.create("orders")
        one.add('{"id": 1}')
        topology, _ = orders(place, broker.servers, one.name)
        run = place.run(topology)
        broker.kill()
        with pytest.raises(SourceError, match=f"Kafka at {broker.servers}"):
            run_cycle(run)
        assert run.snapshot().planned("records") == 0
        broker.start()
        run_cycle(run)
        one.add('{"id": 3}')
        killing = place.run(topology, on_step=lambda step: broker.kill() if step.name == "planned" else None)
        with pytest.raises(SourceError, match=f"Kafka at {broker.servers}"):
            run_spout(killing, topology.spouts[0])
        assert (run.snapshot().planned("records"), run.snapshot().logged("records")) == (2, 1)
        broker.start()
        drain(run, sleep=place.clock.advance)
        assert place.rows("checked") == [(1,), (3,)]
        assert audit_report(topology, run.store).recovered == 0
