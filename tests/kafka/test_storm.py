"""Cases of Storm's tests of its Kafka spout, each named after its case, with what its group sees."""

import pytest
from pyspark.sql import functions as F

from acker import ExponentialBackoff, Topology, fail_when
from acker.core.store.tables import query
from acker.operations.cycle import drain, run_cycle, run_spout
from acker.spouts.kafka.spout import KafkaSpout
from tests.kafka.orders import seen


class Case:
    """A spout of one topic and a bolt that fails the first attempts of some values."""

    def __init__(self, place, broker, records, failing=(), limit=3, **more):
        self.place, self.broker, self.records = place, broker, records
        self.topology = Topology("case", retry=ExponentialBackoff(initial_seconds=1, limit=limit))
        spout = KafkaSpout(broker.servers, records.name, group=f"{records.name}-group", **more)
        self.spout = self.topology.spout("records", spout)
        self.failing = failing
        self.topology.bolt(self.spout, name="checked")(self._checked)
        self.run = place.run(self.topology)

    def _checked(self, tuples):
        return tuples.select("anchor", "value", fail_when(F.col("value").isin(list(self.failing)), "fails"))

    def committed(self, partitions=1):
        return seen(self.broker, f"{self.records.name}-group", self.records.name, partitions)

    def emissions(self):
        """(offset, attempt) of everything that was emitted."""
        found = query(
            "SELECT source_offset, attempt FROM events WHERE kind = 'init'",
            events=self.run.store.require("events"),
        )
        return sorted((row["source_offset"], row["attempt"]) for row in found)


@pytest.fixture
def case(place, broker, topic):
    return lambda *values, **more: _filled(Case(place, broker, topic(), **more), values)


def _filled(case, values):
    case.records.add(*values)
    return case


def test_zero_retries_and_all_fail_commits_all(case):
    found = case(*"0123", failing="0123", limit=0)
    run_cycle(found.run)
    assert (found.committed(), len(found.emissions())) == ([4], 4)


def test_exactly_the_failed_ones_are_emitted_again(case):
    found = case(*"0123456", failing="532")
    run_cycle(found.run)
    assert found.committed() == [2]
    found.failing = ()
    drain(found.run, sleep=found.place.clock.advance)
    assert found.committed() == [7]
    assert [each for each in found.emissions() if each[1] == 2] == [(2, 2), (3, 2), (5, 2)]


def test_null_tuples_are_not_emitted_and_committed(case):
    found = case(*[None] * 10)
    run_cycle(found.run)
    assert (found.emissions(), found.committed()) == ([], [10])


def test_a_gap_that_was_never_emitted_does_not_hold_the_commit_back(case):
    found = case(*"01234")
    found.records.add_in_transaction("5", "6", end="abort")  # offsets 5 and 6, and the marker at 7
    found.records.add("8", "9")
    run_cycle(found.run)
    assert (found.committed(), [offset for offset, _ in found.emissions()]) == ([10], [0, 1, 2, 3, 4, 8, 9])


def test_a_partition_at_its_limit_does_not_block_another(place, broker, topic):
    found = Case(place, broker, topic(partitions=2), partition_rows=2)
    found.records.add(*"abcdef")
    found.records.add("x", partition=1)
    run_spout(found.run, found.spout)
    assert [offset for offset, _ in found.emissions()] == [0, 0, 1]
    drain(found.run, sleep=place.clock.advance)
    assert found.committed(2) == [6, 1]


def test_attempts_are_retries_and_one_and_then_the_offset_is_committed(case):
    found = case("0", "1", failing="0", limit=2)
    drain(found.run, sleep=found.place.clock.advance)
    assert (found.emissions(), found.committed()) == ([(0, 1), (0, 2), (0, 3), (1, 1)], [2])
