"""The protocols of spouts, and the values that spouts exchange with a topology."""

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
    """Parts of a source that changed or vanished after they were read.

    Args:
        count: the number of these parts.
        such_as: the names of some of them.
        unit: the plural noun for the parts, such as "files".
    """

    count: int
    such_as: tuple[str, ...]
    unit: str = "files"

    def __str__(self) -> str:
        unit = self.unit.removesuffix("s") if self.count == 1 else self.unit
        return f"{self.count:,} {unit}, such as {', '.join(self.such_as)}"


@dataclass(frozen=True)
class Backlog:
    """The part of a source that its spout has not planned yet, and the parts that it will never read.

    Args:
        unread: the amount that is left to read, by unit, such as {"files": 3, "bytes": 512}; empty where all
            is planned. A unit whose number is unknown without reading the source is missing.
        oldest: when the oldest unread part came into the source (UTC); None where there is none, or unknown.
        left_out: reason -> the amount that the spout will never read for it, in the first unit that the
            source is counted in.
        ends: partition -> one past the last position that is there, of a source that can tell.
        changed: the parts that changed after they were read, and are never read as they are now; None where
            there are none, or they are unknown.
        gone: the parts that were read and are not there any more; None where there are none, or they are
            unknown.
        is_empty: whether the source holds nothing at all, neither parts that were read nor parts left out.
    """

    unread: Mapping[str, int]
    oldest: datetime | None = None
    left_out: Mapping[str, int] = field(default_factory=dict)
    ends: Mapping[str, int] = field(default_factory=dict)
    changed: Changed | None = None
    gone: Changed | None = None
    is_empty: bool = False


class Spout(Protocol):
    """The protocol of spouts: replayable sources. A spout that is also a `HasBacklog` tells its backlog.

    The DataFrames that a spout returns have the columns `_source_partition` (string) and `_source_offset`
    (bigint), which identify a message for ever, and the user's own columns, none of which may begin with an
    underscore. Two more columns are optional: `_kind`, which is null on a message that could be read, and
    `fail`, `reject` (it can never be read) or `lost` on others; and `_error`, the reason.
    """

    @optional
    def message_schema(self, spark: SparkSession) -> StructType:
        """The user's own columns of the messages. A bolt is given them before the first message is there.

        A spout that has something to read when it first runs can do without this method.

        Args:
            spark: the session in which the batch runs.

        Returns:
            The columns, without those that begin with an underscore.
        """

    def next_range(self, spark: SparkSession, history: History, limit: int) -> Range | None:
        """The range after those of `history`, of about `limit` messages; None where there is nothing new.

        Args:
            spark: the session in which the batch runs.
            history: the ranges that the spout planned before.
            limit: about how many messages the range is to have.

        Returns:
            The range, any JSON value but null, from which `read_range` knows its messages again.

        Raises:
            SourceError: the source cannot be read, or its messages cannot be told apart.
        """

    def read_range(self, spark: SparkSession, planned: Range) -> DataFrame:
        """The messages of a range. A message that is gone since the range was planned is a `lost` row.

        Args:
            spark: the session in which the batch runs.
            planned: the range, as `next_range` returned it.

        Returns:
            A row for each message.
        """

    def ends(self, planned: Range) -> dict[str, int]:
        """Partition -> one past the last position of a range, for each partition that the range reads.

        Other partitions that the range names may be there too, with the position at which the spout goes on
        in them. For a `Committing` source all partitions that the range names are there.

        Args:
            planned: the range, as `next_range` returned it.

        Returns:
            The ends of the range by partition.
        """

    def read_positions(self, spark: SparkSession, positions: pa.Table, history: History) -> DataFrame:
        """The messages at `positions` that the source still holds.

        Args:
            spark: the session in which the batch runs.
            positions: the columns source_partition and source_offset.
            history: the ranges that the spout planned so far.

        Returns:
            A row for each message that is still there.
        """


@runtime_checkable
class HasBacklog(Protocol):
    """A source that tells its backlog without Spark. `status` and the health checks show the backlog."""

    def backlog(self, history: History) -> Backlog | None:
        """The backlog of the source beyond `history`; None where it is unknown. The call must be quick.

        Raises:
            SourceError: the source cannot be looked at.
        """


@runtime_checkable
class TellsColumns(Protocol):
    """A source whose message columns are known without Spark.

    The form of a replay names these columns, and has a condition on one of them as an example.
    """

    def message_columns(self) -> dict[str, str]:
        """Known column of a message -> its type. The call must be quick, and raises nothing."""


# Of a local read. More messages, or larger files, Spark reads faster.
MOST_MESSAGES = 10_000
MOST_FILES = 200
MOST_BYTES = 256 << 20  # of the files that have to be read


@runtime_checkable
class ReadsLocally(Protocol):
    """A source that can read a few messages without Spark, whose jobs take longer than the read.

    A replay of at most `MOST_MESSAGES` asks it first, where the spout's stream is not published
    (`SpoutComponent.write`).
    """

    def read_locally(self, positions: pa.Table, history: History) -> pa.Table | None:
        """The messages at `positions` that the source still holds, as `read_positions` gives them.

        None where Spark is to read the messages: they are too much for one process, or the source has to
        report a problem with one of them.
        """


@runtime_checkable
class NamesGone(Protocol):
    """A source that names the place where it looked for a message that it no longer holds."""

    @property
    def gone(self) -> str:
        """The reason why a message that the source no longer holds is `lost`.

        It is the same text for all such messages, so that they count as one kind of failure.
        """


@runtime_checkable
class TellsGone(Protocol):
    """A source that tells, quickly and without Spark, how many of up to a million messages are gone."""

    def gone_of(self, positions: pa.Table, history: History) -> Mapping[str, int] | None:
        """Reason -> the number of messages that are lost for it; None where only Spark could tell.

        More messages may be gone, which are found when the messages are read.

        Args:
            positions: the columns source_partition and source_offset of the messages, each once.
            history: the ranges that the spout planned so far.

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
        """Whether the source is to be told how far its messages are settled."""

    def commit(self, offsets: Mapping[str, int]) -> None:
        """Take note of how far the messages of each partition are settled.

        Args:
            offsets: partition -> one past the last position before the first message that is not settled. A
                partition in which there is no such position yet is missing.

        Raises:
            SourceError: the source cannot take note; the fold stands all the same.
        """


@runtime_checkable
class CountsMessages(Protocol):
    """A source whose plans say how many messages they have."""

    def message_counts(self, planned: Range) -> Mapping[str, int] | None:
        """Partition -> how many messages of it `read_range` returns; None where the plan does not say.

        A batch is not taken in where another number of messages is read.
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

        The messages of such a partition are `lost` in `read_range`, with the reason, and missing in
        `read_positions`.

        Args:
            partitions: all partitions of a batch that could not be read.
            read: the function that reads the messages of this batch from such a source.
            counts: partition -> the number of its messages in the batch; None where it is not known.
        """


def check_reserved(place: str, columns: Iterable[str]) -> None:
    """Refuse a source with columns that begin with an underscore, by which spouts report on messages.

    Raises:
        SourceError: the source has such columns, which the error names.
    """
    reserved = sorted(column for column in columns if column.startswith("_"))
    if reserved:
        raise SourceError(
            f"{place} has columns {', '.join(reserved)}; names that begin with an underscore are reserved: "
            "rename them."
        )


def check_json(spout: str, planned: Range) -> None:
    """Refuse a range that is not JSON, which the journal cannot keep.

    Raises:
        SourceError: the range is not JSON. The error names the spout.
    """
    try:
        json.dumps(planned)
    except (TypeError, ValueError) as error:
        raise SourceError(
            f"Spout {spout} planned a range that is not JSON: {error}. Return dicts with texts as "
            "keys, lists, texts, numbers and booleans from next_range."
        ) from error
