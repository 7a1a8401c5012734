"""What a bolt neither acks nor fails is told, and times out in the bolt's name."""

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import polars as pl
import pytest

from acker.components.base import Work
from acker.core.snapshot.streams import PLACE, Rows, held_back
from acker.core.store.parquet import file_name
from acker.operations.cycle import run_cycle
from acker.operations.fold import fold
from acker.reports.failures import failures
from acker.reports.held_back import all_held_back, told_held_back
from acker.topology.topology import Topology
from tests.kit.polars_topology import PolarsBolt, PolarsTopology, TableSource, append


@dataclass(frozen=True, kw_only=True)
class Forgetful(PolarsBolt):
    """Holds each tuple back for ever, by two tasks."""

    holds_back: ClassVar[bool] = True

    def write(self, work: Work) -> None:
        new = [row for name in self.inputs for row in self._given(work, name)]
        again = held_back(work.journal, self.name, work.batch.number - 1).drop("_root_ids").rows(named=True)
        held = pl.DataFrame([*again, *new], {"_root_id": pl.Int64, **PLACE})
        made = held.select(
            _batch=pl.lit(work.batch.number, pl.Int64),  # first, since a writer takes its bounds by its place
            _root_id="_root_id",
            _root_ids=pl.lit(None, pl.List(pl.Int64)),
            _kind=pl.lit("held"),
            _error=pl.lit(None, pl.String),
            _held=pl.struct(*PLACE),
        )
        append(work, self, made)

    def _given(self, work: Work, name: str):
        for file in Rows.of(work.journal, name, work.taken.get(name, [])).files:
            roots = pl.read_parquet(file)["_root_id"]
            place = {"stream": name, "file": file_name(file), "batch": 1, "since": work.batch.number}
            for row, root in enumerate(roots):
                yield from ({"_root_id": root, "row": row, "task": task, **place} for task in (0, 1))


@pytest.fixture
def run(place):
    """A run of two messages whose tuples a bolt has forgotten, and of one that another bolt has acked."""
    topology = PolarsTopology("shop", message_timeout="1 minute", windows=1)
    numbers = topology.spout("numbers", TableSource(place.add("numbers", id=[1, 2])))
    others = topology.spout("others", TableSource(place.add("others", id=[3])))
    Topology._add(topology, Forgetful("words", (numbers.name,), function=print))
    topology.bolt(others, name="same")(lambda tuples: tuples)
    run = place.run(topology)
    run_cycle(run)
    return run


def test_what_a_bolt_has_forgotten_is_told_with_its_time(run):
    (told,) = all_held_back(run.topology, run.snapshot())
    assert told["says"] == (
        "words holds back 2 tuples that it has neither acked nor failed, the oldest since 2026-01-01 00:00:00"
    )


def test_what_a_bolt_has_forgotten_times_out_in_its_name(run, place):
    for _ in range(2):
        place.clock.advance(60)
        fold(run)
    (failure,) = failures(run.snapshot(), 10).commonest
    reason = "not complete within 0:01:00: neither acked nor failed by words"
    assert (failure.count, failure.component, failure.reason) == (2, "words", reason)
    assert all_held_back(run.topology, run.snapshot()) == []


def test_what_cannot_be_known_of_held_tuples_is_said(run):
    journal = run.snapshot()
    for file in Rows.of(journal, "words", [1]).files:
        Path(file).unlink()
    assert told_held_back(journal, run.topology.components["words"])["says"].startswith(
        "What words holds back is unknown: "
    )
