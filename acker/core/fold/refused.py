"""Rows that a fold writes of refusals: the attempts that a published table has refused after their ack."""

import polars as pl

from acker.core.events import State
from acker.core.fold.decide import FoldInput
from acker.core.messages import MESSAGE
from acker.core.snapshot.ledger import Fold, live_rows, settled_in
from acker.core.store.parquet import collect


def refused_rows(previous: Fold, new: pl.DataFrame, fold: FoldInput) -> pl.DataFrame:
    """The rows that a fold writes for the refusals that no fold before has read.

    Each refused attempt gets a row `failed`. Its message also gets a row `dead_letter`, unless the message
    was emitted again meanwhile or is given up already.

    Args:
        previous: the fold before.
        new: rows of `refusals`.
        fold: inputs of the fold, with the new events.
    """
    refused = new.unique("root_id", keep="first", maintain_order=True)
    failed = refused.select(
        "root_id",
        *MESSAGE,
        "attempt",
        pl.lit(State.FAILED.value).alias("state"),
        pl.lit(0, pl.Int64).alias("ack_val"),
        pl.lit(0, pl.Int64).alias("outstanding"),
        "reason",
        pl.col("stream").alias("component"),
        "batch",
        pl.lit(None, pl.Int64).alias("replaces"),
        "joined",
        "emitted_at",
        pl.lit(0, pl.Int64).alias("events"),
        pl.lit(fold.now).alias("settled_at"),
        pl.lit(False).alias("live"),
    )
    goes_on = collect(_going_on(previous, refused, fold))
    given_up = failed.join(goes_on, on="root_id", how="anti").with_columns(
        state=pl.lit(State.DEAD_LETTER.value)
    )
    return pl.concat([failed, given_up])


def _going_on(previous: Fold, refused: pl.DataFrame, fold: FoldInput) -> pl.LazyFrame:
    """Of refused roots (`root_id`) those whose message was emitted again, or is given up already."""
    columns = ["root_id", *MESSAGE, "attempt", "state"]
    since = pl.col("fold") > refused.select(pl.col("fold").min()).item()
    arrived = pl.concat([fold.inits, fold.losses]).with_columns(state=pl.lit(None, pl.String))
    rows = [live_rows(previous), settled_in(previous.ledger, previous.number).filter(since), arrived]
    both = pl.concat([each.select(columns) for each in rows]).join(
        refused.lazy().select(*MESSAGE, refused="root_id", was="attempt"), on=MESSAGE
    )
    is_again = pl.col("attempt") > pl.col("was")
    is_told = (pl.col("root_id") == pl.col("refused")) & (pl.col("state") == State.DEAD_LETTER)
    return both.filter(is_again | is_told.fill_null(False)).select(root_id="refused").unique()
