"""What a planned batch takes in: one type for each kind of batch, each with its own JSON.

A spout's range is opaque here: it may be any JSON value, also one that looks like another type's.
"""

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

_BIGINT, _INT = range(-(2**63), 2**63), range(1, 2**31)

_REPLAYED = pa.schema(
    {
        "source_partition": pa.string(),
        "source_offset": pa.int64(),
        "attempt": pa.int32(),
        "replaces": pa.int64(),
    }
)


@dataclass(frozen=True)
class SourceRange:
    """New messages of a spout, as the spout itself describes them."""

    described: Any  # any JSON value but null

    def to_json(self) -> Any:
        """The column `input` of the batch."""
        return self.described

    @classmethod
    def from_json(cls, value: Any) -> "SourceRange":
        """What `to_json` gave.

        Raises:
            ValueError: no run can have planned it.
        """
        if value is None:
            raise ValueError("a range is missing")
        return cls(value)


@dataclass(frozen=True)
class Replay:
    """Messages that a spout is to emit again.

    Args:
        messages: source_partition -> lists of source_offset, attempt, and the acked root whose published rows
            the attempt replaces, or None.
    """

    messages: Mapping[str, Sequence[Sequence[int | None]]]

    def __len__(self) -> int:
        return sum(map(len, self.messages.values()))

    def rows(self) -> Iterator[tuple[Any, ...]]:
        """(source_partition, source_offset, attempt, replaces) of each message."""
        for partition, messages in self.messages.items():
            for message in messages:
                yield partition, *message

    def table(self) -> pa.Table:
        """The messages with the columns source_partition, source_offset, attempt and replaces."""
        rows = [dict(zip(_REPLAYED.names, row, strict=True)) for row in self.rows()]
        return pa.Table.from_pylist(rows, _REPLAYED)

    def replaced(self) -> list[int]:
        """The acked roots whose published rows the attempts replace."""
        return [root for *_, root in self.rows() if root is not None]

    def highest_attempt(self) -> int:
        """The highest attempt of the messages."""
        attempts: Iterator[int] = (attempt for _, _, attempt, _ in self.rows())
        return max(attempts)

    def to_json(self) -> Any:
        """See `SourceRange`."""
        return {"messages": self.messages}

    @classmethod
    def from_json(cls, value: Any) -> "Replay":
        """See `SourceRange`."""
        found = cls(value["messages"])
        if not len(found) or not all(_is_emission(*row) for row in found.rows()):
            raise ValueError("a replay holds no messages, or what is none")
        return found


@dataclass(frozen=True)
class Span:
    """Batches (after, upto] of a stream; of them a bolt takes in those that were planned for it."""

    after: int
    upto: int
    held: int | None = None  # the oldest batch of the stream with a tuple that the bolt holds back

    def to_json(self) -> dict[str, int]:
        """See `SourceRange`."""
        held = {} if self.held is None else {"held": self.held}
        return {"after": self.after, "upto": self.upto, **held}

    @classmethod
    def from_json(cls, value: Any) -> "Span":
        """See `SourceRange`."""
        found = cls(value["after"], value["upto"], value.get("held"))
        if not all(type(each) is int for each in value.values()):
            raise ValueError("a span's ends are no numbers")
        return found


@dataclass(frozen=True)
class Spans:
    """What a bolt takes in: a span of each stream that it ever read, empty where it no longer reads it."""

    by_stream: Mapping[str, Span]

    @property
    def ends(self) -> dict[str, int]:
        """Stream -> the newest batch of it that the bolt has taken in with this one."""
        return {stream: span.upto for stream, span in self.by_stream.items()}

    @property
    def taken_in(self) -> list[str]:
        """The streams whose span is not empty."""
        return [stream for stream, span in self.by_stream.items() if span.after < span.upto]

    def end(self, stream: str) -> int:
        """The newest batch of a stream that the bolt has taken in with this one; 0 if none."""
        span = self.by_stream.get(stream)
        return span.upto if span else 0

    def can_give(self, stream: str, numbers: Sequence[int]) -> bool:
        """Whether the bolt can be given tuples of some batches of a stream, new ones or held back.

        Args:
            numbers: of the batches, sorted.
        """
        span = self.by_stream.get(stream)
        if span is None:
            return False
        after = span.after if span.held is None else min(span.after, span.held - 1)
        return bisect_right(numbers, after) < bisect_right(numbers, span.upto)

    def to_json(self) -> Any:
        """See `SourceRange`."""
        return {stream: span.to_json() for stream, span in self.by_stream.items()}

    @classmethod
    def from_json(cls, value: Any) -> "Spans":
        """See `SourceRange`."""
        return cls({stream: Span.from_json(span) for stream, span in value.items()})


PlanInput = SourceRange | Replay | Spans


def _is_emission(_: object, offset: object, attempt: object, replaces: object) -> bool:
    # In plain Python: PyArrow would import pandas to look at the values, which takes an audit a second.
    bounds = ((offset, _BIGINT), (attempt, _INT), (0 if replaces is None else replaces, _BIGINT))
    return all(type(value) is int and value in bound for value, bound in bounds)
