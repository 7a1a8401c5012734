"""Checksums over rows that are committed together; each is kept in a row beside them.

Delta keeps its transaction numbers when a table's rows are restored, edited or lost. A number says that
something was committed once. The checksum says whether all rows are still there, as they were.
"""

from collections.abc import Sequence
from datetime import datetime
from enum import StrEnum
from functools import reduce
from operator import add

import polars as pl

from acker.core.events import Kind, State
from acker.core.store.ids import hash64
from acker.core.store.parquet import collect, columns_of
from acker.core.store.schemas import EVENTS

# What is decided by. Who is told of it (the message's name, the reason, times) is not in it.
_OF_EVENTS = ("root_id", "ack_val", "emitted", "consumed", "source_offset", "attempt", "replaces", "joined")
_OF_REPLAYS = ("source_offset", "attempt", "replaces")
_OF_LEDGER = ("root_id", "ack_val", "outstanding", "source_offset", "attempt", "batch", "replaces", "joined")


def checksum_of_events() -> pl.Expr:
    """The checksum of some events, an aggregate; 0 of none. Their order does not matter."""
    return _xor(share_of_checksum())


def share_of_checksum() -> pl.Expr:
    """The share of each event in a checksum of events, which is the XOR of the shares."""
    return _shares(_OF_EVENTS, kind=Kind)


def checksum_of_ledger() -> pl.Expr:
    """The checksum of some rows of the ledger, as `checksum_of_events`."""
    return _xor(_shares(_OF_LEDGER, state=State))


def checksum_of_replay() -> pl.Expr:
    """The checksum of some rows of `replays`, as `checksum_of_events`."""
    return _xor(_shares(_OF_REPLAYS))


def checksum_of_batch(events: pl.DataFrame) -> int:
    """The checksum of a batch's events, as `checksum_of_events` makes it.

    Args:
        events: the events. A column in which no event has a value may be missing.
    """
    columns = columns_of(EVENTS)
    missing = {name: pl.lit(None, kind) for name, kind in columns.items() if name not in events.columns}
    return int(collect(events.lazy().with_columns(**missing).select(checksum_of_events())).item())


def batch_row(checksum: int, component: str, batch: int, tuples: int, now: datetime) -> pl.DataFrame:
    """The row of a batch itself among its events, with all columns.

    Args:
        checksum: of all events of the batch.
        tuples: how many rows the batch has in its stream.
    """
    own = {"kind": Kind.BATCH.value, "ack_val": checksum, "emitted": tuples, "consumed": 0}
    own |= {"component": component, "batch": batch, "logged_at": now}
    return pl.DataFrame([own], columns_of(EVENTS))


def _xor(shares: pl.Expr) -> pl.Expr:
    """The XOR of shares, an aggregate; 0 of none. A missing row changes it, and so does a doubled one."""
    return shares.bitwise_xor().fill_null(0)


def _shares(numbers: Sequence[str], **words: type[StrEnum]) -> pl.Expr:
    """Per row a sum over the columns, each times an odd number of its own.

    Args:
        words: column -> the words that may stand there.
    """
    values = {name: pl.col(name) for name in numbers}
    for name, known in words.items():
        values[name] = pl.col(name).cast(pl.Enum(known), strict=False).to_physical() + 1
    parts = [
        value.fill_null(0).cast(pl.Int64).reinterpret(signed=False)
        * pl.lit(hash64(name) % 2**64 | 1, pl.UInt64)
        for name, value in values.items()
    ]
    return reduce(add, parts).reinterpret(signed=True)
