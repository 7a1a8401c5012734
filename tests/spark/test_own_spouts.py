"""Spouts that an author writes: their ranges may be any JSON value."""

from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from acker import ExponentialBackoff, SourceError, Topology, fail_when
from acker.operations.cycle import drain, run_cycle
from acker.reports.audit import audit_report
from acker.reports.status import status_report
from acker.spouts import History, Range

COLUMNS = "_source_partition string, _source_offset bigint, id bigint"


@dataclass(frozen=True)
class Lists:
    """A list of numbers for each range. A range describes itself as it likes."""

    described: tuple[Range, ...]
    numbers: tuple[int, ...]

    def next_range(self, spark: SparkSession, history: History, limit: int) -> Range | None:
        done = len(history.every())
        return self.described[done] if done < len(self.described) else None

    def read_range(self, spark: SparkSession, planned: Range) -> DataFrame:
        place = self.described.index(planned)
        return self._rows(spark, [self.numbers[place]])

    def ends(self, planned: Range) -> dict[str, int]:
        return {"0": self.numbers[self.described.index(planned)] + 1}

    def read_positions(self, spark: SparkSession, positions: pa.Table, history: History) -> DataFrame:
        return self._rows(spark, positions["source_offset"].to_pylist())

    def _rows(self, spark: SparkSession, numbers: list[int]) -> DataFrame:
        return spark.createDataFrame([("0", number, number) for number in numbers], COLUMNS)


def odd_fails(place, spout: Lists) -> Topology:
    topology = Topology("own", retry=ExponentialBackoff(initial_seconds=1, limit=1))
    numbers = topology.spout("numbers", spout)

    @topology.bolt(numbers)
    def even(tuples):
        return tuples.select("anchor", "id", fail_when(F.col("id") % 2 == 1, "odd"))

    topology.publish(even, to=place.path("even"))
    return topology


@pytest.mark.extended
@pytest.mark.parametrize(
    "described",
    [
        pytest.param(({"one": {"after": 0, "upto": 10}}, {"one": {"after": 99, "upto": 3}}), id="spans"),
        pytest.param(
            ({"messages": {"0": [[7, 1, None]]}}, {"messages": []}), id="a replay", marks=pytest.mark.extended
        ),
        pytest.param(({}, []), id="nothing", marks=pytest.mark.extended),
        pytest.param(("", 0), id="a text and a number", marks=pytest.mark.thorough),
    ],
)
def test_a_range_may_look_like_what_the_journal_writes_itself(place, described):
    run = place.run(odd_fails(place, Lists(described, (2, 3))))
    for _ in described:
        run_cycle(run)
    drain(run, sleep=place.clock.advance)
    found = audit_report(run.topology, run.store)
    assert (found.verdict, found.emitted, found.acked, found.dead_letter) == ("pass", 2, 1, 1)
    (position,) = status_report(run.topology, run.store, place.clock())["positions"]
    assert (position["emitted_upto"], position["committed_upto"]) == (4, 4)


@pytest.mark.parametrize("described", [{1, 2}, {("a", 1): 2}], ids=str)
def test_a_range_that_is_no_json_value_is_refused_with_the_spouts_name(place, described: Any):
    run = place.run(odd_fails(place, Lists((described,), (2,))))
    with pytest.raises(SourceError, match="Spout numbers planned a range that is not JSON"):
        run_cycle(run)
    assert run.snapshot().planned("numbers") == 0
