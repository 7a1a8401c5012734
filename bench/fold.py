"""The fold: against Polars on the same files, and against its own history."""

import shutil
from datetime import UTC, datetime
from pathlib import Path

import polars as pl
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from acker.core.fold.job import FoldRequest, run_fold
from acker.core.retry import ExponentialBackoff
from acker.core.snapshot.ledger import APP, fold_counts
from acker.core.snapshot.snapshot import Snapshot
from acker.core.store.checksums import batch_row, checksum_of_batch
from acker.core.store.parquet import collect, columns_of, scan
from acker.core.store.schemas import EVENTS, LEDGER, SCHEMAS
from acker.core.store.store import Store
from acker.core.store.tables import append_rows, files_of
from acker.core.timeouts import Timeouts
from acker.spark.delta import append
from bench.pairs import Measure, measure

NOW = datetime(2026, 1, 1, tzinfo=UTC)
SPOUT = "sentences"
BOLT = "words"
RAW_ROOTS = 1_000_000
RAW_ACKS = 10  # per root: 11 M events
FOLD_AT_MOST = 5.0

SETTLED = (200_000, 2_000_000)
SETTLED_FOLDS = 20
NEW_ROOTS = 500_000
HISTORY_AT_MOST = 1.1


def measure_fold(spark: SparkSession, folder: Path, rounds: int, roots: int = RAW_ROOTS) -> Measure:
    """11 M raw events to 1 M roots: a fold with its commit ÷ Polars' group-by of the same files."""
    store = Store(str(folder), "fold")
    store.create()
    _append_events(store, spark, roots, RAW_ACKS, batch=1)
    files = files_of(store.require(EVENTS))

    # A ledger of its own for every round, made before the time runs.
    ledgers = [Store(str(folder / str(number)), "fold") for number in range(rounds + 1)]
    for ledger in ledgers:
        ledger.create()
        shutil.rmtree(ledger.path(EVENTS))
        shutil.copytree(store.path(EVENTS), ledger.path(EVENTS))

    def ours(number: int) -> None:
        assert _fold(ledgers[number], batch=1)["acked"] == roots

    def polars(number: int) -> None:
        assert _polars_acked(files) == roots

    return measure("fold", FOLD_AT_MOST, ours, polars, rounds)


def _polars_acked(files: list[str]) -> int:
    """Everything that a fold aggregates, in one group-by; returns how many roots are complete."""
    kind = pl.col("kind")
    first = [
        pl.col(column).max()
        for column in (
            "spout",
            "source_partition",
            "source_offset",
            "attempt",
            "replaces",
            "batch",
            "logged_at",
        )
    ]
    groups = (
        pl.scan_parquet(files, cast_options=pl.ScanCastOptions(datetime_cast="nanosecond-downcast"))
        .group_by("root_id")
        .agg(
            pl.col("ack_val").bitwise_xor(),
            (pl.col("emitted") - pl.col("consumed")).sum().alias("outstanding"),
            (kind == "init").sum().alias("inits"),
            (kind == "fail").sum().alias("fails"),
            *first,
        )
        .collect()
    )
    complete = (pl.col("ack_val") == 0) & (pl.col("outstanding") == 0) & (pl.col("inits") == 1)
    return groups.filter(complete & (pl.col("fails") == 0)).height


def measure_history(
    spark: SparkSession, folder: Path, rounds: int, settled: tuple[int, int] = SETTLED
) -> Measure:
    """The same fold on a ledger with a long history ÷ with a short one.

    It takes half a second, so it is done in three times as many rounds as the others.
    """
    rounds *= 3
    copies = [_copies(with_history(spark, folder, count), folder, rounds + 1) for count in settled]

    def once(store: Store) -> None:
        assert _fold(store, SETTLED_FOLDS + 1)["acked"] == NEW_ROOTS

    short, long = copies
    return measure("history", HISTORY_AT_MOST, lambda n: once(long[n]), lambda n: once(short[n]), rounds)


def _copies(store: Store, folder: Path, count: int) -> list[Store]:
    """Stores of the same content, one for each round."""
    copies = [Store(str(folder / f"copy{number}"), store.topology) for number in range(count)]
    for copy in copies:
        shutil.copytree(store.path(""), copy.path(""))
    return copies


def with_history(spark: SparkSession, folder: Path, settled: int, new: bool = True) -> Store:
    """A store whose ledger holds `settled` acked roots of earlier folds.

    Args:
        new: whether there are new events as well.
    """
    store = Store(str(folder), f"history{settled}")
    store.create()
    each = settled // SETTLED_FOLDS
    for fold in range(1, SETTLED_FOLDS + 1):
        roots = spark.range(fold * each, (fold + 1) * each, 1, 2).select(
            F.lit(fold).cast("bigint").alias("fold"),
            F.lit(0).cast("bigint").alias("events_version"),
            F.xxhash64("id", F.lit(settled)).alias("root_id"),
            F.lit(SPOUT).alias("spout"),
            F.lit("0").alias("source_partition"),
            (-F.col("id") - 1).alias("source_offset"),
            F.lit(1).alias("attempt"),
            F.lit("acked").alias("state"),
            F.lit(0).cast("bigint").alias("ack_val"),
            F.lit(0).cast("bigint").alias("outstanding"),
            F.lit(0).cast("bigint").alias("batch"),
            F.lit(NOW).alias("settled_at"),
            F.lit(NOW).alias("folded_at"),
        )
        logged = {SPOUT: SETTLED_FOLDS, BOLT: SETTLED_FOLDS}
        own = spark.createDataFrame(
            [{"fold": fold, "events_version": 0, "turn": 0, "window": 0, "logged": logged, "events": each}],
            "fold bigint, events_version bigint, turn bigint, `window` bigint, logged map<string,bigint>, "
            "events bigint",
        )
        rows = own.unionByName(roots, allowMissingColumns=True)
        stamped = rows.withColumn("live_in", F.lit(None).cast("bigint"))
        append(stamped, store.path(LEDGER), APP, fold)
    if new:
        _append_events(store, spark, NEW_ROOTS, 2, batch=SETTLED_FOLDS + 1)
    return store


def _append_events(store: Store, spark: SparkSession, roots: int, acks: int, batch: int) -> None:
    """Events of chains: an init and `acks` acks per root, each of which cancels the tuple before."""
    root = F.xxhash64("id", F.lit(batch))

    def tuple_id(step: int | str) -> str:
        return f"xxhash64(id, {batch}, {step})"

    init = spark.range(0, roots, 1, 4).select(
        root.alias("root_id"),
        F.lit("init").alias("kind"),
        F.expr(tuple_id(0)).alias("ack_val"),
        F.lit(1).cast("bigint").alias("emitted"),
        F.lit(0).cast("bigint").alias("consumed"),
        F.lit(SPOUT).alias("spout"),
        F.lit("0").alias("source_partition"),
        F.col("id").alias("source_offset"),
        F.lit(1).alias("attempt"),
        F.lit(SPOUT).alias("component"),
    )
    last = F.col("step") == acks - 1
    steps = spark.range(0, roots * acks, 1, 8).selectExpr(
        f"id div {acks} AS id", f"cast(id % {acks} AS int) AS step"
    )
    ack = steps.select(
        root.alias("root_id"),
        F.lit("ack").alias("kind"),
        F.when(last, F.expr(tuple_id("step")))
        .otherwise(F.expr(f"{tuple_id('step')} ^ {tuple_id('step + 1')}"))
        .alias("ack_val"),
        F.when(last, 0).otherwise(1).cast("bigint").alias("emitted"),
        F.lit(1).cast("bigint").alias("consumed"),
        F.lit(BOLT).alias("component"),
    )
    for component, events in ((SPOUT, init), (BOLT, ack)):
        stamped = events.withColumns({"batch": F.lit(batch).cast("bigint"), "logged_at": F.lit(NOW)})
        append(_complete(spark, stamped), store.path(EVENTS), component, batch)
        _seal(store, component, batch)


def _seal(store: Store, component: str, batch: int) -> None:
    """Append a batch's own row."""
    table = store.require(EVENTS)
    rows = collect(scan(files_of(table), columns_of(EVENTS)).filter(pl.col("component") == component))
    own = batch_row(checksum_of_batch(rows), component, batch, 0, NOW)
    append_rows(table, own, f"{component} sealed", batch)


def _complete(spark: SparkSession, events: DataFrame) -> DataFrame:
    """Events with every column of the table."""
    return spark.createDataFrame([], SCHEMAS[EVENTS].columns).unionByName(events, allowMissingColumns=True)


def _fold(store: Store, batch: int) -> dict[str, int]:
    request = FoldRequest(
        snapshot=Snapshot(store),
        logged={SPOUT: batch, BOLT: batch},
        waiting={},
        spouts=[SPOUT],
        retry=ExponentialBackoff(),
        timeouts=Timeouts(),
        now=NOW,
    )
    fold, _ = run_fold(request)
    return fold_counts(fold)
