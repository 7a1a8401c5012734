"""What every spout offers."""

import json
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol, runtime_checkable

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from acker.core.annotations import optional
from acker.core.errors import SourceError

REPORTED = frozenset({"_source_partition", "_source_offset", "_kind", "_error"})  # by a spout; see `Spout`

Range = Any  # a spout's own description of the messages of one batch: any JSON value but null


@dataclass(frozen=True)
class History:
    """The ranges that a spout planned before."""

    newest: Range | None  # None before the first
    every: Callable[[], list[Range]]  # oldest first; read from the journal on demand


@dataclass(frozen=True)
class Changed:
    """Parts of a source that are others than when they were read, or are not there any more.

    Args:
        count: how many.
        such_as: names of some.
        unit: what they are.
    """

    count: int
    such_as: tuple[str, ...]
    unit: str = "files"

    def __str__(self) -> str:
        unit = self.unit.removesuffix("s") if self.count == 1 else self.unit
        return f"{self.count:,} {unit}, such as {', '.join(self.such_as)}"


@dataclass(frozen=True)
class Backlog:
    """What a source holds beyond what its spout has planned.

    Args:
        unread: how much there is to read, by unit, such as {"files": 3, "bytes": 512}; empty where all is
            planned. A unit whose number nobody knows without reading the source is missing.
        oldest: when the oldest of it came into the source (UTC); None where nothing is unread, or unknown.
        left_out: what the spout will never read: why -> how much of it, in the first unit that the source
            is counted in.
        ends: partition -> one past the last position that is there, of a source that can tell.
        changed: what is another than when it was read, and is never read as it is now; None where nothing
            is, or nobody can tell.
        gone: what was read and is not there any more; None where nothing is, or nobody can tell.
        is_empty: whether the source holds nothing at all, neither what was read nor what is left out.
    """

    unread: Mapping[str, int]
    oldest: datetime | None = None
    left_out: Mapping[str, int] = field(default_factory=dict)
    ends: Mapping[str, int] = field(default_factory=dict)
    changed: Changed | None = None
    gone: Changed | None = None
    is_empty: bool = False


class Spout(Protocol):
    """A replayable source. One that is a `HasBacklog` as well also tells what it has yet to read.

    DataFrames that it returns have columns `_source_partition` (string) and `_source_offset` (bigint),
    which identify a message for ever, and the user's own, none of which may begin with an underscore.
    Two more are optional: `_kind`, null on a message that could be read, `fail`, `reject` (it never can be)
    or `lost` on others, and `_error`, why.
    """

    @optional
    def message_schema(self, spark: SparkSession) -> StructType:
        """The user's own columns of its messages. A bolt is given them before the first message is there.

        A spout that has something to read when it first runs can do without.
        """

    def next_range(self, spark: SparkSession, history: History, limit: int) -> Range | None:
        """The range after those of `history`, of about `limit` messages; None where there is nothing new.

        Raises:
            SourceError: the source cannot be read, or its messages cannot be told apart.
        """

    def read_range(self, spark: SparkSession, planned: Range) -> DataFrame:
        """The messages of a range. One that was there when it was planned and is gone is a `lost` row."""

    def ends(self, planned: Range) -> dict[str, int]:
        """Partition -> one past the last position of a range, for each partition that the range reads."""

    def read_positions(self, spark: SparkSession, positions: pa.Table, history: History) -> DataFrame:
        """The messages at `positions` (source_partition, source_offset) that the source still holds."""


@runtime_checkable
class HasBacklog(Protocol):
    """A source that can be looked at without Spark, as `status` and the health checks do."""

    def backlog(self, history: History) -> Backlog | None:
        """What the source holds beyond `history`; None where that is unknown. It must be quick.

        Raises:
            SourceError: the source cannot be looked at.
        """


@runtime_checkable
class TellsColumns(Protocol):
    """A source whose columns are known without Spark, for the examples of a form."""

    def message_columns(self) -> dict[str, str]:
        """Column of a message -> its type, of those that are known. It must be quick, and raises nothing."""


@runtime_checkable
class ReadsFew(Protocol):
    """A source of which a few messages can be read without Spark, whose jobs take longer than the read."""

    def read_few(self, positions: pa.Table, history: History) -> pa.Table | None:
        """Those of the messages that the source still holds, as `read_positions` gives them.

        None where Spark had better read them: they are too much for one process, or there is something to
        report of one.
        """


@runtime_checkable
class NamesGone(Protocol):
    """A source that says of what it no longer holds where it looked for it."""

    @property
    def gone(self) -> str:
        """Why such a message is lost: the same for all that are gone for one cause."""


@runtime_checkable
class TellsGone(Protocol):
    """A source that tells, without Spark and quickly, which of a million messages it no longer holds."""

    def gone_of(self, positions: pa.Table, history: History) -> Mapping[str, int] | None:
        """Why -> how many of the messages at `positions`, each once; None where only Spark could tell.

        There may be more that are gone: the reading finds out.

        Raises:
            SourceError: the source cannot be looked at.
        """


@runtime_checkable
class Committing(Protocol):
    """A source that is told after each fold how far all of its messages are settled.

    Each of its ranges names every partition that it has read from so far.
    """

    @property
    def commits(self) -> bool:
        """Whether it is to be told."""

    def commit(self, offsets: Mapping[str, int]) -> None:
        """Take note: partition -> one past the last position before the first message that is not settled.

        Raises:
            SourceError: it cannot; the fold stands all the same.
        """


@runtime_checkable
class CountsMessages(Protocol):
    """A source whose plans say how many messages they have."""

    def message_counts(self, planned: Range) -> Mapping[str, int] | None:
        """Partition -> how many messages of it `read_range` returns; None where the plan does not say.

        A batch of which another number is read is not taken in.
        """


@runtime_checkable
class PassesOver(Protocol):
    """A source of which parts may turn out to be unreadable only when their messages are read."""

    def passing_over(
        self,
        partitions: Collection[str],
        read: Callable[["Spout"], DataFrame],
        counts: Mapping[str, int] | None,
    ) -> "Spout | None":
        """The same source without those of some partitions that cannot be read; None where all of them can.

        Their messages are `lost` in `read_range`, with the reason, and missing in `read_positions`.

        Args:
            read: reads from such a source the messages that could not be read.
            counts: partition -> how many they are; None where that is not known.
        """


def check_reserved(place: str, columns: Iterable[str]) -> None:
    """Refuse a source with columns of the names by which a spout reports on a message.

    Raises:
        SourceError: naming them.
    """
    reserved = sorted(column for column in columns if column.startswith("_"))
    if reserved:
        raise SourceError(
            f"{place} has columns {', '.join(reserved)}; names that begin with an underscore are reserved: "
            "rename them."
        )


def check_json(spout: str, planned: Range) -> None:
    """Refuse a range that the journal cannot keep.

    Raises:
        SourceError: naming the spout.
    """
    try:
        json.dumps(planned)
    except (TypeError, ValueError) as error:
        raise SourceError(
            f"Spout {spout} planned a range that is not JSON: {error}. Return dicts with texts as "
            "keys, lists, texts, numbers and booleans from next_range."
        ) from error
