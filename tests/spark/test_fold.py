"""The Spark fold against the plain acker: every history must give the same rows in both.

A Spark job takes as long on one row as on a thousand, so histories are folded together for as long as their
settings and their clocks agree. For that each has spouts and root ids of its own.
"""

import shutil
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, fields, replace
from datetime import timedelta
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from acker.events import LIVE, Event, Kind, LedgerRow, State
from acker.fold import FoldInput, ledger_rows
from acker.ids import hash64
from acker.job import FoldRequest, run_fold
from acker.ledger import Fold, fold_counts, newest_fold
from acker.oracle import Ledger
from acker.retry import ExponentialBackoff, delay_after
from acker.schemas import EVENTS, LEDGER, SCHEMAS
from acker.tables import Store
from acker.timeouts import Timeouts, Turn
from pipeline.session import connect
from pipeline.settings import Settings
from tests.scenarios import (
    RETRY,
    SCENARIOS,
    SOURCE,
    START,
    TIMEOUTS,
    A,
    B,
    C,
    Scenario,
    Step,
    ack,
    fail,
    init,
    ledgers,
    random_histories,
    step,
    written,
)

COLUMNS = [column.name for column in fields(LedgerRow)]
SETTINGS = list(dict.fromkeys((scenario.timeouts, scenario.retry) for scenario in SCENARIOS))


@pytest.mark.parametrize(("timeouts", "retry"), SETTINGS)
def test_a_scenario_goes_in_spark_as_in_the_oracle(
    spark: SparkSession, timeouts: Timeouts, retry: ExponentialBackoff
) -> None:
    agree(spark, [apart(one) for one in SCENARIOS if (one.timeouts, one.retry) == (timeouts, retry)])


# Of these settings one has a window and up to three attempts, one two windows, and two a hard limit.
@pytest.mark.parametrize("seed", [3, 16, 29])
def test_a_random_history_goes_in_spark_as_in_the_oracle(spark: SparkSession, seed: int) -> None:
    agree(spark, [apart(history) for history in random_histories(seed, 24)])


def apart(history: Scenario) -> Scenario:
    """The history with spouts and root ids that no other has."""
    mask = hash64(history.name)

    def event(shared: Event) -> Event:
        return replace(
            shared,
            root_id=shared.root_id ^ mask,
            replaces=None if shared.replaces is None else shared.replaces ^ mask,
            spout=shared.spout and own_spout(history.name, shared.spout),
        )

    steps = [
        replace(
            step,
            events=tuple(event(shared) for shared in step.events),
            waiting=frozenset(root_id ^ mask for root_id in step.waiting),
            spouts=tuple(own_spout(history.name, spout) for spout in step.spouts),
        )
        for step in history.steps
    ]
    return replace(history, steps=tuple(steps))


def own_spout(history: str, spout: str) -> str:
    return f"{history}/{spout}"


def history_of(row: LedgerRow) -> str:
    return row.spout.rpartition("/")[0]


@dataclass(frozen=True)
class Moment:
    """Where Spark's ledger stands after some folds."""

    folds: int = 0
    turn: Turn | None = None
    live: tuple[LedgerRow, ...] = ()


def agree(spark: SparkSession, histories: Iterable[Scenario], moment: Moment = Moment()) -> None:
    """Take both ackers from one moment to the end, Spark on the rows that it left live itself.

    Histories go on together while they have the same clock, and part where they differ.
    """
    index = moment.folds
    going_on = sorted((h for h in histories if len(h.steps) > index), key=lambda h: h.steps[index].now)
    for now, group in groupby(going_on, key=lambda h: h.steps[index].now):
        together = {history.name: history for history in group}
        settings = next(iter(together.values()))
        live = tuple(row for row in moment.live if history_of(row) in together)
        reached = Moment(index, settings.timeouts.turn(moment.turn, now), live)
        late, rows = spark_fold(spark, reached, [h.steps[index] for h in together.values()], settings)

        folds = [folded(history, index) for history in together.values()]
        expected = [row for before, after in folds for row in written(before, after)]
        assert Counter(rows) == Counter(expected)
        assert late == sum(after.late for _, after in folds)

        still_live = tuple(row for row in rows if row.state in LIVE)
        agree(spark, together.values(), Moment(index + 1, reached.turn, still_live))


def spark_fold(
    spark: SparkSession, moment: Moment, steps: Sequence[Step], settings: Scenario
) -> tuple[int, list[LedgerRow]]:
    """One fold of the steps of many histories, as `acker.job` runs it: the late events, and the rows."""
    assert moment.turn is not None
    events = [event for step in steps for event in step.events]
    attempts = [row.attempt for row in moment.live] + [event.attempt or 1 for event in events]
    waiting = [(root_id,) for step in steps for root_id in step.waiting]
    fold = FoldInput(
        live=frame(spark, moment.live, LEDGER),
        events=frame(spark, events, EVENTS),
        waiting=spark.createDataFrame(waiting, "_root_id bigint") if waiting else None,
        spouts=[spout for step in steps for spout in step.spouts],
        retrying=any(row.state == State.RETRYING for row in moment.live),
        failures=any(event.kind in (Kind.FAIL, Kind.LOST) for event in events),
        delays=[delay_after(settings.retry, attempt) for attempt in range(1, max(attempts, default=1) + 1)],
        turn=moment.turn,
        timeouts=settings.timeouts,
        now=steps[0].now,
    )
    found = ledger_rows(fold).toArrow().to_pylist()
    counted = sum(row["events"] for row in found)
    return len(events) - counted, [record(row) for row in found]


def frame(spark: SparkSession, records: Iterable[LedgerRow | Event], table: str) -> DataFrame:
    return spark.createDataFrame([asdict(record) for record in records], SCHEMAS[table].columns)


def record(row: Mapping[str, Any]) -> LedgerRow:
    return LedgerRow(**{**{name: row[name] for name in COLUMNS}, "state": State(row["state"])})


def folded(history: Scenario, index: int) -> tuple[Ledger, Ledger]:
    """The oracle's ledger before one of its folds and after it."""
    found = [Ledger(), *ledgers(replace(history, steps=history.steps[: index + 1]))]
    return found[-2], found[-1]


# Of three messages one is acked, one fails and is emitted again, and one stays in flight.
FIRST = step(0, init(1, A), init(2, B), init(3, C), ack(1, [A]), fail(2, [B]))
SECOND = step(10, init(2, A, attempt=2, batch=2), replace(ack(2, [A], attempt=2), batch=2))
HISTORY = Scenario("in a store", (FIRST, SECOND))


@pytest.fixture
def store(spark: SparkSession, store_uri: str, empty_store: Path) -> Store:
    """A store with the events of both steps, each in a version of its own."""
    found = Store(store_uri, "numbers")
    shutil.copytree(empty_store, found.path(""))
    for number, events in enumerate([FIRST.events, SECOND.events], start=1):
        found.append(frame(spark, events, EVENTS), EVENTS, "test", number)
    return found


def request(fold: int, previous: Fold | None = None, **fields: object) -> FoldRequest:
    """What the fold of one of the steps is to do."""
    asked = FoldRequest(
        previous=previous,
        events_version=fold,
        logged={SOURCE: fold, "words": fold},
        waiting=None,
        spouts=[SOURCE],
        highest_attempt=fold,
        timeouts=TIMEOUTS,
        retry=RETRY,
        now=HISTORY.steps[fold - 1].now,
    )
    return replace(asked, **fields)  # type: ignore[arg-type]


def first_fold() -> Fold:
    """The row of the first fold, in the ledger's second version."""
    turn = TIMEOUTS.turn(None, START)
    return Fold(1, 1, turn, {SOURCE: 1, "words": 1}, len(FIRST.events), START, ledger_version=1)


COUNTS = {"acked": 1, "failed": 1, "late": 0, "pending": 1, "retrying": 1}


def ledger_of(spark: SparkSession, store: Store) -> Counter[LedgerRow]:
    rows = store.read(spark, LEDGER).where("root_id IS NOT NULL").toArrow().to_pylist()
    return Counter(record(row) for row in rows)


def test_two_folds_of_one_number_at_once_commit_once(
    spark: SparkSession, settings: Settings, store: Store
) -> None:
    with ThreadPoolExecutor() as pool:
        found = list(
            pool.map(lambda session: run_fold(store, session, request(1)), [spark, connect(settings)])
        )
    assert found == [first_fold()] * 2
    assert fold_counts(store, found[0]) == COUNTS
    assert ledger_of(spark, store) == Counter(written(*folded(HISTORY, 0)))


def test_a_fold_that_is_repeated_after_its_commit_changes_nothing(spark: SparkSession, store: Store) -> None:
    run_fold(store, spark, request(1))
    later = request(1, events_version=2, logged={SOURCE: 2}, now=START + timedelta(hours=1))
    assert run_fold(store, spark, later) == newest_fold(store) == first_fold()
    assert ledger_of(spark, store) == Counter(written(*folded(HISTORY, 0)))


def test_a_fold_goes_on_from_the_one_before(spark: SparkSession, store: Store) -> None:
    first = run_fold(store, spark, request(1))
    second = run_fold(store, spark, request(2, first))
    assert fold_counts(store, second) == {"acked": 1, "late": 0, "pending": 1}
    settled = store.read(spark, LEDGER).where("fold = 2 AND root_id IS NOT NULL").toArrow().to_pylist()
    assert Counter(record(row) for row in settled) == Counter(written(*folded(HISTORY, 1)))
