"""Inputs of planned batches: one type for each kind of batch, each with its own JSON.

A spout's range is opaque here: it may be any JSON value, also one that looks like another type's.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

_BIGINT, _INT = range(-(2**63), 2**63), range(1, 2**31)


@dataclass(frozen=True)
class SourceRange:
    """New messages of a spout, as the spout itself describes them."""

    described: Any  # any JSON value but null

    def to_json(self) -> Any:
        """The value of the batch's column `input`."""
        return self.described

    @classmethod
    def from_json(cls, value: Any) -> "SourceRange":
        """The input whose `to_json` gave the value.

        Raises:
            ValueError: no run can have planned such an input.
        """
        if value is None:
            raise ValueError("a range is missing")
        return cls(value)


@dataclass(frozen=True)
class Replay:
    """Messages that a spout is to emit again. They lie in the table `replays`; see `replays.messages_of`.

    Args:
        plan: the name of their rows in that table.
        count: the number of messages.
        checksum: of the messages' rows.
        highest_attempt: the highest attempt among the messages.
        replaces: whether attempts are to replace published rows of acked roots.
        listed: the messages themselves, if the plan is of a version that kept them in the journal:
            (source_partition, source_offset, attempt, replaces).
    """

    plan: str
    count: int
    checksum: int
    highest_attempt: int
    replaces: bool
    listed: tuple[tuple[Any, ...], ...] = ()

    def __len__(self) -> int:
        return self.count

    def to_json(self) -> Any:
        """See `SourceRange`."""
        described = asdict(self)
        del described["listed"]
        return described

    @classmethod
    def from_json(cls, value: Any) -> "Replay":
        """See `SourceRange`."""
        if "messages" in value:
            return cls._of_list([(name, *row) for name, rows in value["messages"].items() for row in rows])
        found = cls(**value)
        numbers = (found.count, found.checksum, found.highest_attempt)
        if type(found.plan) is not str or not all(type(n) is int for n in numbers) or found.count < 1:
            raise ValueError("a replay names no messages")
        return found

    @classmethod
    def _of_list(cls, rows: list[tuple[Any, ...]]) -> "Replay":
        if not rows or not all(_is_emission(*row) for row in rows):
            raise ValueError("a replay holds no messages, or what is none")
        highest = max(attempt for _, _, attempt, _ in rows)
        return cls("", len(rows), 0, highest, any(row[-1] is not None for row in rows), tuple(rows))


@dataclass(frozen=True)
class Span:
    """The batches (after, upto] of a stream. Of these a bolt takes in those that were planned for it."""

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
    """The input of a bolt's batch: a span of each stream that the bolt ever read, empty if no longer read."""

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
