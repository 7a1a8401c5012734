"""The events of a batch: per root what a component consumed and emitted, read from committed rows.

A batch's own stream tells what it emitted and what failed. What a bolt consumed is told by its inputs'
events where Delta's statistics prove them whole; that spares a second reading of the stream.
"""

from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from acker.events import Kind
from acker.ids import tuple_ids
from acker.schemas import EVENTS
from acker.tables import arrow_table, query
from pipeline.journal import Batch
from pipeline.run import Run, in_batches, stream
from pipeline.topology import Component


def spout_events(run: Run, batch: Batch) -> DataFrame:
    """Events of a spout's batch, from its stream: one tuple per message, so nothing is aggregated."""
    rows = run.store.read(run.spark, stream(batch.component)).where(in_batches([batch.number]))
    emitted = F.col("_kind").isNull()
    message = [
        F.lit(batch.component).alias("spout"),
        F.col("_source_partition").alias("source_partition"),
        F.col("_source_offset").alias("source_offset"),
        F.col("_attempt").alias("attempt"),
        F.col("_replaces").alias("replaces"),
    ]
    lost = F.col("_kind") == Kind.LOST.value
    first = rows.select(
        F.col("_root_id").alias("root_id"),
        F.when(lost, Kind.LOST.value).otherwise(Kind.INIT.value).alias("kind"),
        F.when(emitted, tuple_ids(batch.component, batch.edges)).otherwise(0).cast("bigint").alias("ack_val"),
        F.when(emitted, len(batch.edges)).otherwise(0).cast("bigint").alias("emitted"),
        _nothing("consumed"),
        *message,
        F.when(lost, F.col("_error")).alias("reason"),
    )
    first = first.withColumn(
        "emitted_val", _emitted_val(batch, F.when(F.col("emitted") > 0, F.col("ack_val")))
    )
    if _all_emitted(run, batch):
        return first
    failed = rows.where(F.col("_kind") == Kind.FAIL.value).select(
        F.col("_root_id").alias("root_id"),
        F.lit(Kind.FAIL.value).alias("kind"),
        _nothing("ack_val"),
        _nothing("emitted"),
        _nothing("consumed"),
        *message,
        F.col("_error").alias("reason"),
    )
    return first.unionByName(failed, allowMissingColumns=True)


def _all_emitted(run: Run, batch: Batch) -> bool:
    """Whether every row that the batch wrote is a tuple, so that nothing failed and nothing was lost."""
    counts = _counts(run, batch.component, [batch.number])
    return counts is not None and counts[0] == counts[1]


def _nothing(column: str) -> Column:
    return F.lit(0).cast("bigint").alias(column)


def bolt_events(run: Run, bolt: Component, batch: Batch) -> DataFrame:
    """Events of a bolt's batch: per root the XOR of the ids that it consumed and emitted, and how many."""
    consumed = _consumed(run, bolt, run.journal.inputs(batch))
    if batch.edges:
        both = consumed.join(_emitted(run, bolt, batch), "root_id", "full_outer")
    else:
        both = consumed.withColumns({"emitted_ids": F.lit(0), "emitted": F.lit(0)})
    zero = F.lit(0).cast("bigint")
    ids = [F.coalesce(name, zero) for name in ("consumed_ids", "emitted_ids")]
    sums = both.select(
        "root_id",
        ids[0].bitwiseXOR(ids[1]).alias("ack_val"),
        F.coalesce("emitted", zero).alias("emitted"),
        F.coalesce("consumed", zero).alias("consumed"),
        _emitted_val(batch, F.col("emitted_ids")),
    )
    if _all_emitted(run, batch):
        return sums.withColumn("kind", F.lit(Kind.ACK.value))
    failed = (
        run.rows(bolt.name, [batch.number])
        .where(F.col("_kind") == Kind.FAIL.value)
        .groupBy(F.col("_root_id").alias("root_id"))
        .agg(F.min("_error").alias("reason"), F.lit(Kind.FAIL.value).alias("failed"))
    )
    kind = F.coalesce("failed", F.lit(Kind.ACK.value)).alias("kind")
    return sums.join(failed, "root_id", "left").select("*", kind).drop("failed")


def _emitted(run: Run, bolt: Component, batch: Batch) -> DataFrame:
    """Per root the ids (`emitted_ids`) and the number of the edges of a batch's own tuples."""
    rows = run.tuples(bolt.name, [batch.number])
    return rows.groupBy(F.col("_root_id").alias("root_id")).agg(
        F.bit_xor(tuple_ids(bolt.name, batch.edges)).alias("emitted_ids"),
        (F.count("*") * len(batch.edges)).alias("emitted"),
    )


def _emitted_val(batch: Batch, ids: Column) -> Column:
    """The ids that the batch's only reader will have consumed; those of several cannot be told apart."""
    return (ids if len(batch.edges) == 1 else F.lit(None)).cast("bigint").alias("emitted_val")


def _consumed(run: Run, bolt: Component, inputs: dict[str, list[int]]) -> DataFrame:
    """Per root the ids (`consumed_ids`) and the number of the tuples that a batch took in.

    As the events of its inputs tell it where they tell all; else from the streams.
    """
    parts = []
    once = sum(len(batches) for batches in inputs.values()) == 1  # then events have one row per root
    for upstream, batches in inputs.items():
        if _events_tell_all(run, upstream, batches):
            events = run.store.read(run.spark, EVENTS).where(F.col("component") == upstream)
            told = events.where(in_batches(batches, "batch")).where("emitted > 0")
            ids, count = F.col("emitted_val"), F.col("emitted")
            parts.append(told.select("root_id", ids.alias("consumed_ids"), count.alias("consumed")))
        else:
            once = False
            tuples = run.tuples(upstream, batches)
            ids, count = tuple_ids(upstream, [bolt.name]), F.lit(1).cast("bigint")
            root = F.col("_root_id").alias("root_id")
            parts.append(tuples.select(root, ids.alias("consumed_ids"), count.alias("consumed")))
    if once:
        return parts[0]
    union = reduce(lambda a, b: a.unionByName(b), parts)
    return union.groupBy("root_id").agg(
        F.bit_xor("consumed_ids").alias("consumed_ids"), F.sum("consumed").alias("consumed")
    )


def _events_tell_all(run: Run, upstream: str, batches: list[int]) -> bool:
    """Whether the events of some batches say what is in their stream.

    They do where one bolt alone reads it, and where it still holds as many tuples as they counted: a tuple
    that is gone was not consumed.
    """
    planned = run.journal.rows(f"component = '{upstream}' AND {in_batches(batches, 'batch')}")
    if any(len(batch.edges) != 1 for batch in planned):
        return False
    told = f"SELECT sum(emitted) AS tuples FROM events WHERE component = '{upstream}' AND "
    (row,) = query(told + in_batches(batches, "batch"), events=run.store.require(EVENTS))
    counts = _counts(run, upstream, batches)
    return counts is not None and counts[1] == (row["tuples"] or 0)


def _counts(run: Run, component: str, batches: list[int]) -> tuple[int, int] | None:
    """Rows and tuples of some batches in a stream, from Delta's own statistics; None if those do not tell."""
    actions = arrow_table(run.store.require(stream(component)).get_add_actions(flatten=True))
    names = ("min._batch", "max._batch", "num_records", "null_count._kind")
    if not set(names) <= set(actions.column_names):
        return None
    rows = tuples = 0
    for low, high, records, nulls in zip(*(actions[name].to_pylist() for name in names), strict=True):
        if None in (low, high, records, nulls):
            return None
        if not set(range(low, high + 1)).isdisjoint(batches):
            if low != high:  # compacted
                return None
            rows, tuples = rows + records, tuples + nulls
    return rows, tuples
