"""One fold: from the live rows and the new events to the ledger's next rows. DataFrames in and out.

Nothing here reads a clock or a table, so the same inputs give the same rows, and a step that Spark
repeats repeats itself exactly. `oracle` says the same in plain Python.

One aggregation does the work, and its buffer holds numbers alone: with strings Spark would sort instead
of hash. So (spout, source_partition), of which there are few, are a number that is looked up at the end.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from acker.events import Kind, State
from acker.steady import steady
from acker.timeouts import Timeouts, Turn

TWICE = "emitted twice"
SPOUT_GONE = "spout is no longer in the topology"

_SOURCE = ["spout", "source_partition"]
_MESSAGE = ["source", "source_offset"]  # with the source as a number
_FLAG_BITS = 20  # a counter's width in `flags`; more than a root has batches
_MICROSECOND = timedelta(microseconds=1)


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
        retrying: whether any of the live rows is retrying.
        failures: whether any of the events is a fail or a lost.
        delays: seconds to wait after the failure of attempt 1, 2, …, None where the message is given
            up; as long as the highest attempt among the live rows, the new inits and the new lost.
    """

    live: DataFrame
    events: DataFrame
    waiting: DataFrame | None
    spouts: Collection[str]
    retrying: bool
    failures: bool
    delays: Sequence[float | None]
    turn: Turn
    timeouts: Timeouts
    now: datetime

    @property
    def replays(self) -> bool:
        """Whether any attempt after the first is in play."""
        return len(self.delays) > 1

    @property
    def pending(self) -> DataFrame:
        """The roots in flight."""
        return self.live.where(F.col("state") == State.PENDING.value)

    @property
    def emissions(self) -> DataFrame:
        """The events that describe a root: inits, and losses instead of one."""
        return self.events.where(F.col("kind").isin(Kind.INIT.value, Kind.LOST.value))


def ledger_rows(fold: FoldInput) -> DataFrame:
    """Every row that this fold adds to the ledger, but for its own.

    Columns are those of `ledger` that a fold decides, and `live` (bool), which tells which rows live on.
    """
    rows = _with_successors(_outcomes(fold), fold)
    return rows.unionByName(_still_retrying(fold)) if fold.retrying else rows


def _outcomes(fold: FoldInput) -> DataFrame:
    """One row per root that has been emitted or lost, with its `state` and `superseded` (bool)."""
    roots = _balances(fold)
    roots = roots.where((F.col("inits") > 0) | (F.col("losses") > 0))  # the others are late
    roots = roots.join(F.broadcast(_sources(fold)), "source", "left")
    if fold.failures:
        roots = roots.join(_reports(fold), "root_id", "left")
    else:
        nothing = F.lit(None).cast("struct<component: string, reason: string>")
        roots = roots.withColumns({"first_fail": nothing, "lost_reason": F.lit(None).cast("string")})
    if fold.replays:
        roots = roots.join(_successors(fold), _MESSAGE, "left")
    else:
        roots = roots.withColumn("successor", F.lit(None).cast("int"))
    superseded = F.coalesce(F.col("successor") > F.col("attempt"), F.lit(False))
    roots = roots.withColumns({"superseded": superseded, "expired": _expired(fold)})
    if fold.waiting is not None:
        roots = _spare_waiting(roots, fold)
    complete = (F.col("ack_val") == 0) & (F.col("outstanding") == 0)
    state = (
        F.when(F.col("inits") == 0, State.LOST.value)
        .when(F.col("superseded") | (F.col("fails") > 0) | (F.col("inits") > 1), State.FAILED.value)
        .when(complete, State.ACKED.value)
        .when(F.col("expired"), State.TIMED_OUT.value)
        .otherwise(State.PENDING.value)
    )
    roots = roots.withColumn("state", state)
    reason = (
        F.when(F.col("state") == State.LOST.value, F.col("lost_reason"))
        .when(F.col("superseded"), superseded_reason(F.col("successor")))
        .when(F.col("fails") > 0, F.col("first_fail.reason"))
        .when(F.col("inits") > 1, TWICE)
        .when(F.col("state") == State.TIMED_OUT.value, timeout_reason(fold.timeouts.message_timeout))
    )
    failed = (F.col("state") == State.FAILED.value) & ~F.col("superseded")
    is_lost = F.col("state") == State.LOST.value
    return roots.select(
        "root_id",
        *_SOURCE,
        "source_offset",
        "attempt",
        "state",
        F.when(is_lost, 0).otherwise(F.col("ack_val")).cast("bigint").alias("ack_val"),
        F.when(is_lost, 0).otherwise(F.col("outstanding")).cast("bigint").alias("outstanding"),
        reason.alias("reason"),
        F.when(failed, F.col("first_fail.component")).alias("component"),
        "batch",
        F.when(~is_lost, F.col("turn")).alias("turn"),
        "replaces",
        "emitted_at",
        "superseded",
        "events",
    )


def _source() -> Column:
    return F.xxhash64(*_SOURCE).alias("source")


def _sources(fold: FoldInput) -> DataFrame:
    """What each source's number stands for."""
    found = fold.pending.select(*_SOURCE).unionByName(fold.emissions.select(*_SOURCE)).distinct()
    return found.select(*_SOURCE, _source())


def _balances(fold: FoldInput) -> DataFrame:
    """Per root: XOR, what is outstanding, how many inits, fails, losses and events, and its message."""
    now = steady(fold.turn.number, "root_id", "bigint")
    kind = F.col("kind")
    init, lost = kind == Kind.INIT.value, kind == Kind.LOST.value
    flags = F.when(init, 1).when(kind == Kind.FAIL.value, 1 << _FLAG_BITS)
    flags = flags.when(lost, 1 << 2 * _FLAG_BITS).otherwise(0)
    described = init | lost
    events = fold.events.select(
        "root_id",
        "ack_val",
        (F.col("emitted") - F.col("consumed")).alias("outstanding"),
        flags.cast("bigint").alias("flags"),
        F.when(init | (kind == Kind.RESET.value), now).alias("turn"),
        F.lit(1).cast("bigint").alias("events"),
        F.when(described, _source()).alias("source"),
        F.when(described, F.col("source_offset")).alias("source_offset"),
        F.when(described, F.col("attempt")).alias("attempt"),
        F.when(described, F.col("batch")).alias("batch"),
        F.when(described, F.col("replaces")).alias("replaces"),
        F.when(init, F.col("logged_at")).alias("emitted_at"),
    )
    pending = fold.pending.select(
        "root_id",
        "ack_val",
        "outstanding",
        F.lit(1).cast("bigint").alias("flags"),
        "turn",
        F.lit(0).cast("bigint").alias("events"),
        _source(),
        "source_offset",
        "attempt",
        "batch",
        "replaces",
        "emitted_at",
    )
    # A root that was emitted twice has described itself twice, and alike but for the time: the first counts.
    description = ["source", "source_offset", "batch", "emitted_at"]
    # Every number in the buffer costs, so those that are the same in all rows are left out of it.
    if fold.replays:
        description += ["attempt", "replaces"]
    sums = (
        pending.unionByName(events)
        .groupBy("root_id")
        .agg(
            F.bit_xor("ack_val").alias("ack_val"),
            *[F.sum(column).alias(column) for column in ("outstanding", "flags", "events")],
            F.max("turn").alias("turn"),
            *[F.min(column).alias(column) for column in description],
        )
    )
    if not fold.replays:
        sums = sums.withColumns({"attempt": F.lit(1), "replaces": F.lit(None).cast("bigint")})
    mask = F.lit((1 << _FLAG_BITS) - 1)
    return sums.withColumns(
        {
            "inits": F.col("flags").bitwiseAND(mask),
            "fails": F.shiftright("flags", _FLAG_BITS).bitwiseAND(mask),
            "losses": F.shiftright("flags", 2 * _FLAG_BITS),
        }
    )


def _reports(fold: FoldInput) -> DataFrame:
    """Per root that failed or was lost: its first failure, and why it was lost. The only strings per root."""
    fail = F.struct("logged_at", "component", "batch", "reason")
    reported = fold.events.where(F.col("kind").isin(Kind.FAIL.value, Kind.LOST.value))
    return reported.groupBy("root_id").agg(
        F.min(F.when(F.col("kind") == Kind.FAIL.value, fail)).alias("first_fail"),
        F.min(F.when(F.col("kind") == Kind.LOST.value, F.col("reason"))).alias("lost_reason"),
    )


def _successors(fold: FoldInput) -> DataFrame:
    """Per message that was emitted more than once, its highest attempt in flight."""
    later = F.col("attempt") > 1
    inits = fold.events.where(F.col("kind") == Kind.INIT.value)
    columns = (_source(), "source_offset", "attempt")
    both = fold.pending.where(later).select(*columns).unionByName(inits.where(later).select(*columns))
    return both.groupBy(_MESSAGE).agg(F.max("attempt").alias("successor"))


def _expired(fold: FoldInput) -> Column:
    turns = fold.timeouts.turns
    if turns is None:
        return F.lit(False)
    return steady(fold.turn.number, "root_id") - F.col("turn") >= turns


def _spare_waiting(roots: DataFrame, fold: FoldInput) -> DataFrame:
    """A root whose tuples wait for a bolt's batch is not too old, unless past the hard limit."""
    assert fold.waiting is not None
    waiting = fold.waiting.select(F.col("_root_id").alias("root_id")).distinct()
    hard = fold.timeouts.hard_turns
    overdue = F.lit(False) if hard is None else steady(fold.turn.number, "root_id") - F.col("turn") >= hard
    waits = F.coalesce(F.col("waits"), F.lit(False))
    joined = roots.join(waiting.withColumn("waits", F.lit(True)), "root_id", "left")
    return joined.withColumn("expired", F.col("expired") & (~waits | overdue)).drop("waits")


def _with_successors(decided: DataFrame, fold: FoldInput) -> DataFrame:
    """Each decided row, and after a failure with a delay a `retrying` row, without one a `dead_letter`.

    The second row comes out of an explode of two numbers, so that what decided the first runs once.
    """
    failed = F.col("state").isin(State.FAILED.value, State.TIMED_OUT.value) & ~F.col("superseded")
    one, two = F.array(F.lit(False)), F.array(F.lit(False), F.lit(True))
    micros = [None if s is None else timedelta(seconds=s) // _MICROSECOND for s in fold.delays]
    delays = F.array(*[F.lit(each).cast("bigint") for each in micros])
    rows = decided.withColumn("delay", F.when(failed, F.element_at(delays, F.col("attempt"))))
    rows = rows.withColumn("follows", F.explode(F.when(failed, two).otherwise(one)))
    follows, again = F.col("follows"), F.col("follows") & F.col("delay").isNotNull()
    state = (
        F.when(again, State.RETRYING.value).when(follows, State.DEAD_LETTER.value).otherwise(F.col("state"))
    )
    live = again | (~follows & (F.col("state") == State.PENDING.value))
    now = steady(fold.now, "root_id")
    return rows.select(
        "root_id",
        *_SOURCE,
        "source_offset",
        (F.col("attempt") + again.cast("int")).alias("attempt"),
        state.alias("state"),
        F.when(again, 0).otherwise(F.col("ack_val")).cast("bigint").alias("ack_val"),
        F.when(again, 0).otherwise(F.col("outstanding")).cast("bigint").alias("outstanding"),
        "reason",
        "component",
        F.when(~again, F.col("batch")).alias("batch"),
        F.when(~again, F.col("turn")).alias("turn"),
        "replaces",
        "emitted_at",
        F.when(again, F.timestamp_micros(F.unix_micros(now) + F.col("delay"))).alias("retry_at"),
        F.when(~live, now).alias("settled_at"),
        F.when(follows, 0).otherwise(F.col("events")).cast("bigint").alias("events"),
        live.alias("live"),
    )


def _still_retrying(fold: FoldInput) -> DataFrame:
    """Messages that go on waiting for their next attempt, and those whose spout is gone, as `lost`."""
    waiting = fold.live.where(F.col("state") == State.RETRYING.value).withColumn("source", _source())
    arrived = (
        fold.emissions.where(F.col("attempt") > 1)
        .groupBy(_source(), "source_offset")
        .agg(F.max("attempt").alias("arrived"))
    )
    waiting = waiting.join(arrived, _MESSAGE, "left").where(
        F.col("arrived").isNull() | (F.col("arrived") < F.col("attempt"))
    )
    gone = ~F.col("spout").isin(list(fold.spouts))
    return waiting.select(
        "root_id",
        *_SOURCE,
        "source_offset",
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
        F.when(~gone, F.col("retry_at")).alias("retry_at"),
        F.when(gone, steady(fold.now, "root_id")).alias("settled_at"),
        F.lit(0).cast("bigint").alias("events"),
        (~gone).alias("live"),
    )
