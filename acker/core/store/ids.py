"""Ids of roots and of tuples: 64 well-mixed bits each.

The lowest bits of a root's id are those of its message, the same for all attempts. So all rows of a message
can be found in one part of the rows, by root ids alone.

A tuple's id is never stored. A file of a Delta table has a name of its own and never changes, so a row's
number in its file tells the row from all others. A tuple's id on an edge is a hash of edge, file and row
number. A row read by two bolts is two edges, as in Storm.
"""

import hashlib
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from operator import xor

import polars as pl
from xxhash import xxh64_intdigest

from acker.core.messages import POSITION
from acker.core.stream_names import component_of, edge

# The constants of SplitMix64: Steele, Lea, Flood, "Fast splittable pseudorandom number generators" (2014).
_GAMMA = 0x9E3779B97F4A7C15
_MIX = ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB))
_LAST_SHIFT = 31
_SEED_OF_SPARK = 42  # of its function xxhash64

BUCKETS = 2**12  # so many of the lowest bits of a root's id are its message's

_OF_TASK = re.compile(r"task-(\d+)-of-(\d+)-")


def bucket(root_id: pl.Expr) -> pl.Expr:
    """The number of a root's bucket, from 0; all attempts of a message have the same."""
    return root_id & (BUCKETS - 1)


@dataclass(frozen=True)
class Task:
    """One of the tasks that share the acker's work by buckets: all rows of a message are in one task's share.

    Args:
        number: from 0.
        of: how many tasks there are.
    """

    number: int = 0
    of: int = 1

    def share(self, rows: pl.LazyFrame, column: str = "root_id") -> pl.LazyFrame:
        """The task's share of some rows, by a column of roots. Rows of no root are in the first task's."""
        if self.of == 1:
            return rows
        return rows.filter(bucket(pl.col(column)).fill_null(0) % self.of == self.number)

    @property
    def prefix(self) -> str:
        """The beginning of the name of a file that has rows of this share alone."""
        return "" if self.of == 1 else f"task-{self.number}-of-{self.of}-"

    def may_share(self, file: str) -> bool:
        """Whether a file of the given name can have rows of this share."""
        found = _OF_TASK.match(file)
        if found is None:
            return True
        number, of = map(int, found.groups())
        common = math.gcd(of, self.of)
        return number % common == self.number % common


def tasks(number: int) -> list[Task]:
    """So many tasks, at least one, and at most one for each bucket."""
    of = min(max(1, number), BUCKETS)
    return [Task(each, of) for each in range(of)]


def hash64(text: str) -> int:
    """A signed 64-bit hash of `text`, the same on every machine and in every process."""
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big", signed=True)


def root_ids(topology: str, spout: str, batch: int, emissions: pl.DataFrame) -> pl.Series:
    """The root ids of a few messages' attempts, made row by row, as Spark makes those of many.

    Spark does so in `acker/spark/columns.py`. The batch is part of an id, so that two emissions of one
    attempt are two roots and cannot cancel.

    Args:
        emissions: columns source_partition, source_offset and attempt, none of them null.
    """
    of_spout = _hashed(hash64(f"{topology}/{spout}"), 8, _SEED_OF_SPARK)
    ids = []
    for partition, offset, attempt in emissions.select(*POSITION, "attempt").iter_rows():
        of_message = _hashed(offset, 8, xxh64_intdigest(partition.encode(), of_spout))
        of_emission = _hashed(batch, 8, _hashed(attempt, 4, of_message))
        ids.append(of_emission & ~(BUCKETS - 1) | of_message & (BUCKETS - 1))
    return pl.Series("root_id", ids, pl.UInt64).reinterpret(signed=True)


def _hashed(value: int, size: int, seed: int) -> int:
    """Spark's `xxhash64` of an integer of so many bytes. The seed may be the hash of the values before."""
    return xxh64_intdigest(value.to_bytes(size, "little", signed=True), seed)


def tuple_ids(emitter: str, consumers: Sequence[str], file: str, row: pl.Expr) -> pl.Expr:
    """XOR of the ids of a row on the edges of its stream, one id per edge; 0 where there is no edge.

    Args:
        emitter: the component that emitted the row.
        consumers: the edges, as `batches.edges` has them.
        file: the name of the row's file, without its folder.
        row: the row's number in the file.
    """
    ids = [_random(_unsigned(_seed(emitter, consumer, file)), row) for consumer in consumers]
    return reduce(xor, ids).reinterpret(signed=True) if ids else pl.lit(0, pl.Int64)


def held_ids(held: pl.DataFrame, consumer: str) -> pl.DataFrame:
    """Add to tuples that a consumer holds back the `id` of each on its edge to the consumer.

    Args:
        held: columns `stream`, by which a tuple came, and `file` and `row`, where the tuple lies.
    """
    files = held.select("stream", "file").unique()
    seeds = [_seed(component_of(stream), edge(stream, consumer), file) for stream, file in files.rows()]
    seeded = held.join(files.with_columns(seed=pl.Series(seeds, dtype=pl.UInt64)), on=["stream", "file"])
    return seeded.with_columns(id=_random(pl.col("seed"), pl.col("row")).reinterpret(signed=True))


def _seed(emitter: str, consumer: str, file: str) -> int:
    return hash64(f"{emitter}>{consumer}/{file}") % 2**64


def _random(seed: pl.Expr, index: pl.Expr) -> pl.Expr:
    """The `index`-th number of the SplitMix64 generator of a seed; UInt64, whose products wrap around."""
    state = index.cast(pl.UInt64) * _unsigned(_GAMMA) + seed
    for shift, factor in _MIX:
        state = _shifted(state, shift) * _unsigned(factor)
    return _shifted(state, _LAST_SHIFT)


def _shifted(state: pl.Expr, bits: int) -> pl.Expr:
    return state ^ (state // _unsigned(2**bits))


def _unsigned(value: int) -> pl.Expr:
    return pl.lit(value, pl.UInt64)
