"""What is failed for good is a dead letter at once, whoever says so; what else fails is tried again."""

from dataclasses import dataclass

import pytest
from pyspark.sql import functions as F

from acker import DeltaSpout, ExponentialBackoff, PermanentFailure, RichBolt, Topology, fail_when
from acker.core.events import State
from acker.core.store.schemas import LEDGER
from acker.core.store.tables import query
from acker.operations.cycle import run_cycle
from acker.operations.replay import replay_by_hand
from acker.operations.selection.selection import Selection

REPLAYED = Selection(states=(State.DEAD_LETTER,), reason="never")


@dataclass(frozen=True)
class Choosy(DeltaSpout):
    """Message 5 can never be read, and 6 cannot be read now."""

    def read_range(self, spark, planned):
        found = super().read_range(spark, planned)
        unreadable = F.when(F.col("id") == 5, "reject").when(F.col("id") == 6, "fail")
        return found.withColumns(
            {"_kind": unreadable, "_error": F.concat("_source_offset", F.lit(" is odd"))}
        )


class Strict(RichBolt):
    """Rejects 4 and raises on 7."""

    def execute(self, tup, collector):
        if tup.id == 7:
            raise PermanentFailure("no seven")
        if tup.id == 4:
            collector.fail(tup, "too late", retry=False)
        else:
            collector.ack(tup)


@pytest.mark.extended
def test_what_is_failed_for_good_is_a_dead_letter_at_once_and_can_be_replayed(place):
    topology = Topology("final", retry=ExponentialBackoff(initial_seconds=60, limit=3))
    numbers = topology.spout("numbers", Choosy(place.add("numbers", id=list(range(1, 9))), key="id"))

    @topology.bolt(numbers)
    def checked(tuples):
        never = fail_when(F.col("id") == 1, "never", retry=False)
        return tuples.select(
            "anchor", F.coalesce(never, fail_when(F.col("id") == 2, "not yet")).alias("_error")
        )

    @topology.basic_bolt(numbers, schema="id bigint")
    def known(tup):
        if tup.id == 3:
            raise PermanentFailure("no such thing")
        yield (tup.id,)

    topology.rich_bolt(numbers, schema="id bigint", name="strict")(Strict)
    run = place.run(topology)
    run_cycle(run)
    rows = query(
        "SELECT source_offset, state, reason, component FROM ledger "
        "WHERE root_id IS NOT NULL AND state NOT IN ('failed', 'pending') ORDER BY source_offset",
        ledger=run.snapshot().require(LEDGER),
    )
    assert [tuple(row.values()) for row in rows] == [
        (1, "dead_letter", "for good: never", "checked"),
        (2, "retrying", "not yet", "checked"),
        (3, "dead_letter", "for good: no such thing", "known"),
        (4, "dead_letter", "for good: too late", "strict"),
        (5, "dead_letter", "for good: 5 is odd", "numbers"),
        (6, "retrying", "6 is odd", "numbers"),
        (7, "dead_letter", "for good: no seven", "strict"),
        (8, "acked", None, None),
    ]
    assert replay_by_hand(run, REPLAYED, "it may pass now", "ada").counts["replayed"] == 1
