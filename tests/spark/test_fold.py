"""The Spark fold against the plain acker: every history must give the same rows in both.

A Spark job takes as long on one row as on a thousand, so histories are folded together for as long as their
settings and their clocks agree. For that each has spouts and root ids of its own.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, fields, replace
from itertools import groupby

import pytest
from pyspark.sql import SparkSession

from acker.events import LIVE, Event, LedgerRow, State
from acker.fold import FoldInput, count, ledger_rows, one_row_per_root, outcomes, retry_delays
from acker.ids import hash64
from acker.oracle import Ledger
from acker.schemas import EVENTS, LEDGER, SCHEMAS
from acker.timeouts import Turn
from tests.scenarios import Scenario, ledgers, random_histories, written

COLUMNS = [column.name for column in fields(LedgerRow)]
Rows = dict[str, list[LedgerRow]]  # by the name of their history


def apart(history: Scenario) -> Scenario:
    """The history with spouts and root ids that no other has."""
    mask = hash64(history.name)

    def event(shared: Event) -> Event:
        return replace(
            shared,
            root_id=shared.root_id ^ mask,
            replaces=None if shared.replaces is None else shared.replaces ^ mask,
            spout=shared.spout and f"{history.name}: {shared.spout}",
        )

    steps = [
        replace(
            step,
            events=tuple(event(shared) for shared in step.events),
            waiting=frozenset(root_id ^ mask for root_id in step.waiting),
            spouts=tuple(f"{history.name}: {spout}" for spout in step.spouts),
        )
        for step in history.steps
    ]
    return replace(history, steps=tuple(steps))


def agree(
    spark: SparkSession,
    histories: Sequence[Scenario],
    folds: int = 0,
    turn: Turn | None = None,
    live: Rows | None = None,
) -> None:
    """Fold the next steps of histories that agreed up to here, on the rows that Spark itself left live."""
    going_on = sorted((h for h in histories if len(h.steps) > folds), key=lambda h: h.steps[folds].now)
    for now, group in groupby(going_on, key=lambda h: h.steps[folds].now):
        together = list(group)
        turn_now = together[0].timeouts.turn(turn, now)
        steps = [h.steps[folds] for h in together]
        rows = [row for h in together for row in (live or {}).get(h.name, [])]
        t = time.time()
        counts, found = spark_fold(spark, rows, steps, turn_now, together[0])
        print(f"fold {folds} of {len(together)} {time.time() - t:.2f}")
        expected = [of for h in together for of in [oracle_counts(h, folds)]]
        assert Counter(found) == Counter(row for h in together for row in oracle_rows(h, folds))
        left: Rows = {}
        for row in found:
            if row.state in LIVE:
                left.setdefault(row.spout.rpartition(": ")[0], []).append(row)
        agree(spark, together, folds + 1, turn_now, left)


import time


def oracle_counts(h, folds):
    pass


def oracle_rows(h, folds):
    found = [Ledger(), *ledgers(h)]
    return written(found[folds], found[folds + 1])


def spark_fold(spark, live, steps, turn, settings):
    events = [asdict(event) for step in steps for event in step.events]
    waiting = [(root_id,) for step in steps for root_id in step.waiting]
    fold = FoldInput(
        live=spark.createDataFrame([asdict(row) for row in live], SCHEMAS[LEDGER].columns),
        events=spark.createDataFrame(events, SCHEMAS[EVENTS].columns),
        waiting=spark.createDataFrame(waiting, "_root_id bigint") if waiting else None,
        spouts=[spout for step in steps for spout in step.spouts],
        replays=True,
        turn=turn,
        timeouts=settings.timeouts,
        now=steps[0].now,
    )
    t = time.time()
    decided = outcomes(fold).persist() if PERSIST else outcomes(fold)
    counts = count(decided)
    if counts.double_inits:
        decided = one_row_per_root(decided)
        counts = count(decided)
    t2 = time.time()
    rows = ledger_rows(fold, decided, retry_delays(settings.retry, counts.failed_attempts))
    found = rows.select(*COLUMNS).toArrow().to_pylist()
    print(f"   count {t2 - t:.2f} rows {time.time() - t2:.2f}", counts.double_inits)
    decided.unpersist()
    return counts, [LedgerRow(**{**row, "state": State(row["state"])}) for row in found]


import os

PERSIST = "P" in os.environ


@pytest.mark.parametrize("seed", range(4))
def test_random(spark, seed):
    if "C" in os.environ:
        spark.conf.set("spark.sql.codegen.wholeStage", "false")
        spark.conf.set("spark.sql.codegen.factoryMode", "NO_CODEGEN")
    if "A" in os.environ:
        spark.conf.set("spark.sql.adaptive.enabled", "false")
    if "S" in os.environ:
        spark.conf.set("spark.sql.shuffle.partitions", "1")
    agree(spark, [apart(h) for h in random_histories(seed, 15)])
