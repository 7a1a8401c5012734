"""The acker job: read at fixed versions, fold, and commit the whole result at once."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import reduce
from itertools import chain

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from acker.events import Kind
from acker.fold import FoldInput, ledger_rows
from acker.ledger import APP, Fold, live_extent, live_rows, read_fold
from acker.retry import RetryPolicy, delay_after
from acker.schemas import EVENTS, LEDGER, SCHEMAS
from acker.steady import steady
from acker.tables import Store, query
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
        highest_attempt: among the inits and losses that this fold sees first; 1 where there are none.
    """

    previous: Fold | None
    events_version: int
    logged: Mapping[str, int]
    waiting: DataFrame | None
    spouts: Collection[str]
    highest_attempt: int
    timeouts: Timeouts
    retry: RetryPolicy
    now: datetime


def run_fold(store: Store, spark: SparkSession, request: FoldRequest) -> Fold:
    """Fold once and return the row of the fold that has this number now, ours or a faster client's."""
    number = 1 if request.previous is None else request.previous.number + 1
    turn = request.timeouts.turn(request.previous.turn if request.previous else None, request.now)
    fold = _input(store, spark, request, turn)
    rows = ledger_rows(fold)
    stamped = rows.select(
        "*",
        F.when(F.col("live"), steady(number, "root_id", "bigint")).alias("live_in"),
        steady(number, "root_id", "bigint").alias("fold"),
        steady(request.events_version, "root_id", "bigint").alias("events_version"),
        steady(request.now, "root_id").alias("folded_at"),
    ).drop("live")
    own = _own_row(fold, number, request)
    store.append(own.unionByName(stamped, allowMissingColumns=True), LEDGER, APP, number)
    return read_fold(store.require(LEDGER), number)


def _input(store: Store, spark: SparkSession, request: FoldRequest, turn: Turn) -> FoldInput:
    previous = request.previous
    if previous is None:
        live, highest, retrying = spark.createDataFrame([], SCHEMAS[LEDGER].columns), 1, False
    else:
        live = live_rows(store, spark, previous)
        highest, retrying = live_extent(store, previous)
    attempts = range(1, max(highest, request.highest_attempt) + 1)
    return FoldInput(
        live=live,
        events=new_events(store, spark, request),
        waiting=request.waiting,
        spouts=request.spouts,
        retrying=retrying,
        failures=_any_failures(store, request),
        delays=[delay_after(request.retry, attempt) for attempt in attempts],
        turn=turn,
        timeouts=request.timeouts,
        now=request.now,
    )


def new_events(store: Store, spark: SparkSession, request: FoldRequest) -> DataFrame:
    """Events of the batches that no fold has seen, at the fixed version.

    They are found by component and batch, on which files are skipped, and not by the change data
    feed: that one reads every row through the JVM's row objects (`docs/performance.md`).
    """
    ranges = [
        (F.col("component") == component) & F.col("batch").between(low, high)
        for component, low, high in _new_batches(request)
    ]
    if not ranges:
        return spark.createDataFrame([], SCHEMAS[EVENTS].columns)
    return store.read(spark, EVENTS, request.events_version).where(reduce(lambda a, b: a | b, ranges))


def _new_batches(request: FoldRequest) -> list[tuple[str, int, int]]:
    """(component, first, last) of the logged batches that no fold has seen."""
    folded = request.previous.logged if request.previous else {}
    new = [(name, folded.get(name, 0) + 1, newest) for name, newest in sorted(request.logged.items())]
    return [(name, low, high) for name, low, high in new if low <= high]


def _any_failures(store: Store, request: FoldRequest) -> bool:
    """Whether a fail or a loss was logged since the fold before; Delta's statistics leave the rest out."""
    ranges = _new_batches(request)
    if not ranges:
        return False
    conditions = [
        f"(component = '{component}' AND batch BETWEEN {low} AND {high})" for component, low, high in ranges
    ]
    sql = (
        "SELECT count(*) AS failures FROM events "
        f"WHERE kind IN ('{Kind.FAIL}', '{Kind.LOST}') AND ({' OR '.join(conditions)})"
    )
    (row,) = query(sql, events=store.require(EVENTS, request.events_version))
    return bool(row["failures"])


def _own_row(fold: FoldInput, number: int, request: FoldRequest) -> DataFrame:
    """The fold's row of itself. Its `events` are all that it read, the late ones included."""
    logged = chain.from_iterable((F.lit(name), F.lit(batch)) for name, batch in request.logged.items())
    return fold.events.agg(F.count("*").alias("events")).select(
        "events",
        F.lit(number).cast("bigint").alias("fold"),
        F.lit(request.events_version).cast("bigint").alias("events_version"),
        F.lit(fold.turn.number).cast("bigint").alias("turn"),
        F.lit(fold.turn.window).cast("bigint").alias("window"),
        F.create_map(*logged).cast("map<string,bigint>").alias("logged"),
        F.lit(request.now).alias("folded_at"),
    )
