"""The events of a batch: per root what a component consumed and emitted, read from committed rows.

A batch's own stream tells what it emitted and what failed, its inputs' streams what it consumed.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

import polars as pl

from acker.events import Kind
from acker.frames import STREAM, collect, columns_of, file_name, files_of, scan
from acker.ids import tuple_ids
from acker.schemas import EVENTS, SPOUT_COLUMNS, stream
from acker.tables import Store, append_rows, in_batches

_EMITTED = pl.col("_kind").is_null()  # the row is a tuple, and no report on an input


@dataclass(frozen=True)
class LogRequest:
    """A batch whose rows are in its component's stream, or that fails all its inputs.

    Args:
        edges: the consumers at the time.
        inputs: stream -> the batches of it that a bolt's batch consumed; None for a spout's batch.
        failed: why all messages of the inputs fail; nothing was written then. None: it was written.
    """

    component: str
    batch: int
    edges: Sequence[str]
    inputs: Mapping[str, Sequence[int]] | None
    now: datetime
    failed: str | None = None


def run_log(store: Store, request: LogRequest) -> None:
    """Append the events of a batch in one commit; once, however often it is called.

    Raises:
        StoreError: a stream could not be read, or the events not be committed.
    """
    columns = columns_of(EVENTS)
    if request.failed is None:
        store.require(stream(request.component))  # without it nothing was written, and nothing is acked
    events_of = _spout_events if request.inputs is None else _bolt_events
    events = (events_of if request.failed is None else _failed_events)(store, request).with_columns(
        component=pl.lit(request.component), batch=pl.lit(request.batch), logged_at=pl.lit(request.now)
    )
    missing = {name: pl.lit(None) for name in columns if name not in events.collect_schema()}
    rows = events.with_columns(**missing).select(columns.names()).cast(columns)
    append_rows(store.require(EVENTS), collect(rows), request.component, request.batch)


def _spout_events(store: Store, request: LogRequest) -> pl.LazyFrame:
    """One row per message, an init or a lost; and a fail for one that was emitted and could not be read."""
    rows = _rows(store, request.component, [request.batch], request.edges)
    lost, failed = pl.col("_kind") == Kind.LOST, pl.col("_kind") == Kind.FAIL
    message = [
        pl.col("_root_id").alias("root_id"),
        pl.when(_EMITTED).then("id").otherwise(0).alias("ack_val"),
        pl.when(_EMITTED).then(len(request.edges)).otherwise(0).alias("emitted"),
        pl.lit(0).alias("consumed"),
        pl.lit(request.component).alias("spout"),
        *(pl.col(column).alias(column.removeprefix("_")) for column in SPOUT_COLUMNS),
    ]
    first = rows.select(
        *message,
        pl.when(lost).then(pl.lit(Kind.LOST)).otherwise(pl.lit(Kind.INIT)).alias("kind"),
        pl.when(lost).then("_error").alias("reason"),
    )
    fails = rows.filter(failed).select(
        *message, pl.lit(Kind.FAIL).alias("kind"), pl.col("_error").alias("reason")
    )
    return pl.concat([first, fails])


def _bolt_events(store: Store, request: LogRequest) -> pl.LazyFrame:
    """One row per root: the XOR of the ids that were consumed and emitted, and how many of each."""
    consumed = _consumed(store, request)
    own = _rows(store, request.component, [request.batch], request.edges)
    failed = own.filter(pl.col("_kind") == Kind.FAIL).group_by("_root_id").agg(reason=pl.col("_error").min())
    if request.edges:  # else nobody is to consume what the bolt emitted
        both = consumed.join(_by_root(own), on="_root_id", how="full", coalesce=True, suffix="_emitted")
    else:
        both = consumed.with_columns(id_emitted=0, tuples_emitted=0)
    return both.join(failed.with_columns(kind=pl.lit(Kind.FAIL)), on="_root_id", how="left").select(
        pl.col("_root_id").alias("root_id"),
        pl.col("kind").fill_null(Kind.ACK),
        (pl.col("id").fill_null(0) ^ pl.col("id_emitted").fill_null(0)).alias("ack_val"),
        (pl.col("tuples_emitted").fill_null(0) * len(request.edges)).alias("emitted"),
        pl.col("tuples").fill_null(0).alias("consumed"),
        "reason",
    )


def _failed_events(store: Store, request: LogRequest) -> pl.LazyFrame:
    """One row per root of the inputs: all of its tuples are consumed, and it fails."""
    return _consumed(store, request).select(
        pl.col("_root_id").alias("root_id"),
        pl.lit(Kind.FAIL).alias("kind"),
        pl.col("id").alias("ack_val"),
        pl.lit(0).alias("emitted"),
        pl.col("tuples").alias("consumed"),
        pl.lit(request.failed).alias("reason"),
    )


def _consumed(store: Store, request: LogRequest) -> pl.LazyFrame:
    """Per root the tuples that a bolt's batch consumed; see `_by_root`."""
    assert request.inputs is not None
    inputs = [_rows(store, name, batches, [request.component]) for name, batches in request.inputs.items()]
    return _by_root(pl.concat(inputs))


def _by_root(rows: pl.LazyFrame) -> pl.LazyFrame:
    """Per root of the tuples among some rows the XOR of their ids, and `tuples`, how many there are."""
    tuples = rows.filter(_EMITTED).group_by("_root_id")
    return tuples.agg(pl.col("id").bitwise_xor(), pl.len().cast(pl.Int64).alias("tuples"))


def _rows(store: Store, emitter: str, batches: Sequence[int], consumers: Sequence[str]) -> pl.LazyFrame:
    """Rows of some batches of a stream, each with its `id` on its edges to some consumers."""
    parts = [pl.LazyFrame(schema={**STREAM, "id": pl.Int64})]
    for file in files_of(store, emitter, batches):
        ids = tuple_ids(emitter, consumers, file_name(file), pl.col("_row"))
        parts.append(scan([file], STREAM, row="_row").with_columns(id=ids).drop("_row"))
    return pl.concat(parts).filter(pl.sql_expr(in_batches(batches)))
