"""One fold: from the live rows and the new events to the ledger's next rows. DataFrames in and out.

Nothing here reads a clock or a table, so the same inputs give the same rows, and a step that Spark
repeats repeats itself exactly. `oracle` says the same in plain Python.

Two joins follow one numeric aggregation: strings in an aggregation's buffer make Spark sort, which
costs more than both joins (`docs/performance.md`).
"""

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from acker.events import Kind, State
from acker.retry import RetryPolicy, delay_after
from acker.timeouts import Timeouts, Turn

MESSAGE = ["spout", "source_partition", "source_offset"]
TWICE = "emitted twice"
SPOUT_GONE = "spout is no longer in the topology"


def superseded_reason(attempt: Column) -> Column:
    """Reason of an attempt whose successor was emitted."""
    return F.concat(F.lit("superseded by attempt "), attempt.cast("string"))


def timeout_reason(timeout: timedelta | None) -> str:
    """Reason of an attempt that was not complete in time."""
    return f"not complete within {timeout}"


@dataclass(frozen=True)
class FoldInput:
    """What one fold reads, at fixed versions.

    Args:
        live: pending and retrying rows of the newest fold (`ledger`).
        events: rows of `events` that no fold has seen.
        waiting: column `_root_id`, the roots of tuples that a bolt has yet to take; None: there are none.
        spouts: names of the spouts that the topology has now.
        replays: whether an attempt after the first is among the pending rows, the new inits or the new lost.
    """

    live: DataFrame
    events: DataFrame
    waiting: DataFrame | None
    spouts: Collection[str]
    replays: bool
    turn: Turn
    timeouts: Timeouts
    now: datetime


@dataclass(frozen=True)
class Counts:
    """What a fold counted before it wrote: rows by outcome, late events, attempts that failed."""

    outcomes: Mapping[str, int]
    late: int = 0
    replays_pending: int = 0  # pending roots of attempts after the first
    failed_attempts: Collection[int] = ()
    double_inits: bool = False  # some root has two, or was found lost twice, and so more than one row


def outcomes(fold: FoldInput) -> DataFrame:
    """One row per root of this fold, with its `state`; late groups have state `late`.

    Columns: those of `ledger` that belong to an attempt, and `events` (rows of events in the group),
    `superseded` (bool) and `emissions` (inits and losses; a root has a row for each).
    """
    groups = _balances(fold)
    roots = groups.join(_descriptions(fold), "root_id", "left").join(_first_failures(fold), "root_id", "left")
    successors = roots.withColumn("successor", F.lit(None).cast("int"))
    if fold.replays:
        successors = roots.join(_successors(fold), MESSAGE, "left")
    roots = successors.withColumn(
        "superseded", F.coalesce(F.col("successor") > F.col("attempt"), F.lit(False))
    )
    roots = roots.withColumn("expired", _expired(fold))
    if fold.waiting is not None:
        roots = _spare_waiting(roots, fold)
    complete = (F.col("ack_val") == 0) & (F.col("outstanding") == 0)
    state = (
        F.when((F.col("inits") == 0) & (F.col("losses") > 0), State.LOST.value)
        .when(F.col("inits") == 0, "late")
        .when(F.col("superseded") | (F.col("fails") > 0) | (F.col("inits") > 1), State.FAILED.value)
        .when(complete, State.ACKED.value)
        .when(F.col("expired"), State.TIMED_OUT.value)
        .otherwise(State.PENDING.value)
    )
    roots = roots.withColumn("state", state)
    reason = (
        F.when(F.col("state") == State.LOST.value, F.col("lost_reason"))
        .when(F.col("superseded"), superseded_reason(F.col("successor")))
        .when(F.col("fails") > 0, F.col("fail_reason"))
        .when(F.col("inits") > 1, TWICE)
        .when(F.col("state") == State.TIMED_OUT.value, timeout_reason(fold.timeouts.message_timeout))
    )
    by_component = (F.col("state") == State.FAILED.value) & ~F.col("superseded")
    is_lost = F.col("state") == State.LOST.value
    return roots.select(
        "root_id",
        *MESSAGE,
        "attempt",
        "state",
        F.when(is_lost, 0).otherwise(F.col("ack_val")).cast("bigint").alias("ack_val"),
        F.when(is_lost, 0).otherwise(F.col("outstanding")).cast("bigint").alias("outstanding"),
        reason.alias("reason"),
        F.when(by_component, F.col("fail_component")).alias("component"),
        "batch",
        F.when(~is_lost, F.col("turn")).alias("turn"),
        "replaces",
        "emitted_at",
        "superseded",
        "events",
        (F.col("inits") + F.col("losses")).alias("emissions"),
    )


def _balances(fold: FoldInput) -> DataFrame:
    """Per root: XOR, what is outstanding, and how many inits, fails and events. Numbers only."""
    now = F.lit(fold.turn.number).cast("bigint")
    kind = F.col("kind")
    # One buffer column counts three kinds: 20 bits each are more than a root has batches.
    flags = F.when(kind == Kind.ACK.value, 0).when(kind == Kind.INIT.value, 1)
    flags = flags.when(kind == Kind.FAIL.value, 1 << 20).when(kind == Kind.LOST.value, 1 << 40).otherwise(0)
    events = fold.events.select(
        "root_id",
        "ack_val",
        (F.col("emitted") - F.col("consumed")).alias("outstanding"),
        flags.cast("bigint").alias("flags"),
        F.when(kind.isin(Kind.INIT.value, Kind.RESET.value), now).alias("turn"),
        F.lit(1).cast("bigint").alias("events"),
    )
    pending = fold.live.where(F.col("state") == State.PENDING.value).select(
        "root_id",
        "ack_val",
        "outstanding",
        F.lit(1).cast("bigint").alias("flags"),
        "turn",
        F.lit(0).cast("bigint").alias("events"),
    )
    sums = (
        pending.unionByName(events)
        .groupBy("root_id")
        .agg(
            F.bit_xor("ack_val").alias("ack_val"),
            F.sum("outstanding").alias("outstanding"),
            F.sum("flags").alias("flags"),
            F.max("turn").alias("turn"),
            F.sum("events").alias("events"),
        )
    )
    mask = F.lit((1 << 20) - 1)
    return sums.select(
        "root_id",
        "ack_val",
        "outstanding",
        "turn",
        "events",
        F.col("flags").bitwiseAND(mask).alias("inits"),
        F.shiftright("flags", 20).bitwiseAND(mask).alias("fails"),
        F.shiftright("flags", 40).alias("losses"),
    )


def _descriptions(fold: FoldInput) -> DataFrame:
    """Per root, its message and attempt, from its init or lost event or from its live row."""
    columns = ["root_id", *MESSAGE, "attempt", "batch", "replaces", "emitted_at"]
    pending = fold.live.where(F.col("state") == State.PENDING.value).select(
        *columns, F.lit(None).cast("string").alias("lost_reason")
    )
    lost = F.col("kind") == Kind.LOST.value
    described = fold.events.where(F.col("kind").isin(Kind.INIT.value, Kind.LOST.value)).select(
        "root_id",
        *MESSAGE,
        "attempt",
        "batch",
        "replaces",
        F.when(~lost, F.col("logged_at")).alias("emitted_at"),
        F.when(lost, F.col("reason")).alias("lost_reason"),
    )
    return pending.unionByName(described)


def _first_failures(fold: FoldInput) -> DataFrame:
    """Per failed root, the reason and component of the first failure that was logged."""
    fails = fold.events.where(F.col("kind") == Kind.FAIL.value)
    first = F.min(F.struct("logged_at", "component", "batch", "reason")).alias("first")
    return (
        fails.groupBy("root_id")
        .agg(first)
        .select(
            "root_id",
            F.col("first.reason").alias("fail_reason"),
            F.col("first.component").alias("fail_component"),
        )
    )


def _successors(fold: FoldInput) -> DataFrame:
    """Per message that was emitted more than once, its highest attempt in flight."""
    later = F.col("attempt") > 1
    pending = fold.live.where((F.col("state") == State.PENDING.value) & later)
    inits = fold.events.where((F.col("kind") == Kind.INIT.value) & later)
    columns = [*MESSAGE, "attempt"]
    both = pending.select(columns).unionByName(inits.select(columns))
    return both.groupBy(MESSAGE).agg(F.max("attempt").alias("successor"))


def _expired(fold: FoldInput) -> Column:
    turns = fold.timeouts.turns
    if turns is None:
        return F.lit(False)
    return F.lit(fold.turn.number) - F.col("turn") >= turns


def _spare_waiting(roots: DataFrame, fold: FoldInput) -> DataFrame:
    """A root whose tuples wait for a bolt's batch is not too old, unless past the hard limit."""
    assert fold.waiting is not None
    waiting = fold.waiting.select(F.col("_root_id").alias("root_id"), F.lit(True).alias("waits")).distinct()
    hard = fold.timeouts.hard_turns
    overdue = F.lit(False) if hard is None else F.lit(fold.turn.number) - F.col("turn") >= hard
    waits = F.coalesce(F.col("waits"), F.lit(False))
    return roots.join(waiting, "root_id", "left").withColumn("expired", F.col("expired") & (~waits | overdue))


def one_row_per_root(decided: DataFrame) -> DataFrame:
    """Of a root with two inits, the row of the first; such a root has failed, whichever describes it.

    A root that was also found lost, which has no time of emission, is described by its init.
    """
    emitted_at = F.col("emitted_at").asc_nulls_last()
    then = ["batch", "source_partition", "source_offset", "attempt"]
    first = Window.partitionBy("root_id").orderBy(emitted_at, *then)
    return decided.withColumn("_n", F.row_number().over(first)).where("_n = 1").drop("_n")


def retry_delays(policy: RetryPolicy, attempts: Collection[int]) -> dict[int, float | None]:
    """Seconds to wait after each attempt's failure; None where the message is given up."""
    return {attempt: delay_after(policy, attempt) for attempt in sorted(attempts)}


def ledger_rows(fold: FoldInput, decided: DataFrame, delays: Mapping[int, float | None]) -> DataFrame:
    """Every row of the ledger that this fold adds, but for its own; `live` (bool) tells which live on."""
    now = F.lit(fold.now)
    attempts = decided.where(F.col("state") != "late").drop("events", "emissions")
    live = F.col("state") == State.PENDING.value
    rows = attempts.drop("superseded").select(
        "*",
        live.alias("live"),
        F.lit(None).cast("timestamp").alias("retry_at"),
        F.when(~live, now).alias("settled_at"),
    )
    rows = rows.unionByName(_still_retrying(fold))
    failed = attempts.where(
        F.col("state").isin(State.FAILED.value, State.TIMED_OUT.value) & ~F.col("superseded")
    ).drop("superseded")
    again = {attempt: seconds for attempt, seconds in delays.items() if seconds is not None}
    over = [attempt for attempt, seconds in delays.items() if seconds is None]
    if over:
        rows = rows.unionByName(_dead_letters(failed.where(F.col("attempt").isin(over)), now))
    if again:
        rows = rows.unionByName(_retries(failed.where(F.col("attempt").isin(list(again))), again, fold.now))
    return rows


def _still_retrying(fold: FoldInput) -> DataFrame:
    """Messages that go on waiting for their next attempt, and those whose spout is gone, as `lost`."""
    waiting = fold.live.where(F.col("state") == State.RETRYING.value)
    if fold.replays:
        reported = F.col("kind").isin(Kind.INIT.value, Kind.LOST.value) & (F.col("attempt") > 1)
        arrived = fold.events.where(reported).groupBy(MESSAGE).agg(F.max("attempt").alias("arrived"))
        waiting = waiting.join(arrived, MESSAGE, "left").where(
            F.col("arrived").isNull() | (F.col("arrived") < F.col("attempt"))
        )
    gone = ~F.col("spout").isin(list(fold.spouts))
    return waiting.select(
        "root_id",
        *MESSAGE,
        "attempt",
        F.when(gone, State.LOST.value).otherwise(F.col("state")).alias("state"),
        "ack_val",
        "outstanding",
        F.when(gone, SPOUT_GONE).otherwise(F.col("reason")).alias("reason"),
        F.when(~gone, F.col("component")).alias("component"),
        "batch",
        "turn",
        "replaces",
        "emitted_at",
        (~gone).alias("live"),
        F.when(~gone, F.col("retry_at")).alias("retry_at"),
        F.when(gone, F.lit(fold.now)).alias("settled_at"),
    )


def _dead_letters(failed: DataFrame, now: Column) -> DataFrame:
    return failed.drop("state").select(
        "*",
        F.lit(State.DEAD_LETTER.value).alias("state"),
        F.lit(False).alias("live"),
        F.lit(None).cast("timestamp").alias("retry_at"),
        now.alias("settled_at"),
    )


def _retries(failed: DataFrame, delays: Mapping[int, float], now: datetime) -> DataFrame:
    due = F.lit(None).cast("timestamp")
    for attempt, seconds in delays.items():
        due = F.when(F.col("attempt") == attempt, F.lit(now + timedelta(seconds=seconds))).otherwise(due)
    kept = ["root_id", *MESSAGE, "reason", "component", "replaces", "emitted_at"]
    return failed.select(
        *kept,
        (F.col("attempt") + 1).alias("attempt"),
        F.lit(State.RETRYING.value).alias("state"),
        F.lit(0).cast("bigint").alias("ack_val"),
        F.lit(0).cast("bigint").alias("outstanding"),
        F.lit(None).cast("bigint").alias("batch"),
        F.lit(None).cast("bigint").alias("turn"),
        F.lit(True).alias("live"),
        due.alias("retry_at"),
        F.lit(None).cast("timestamp").alias("settled_at"),
    )


def count(decided: DataFrame) -> Counts:
    """Count a fold's outcomes. Runs one Spark job."""
    rows = decided.groupBy("state", "attempt", "superseded").agg(
        F.count("*").alias("roots"), F.sum("events").alias("events"), F.max("emissions").alias("emissions")
    )
    totals: Counter[str] = Counter()
    late, replays_pending, double_inits = 0, 0, False
    failed_attempts = set()
    for row in rows.collect():
        if row["state"] == "late":
            late += row["events"]
            continue
        totals[row["state"]] += row["roots"]
        double_inits = double_inits or row["emissions"] > 1
        if row["state"] == State.PENDING.value and row["attempt"] > 1:
            replays_pending += row["roots"]
        if row["state"] in (State.FAILED.value, State.TIMED_OUT.value) and not row["superseded"]:
            failed_attempts.add(row["attempt"])
    return Counts(dict(totals), late, replays_pending, failed_attempts, double_inits)
