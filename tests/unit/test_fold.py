"""The fold of frames against the plain acker: every scenario must give the same rows in both."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, fields

import polars as pl
import pytest
from hypothesis import given

from acker.core.events import LIVE, Event, LedgerRow, State
from acker.core.fold.decide import FoldInput, folded, joined_roots, with_dirty
from acker.core.snapshot.holders import HOLDERS
from acker.core.store.ids import tasks
from acker.core.store.parquet import columns_of
from acker.core.store.schemas import EVENTS, LEDGER
from acker.core.timeouts import Turn
from tests.kit.fold_steps import Scenario, Step, ledgers, written
from tests.kit.oracle import Ledger
from tests.kit.random_scenarios import random_scenarios
from tests.kit.scenarios import SCENARIOS

COLUMNS = [column.name for column in fields(LedgerRow)]


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_a_scenario_goes_in_frames_as_in_the_oracle(scenario: Scenario) -> None:
    agree(scenario)


@given(random_scenarios())
def test_a_random_scenario_goes_in_frames_as_in_the_oracle(scenario: Scenario) -> None:
    agree(scenario)


def agree(scenario: Scenario) -> None:
    """Take both ackers through a scenario, the frames on the rows that they left live themselves.

    Each step is folded in one pass over all live rows, and by turns in one or two over those that may change.
    """
    before, live = Ledger(), ()
    for number, (step, after) in enumerate(zip(scenario.steps, ledgers(scenario), strict=True)):
        passes = 1 + number % 2
        assert after.turn is not None
        late, rows = fold(scenario, step, after.turn, live, before.settled)
        assert Counter(rows) == Counter(written(before, after))
        stay = unchanged(scenario, step, after.turn, live, before.settled, passes)
        changed = [row for row in live if row not in stay]
        _, again = fold(scenario, step, after.turn, changed, before.settled, passes)
        assert Counter(again + stay) == Counter(rows)
        assert late == after.late
        before, live = after, tuple(row for row in rows if row.state in LIVE)


def fold(
    scenario: Scenario,
    step: Step,
    turn: Turn,
    live: Sequence[LedgerRow],
    settled: Sequence[LedgerRow],
    passes: int = 1,
) -> tuple[int, list[LedgerRow]]:
    """One fold as the job runs it: the late events, and the rows."""
    found = pl.concat(folded(given(scenario, step, turn, live, settled), passes), how="diagonal")
    return len(step.events) - found["events"].sum(), records(found)


def unchanged(
    scenario: Scenario,
    step: Step,
    turn: Turn,
    live: Sequence[LedgerRow],
    settled: Sequence[LedgerRow],
    passes: int,
) -> list[LedgerRow]:
    """The live rows of which a fold takes for granted that it would write them again as they are."""
    found = given(scenario, step, turn, live, settled)
    joined = joined_roots(found)
    marks = [with_dirty(found.live, found, joined, task) for task in tasks(passes)]
    rows = pl.concat(marks).filter(~pl.col("dirty"))
    return records(rows.collect())


def given(
    scenario: Scenario, step: Step, turn: Turn, live: Sequence[LedgerRow], settled: Sequence[LedgerRow]
) -> FoldInput:
    """What a fold of a step reads."""
    return FoldInput(
        live=frame(live, LEDGER),
        settled=frame(settled, LEDGER),
        events=frame(step.events, EVENTS),
        waiting=pl.LazyFrame({"root_id": list(step.waiting)}, {"root_id": pl.Int64}),
        held=pl.LazyFrame(list(step.held), HOLDERS, orient="row"),
        spouts=step.spouts,
        retry=scenario.retry,
        turn=turn,
        timeouts=scenario.timeouts,
        now=step.now,
    )


def records(rows: pl.DataFrame) -> list[LedgerRow]:
    return [LedgerRow(**{**row, "state": State(row["state"])}) for row in rows.select(COLUMNS).to_dicts()]


def frame(records: Iterable[LedgerRow | Event], table: str) -> pl.LazyFrame:
    columns = columns_of(table)
    rows = [{name: value for name, value in asdict(record).items() if name in columns} for record in records]
    return pl.LazyFrame(rows, columns)
