"""The acker job: read at fixed versions, fold, and commit the whole result at once."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import reduce

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from acker.fold import Counts, FoldInput, count, ledger_rows, one_row_per_root, outcomes, retry_delays
from acker.ledger import APP, Fold, live_rows, read_fold
from acker.retry import RetryPolicy
from acker.schemas import EVENTS, LEDGER, SCHEMAS
from acker.tables import Store
from acker.timeouts import Timeouts, Turn


@dataclass(frozen=True)
class FoldRequest:
    """What to fold, all of it fixed before anything is computed.

    Args:
        previous: the newest fold, None before the first.
        events_version: of the events table, up to which to fold.
        logged: component -> its newest batch logged at that version.
        waiting: see `FoldInput`.
        spouts: see `FoldInput`.
        replays: whether a batch of kind `replay` is among those that this fold sees first.
    """

    previous: Fold | None
    events_version: int
    logged: Mapping[str, int]
    waiting: DataFrame | None
    spouts: Collection[str]
    replays: bool
    timeouts: Timeouts
    retry: RetryPolicy
    now: datetime


def run_fold(store: Store, spark: SparkSession, request: FoldRequest) -> Fold:
    """Fold once and return the row of the fold that has this number now, ours or a faster client's."""
    number = 1 if request.previous is None else request.previous.number + 1
    turn = request.timeouts.turn(request.previous.turn if request.previous else None, request.now)
    fold = _input(store, spark, request, turn)
    computed = outcomes(fold).persist()
    try:
        decided, counts = computed, count(computed)
        if counts.double_inits:
            decided = one_row_per_root(computed)
            counts = count(decided)
        delays = retry_delays(request.retry, counts.failed_attempts)
        rows = ledger_rows(fold, decided, delays)
        stamped = rows.select(
            "*",
            F.when(F.col("live"), number).cast("bigint").alias("live_in"),
            F.lit(number).cast("bigint").alias("fold"),
            F.lit(request.events_version).cast("bigint").alias("events_version"),
            F.lit(request.now).alias("folded_at"),
        ).drop("live")
        own = _own_row(spark, number, turn, request, counts)
        store.append(own.unionByName(stamped, allowMissingColumns=True), LEDGER, APP, number)
    finally:
        computed.unpersist()
    return read_fold(store.require(LEDGER), number)


def _input(store: Store, spark: SparkSession, request: FoldRequest, turn: Turn) -> FoldInput:
    previous = request.previous
    if previous is None:
        live = spark.createDataFrame([], SCHEMAS[LEDGER].columns)
    else:
        live = live_rows(store, spark, previous)
    return FoldInput(
        live=live,
        events=new_events(store, spark, request),
        waiting=request.waiting,
        spouts=request.spouts,
        replays=request.replays or (previous is not None and previous.counts.get("replays_pending", 0) > 0),
        turn=turn,
        timeouts=request.timeouts,
        now=request.now,
    )


def new_events(store: Store, spark: SparkSession, request: FoldRequest) -> DataFrame:
    """Events of the batches that no fold has seen, at the fixed version.

    They are found by component and batch, on which files are skipped, and not by the change data
    feed: that one reads every row through the JVM's row objects (`docs/performance.md`).
    """
    folded = request.previous.logged if request.previous else {}
    ranges = [
        (F.col("component") == component) & F.col("batch").between(folded.get(component, 0) + 1, newest)
        for component, newest in sorted(request.logged.items())
        if newest > folded.get(component, 0)
    ]
    if not ranges:
        return spark.createDataFrame([], SCHEMAS[EVENTS].columns)
    return store.read(spark, EVENTS, request.events_version).where(reduce(lambda a, b: a | b, ranges))


def _own_row(spark: SparkSession, number: int, turn: Turn, request: FoldRequest, counts: Counts) -> DataFrame:
    tally = {**counts.outcomes, "late": counts.late, "replays_pending": counts.replays_pending}
    row = {
        "fold": number,
        "events_version": request.events_version,
        "turn": turn.number,
        "window": turn.window,
        "logged": dict(request.logged),
        "counts": tally,
        "folded_at": request.now,
    }
    return spark.createDataFrame(
        [row],
        "fold bigint, events_version bigint, turn bigint, `window` bigint, logged map<string,bigint>, "
        "counts map<string,bigint>, folded_at timestamp",
    ).coalesce(1)
