"""Planned batches: what each is to take in."""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, get_args

import pyarrow as pa

from acker.spouts import Range

_BIGINT, _INT = range(-(2**63), 2**63), range(1, 2**31)

BatchKind = Literal["next", "replay", "retire"]


@dataclass(frozen=True)
class Batch:
    """One planned batch: one run of one component over one input."""

    component: str
    number: int
    kind: BatchKind
    input: dict[str, Any]  # the exact range, or the messages to replay; JSON in the table
    edges: tuple[str, ...]  # the consumers at the time
    planned_at: datetime
    run_id: str

    @property
    def positions(self) -> dict[str, int]:
        """Of a bolt's batch: every stream that the bolt ever read -> its newest batch taken in by then."""
        read = {name: each for name, each in self.input.items() if isinstance(each, dict)}
        return {name: each["upto"] for name, each in read.items() if "upto" in each}

    def taken(self, upstream: str) -> int:
        """The newest batch of `upstream` that the bolt has taken in with this one; 0 if none."""
        return self.positions.get(upstream, 0)

    def is_given_any(self, upstream: str, numbers: Sequence[int]) -> bool:
        """Whether this bolt's batch can be given tuples of some batches of `upstream`, new ones or held back.

        Args:
            numbers: of the batches, sorted.
        """
        given = self.input.get(upstream)
        if given is None:
            return False
        after = min(given["after"], given.get("held", given["upto"]) - 1)
        return bisect_right(numbers, after) < bisect_right(numbers, given["upto"])


def _is_sound(batch: Batch) -> bool:
    """Whether a batch is one that a run can have planned; may raise what reading another raises."""
    if batch.kind not in get_args(BatchKind) or not isinstance(batch.input, dict) or None in batch.edges:
        return False
    if batch.kind == "replay":
        messages = [message for each in batch.input["messages"].values() for message in each]
        return bool(messages) and all(_is_emission(*message) for message in messages)
    ranges = [each for each in batch.input.values() if isinstance(each, dict) and "upto" in each]
    numbers = [each[name] for each in ranges for name in ("after", "upto")]
    is_whole = batch.planned_at is not None and batch.run_id is not None
    return is_whole and all(type(each) is int for each in numbers)


def _is_emission(offset: object, attempt: object, replaces: object) -> bool:
    # In plain Python: PyArrow would import pandas to look at the values, which takes an audit a second.
    bounds = ((offset, _BIGINT), (attempt, _INT), (0 if replaces is None else replaces, _BIGINT))
    return all(type(value) is int and value in bound for value, bound in bounds)


def messages_table(planned: Range) -> pa.Table:
    """The messages of a replay's input: source_partition, source_offset, attempt, replaces."""
    rows = [
        (partition, offset, attempt, replaces)
        for partition, messages in planned["messages"].items()
        for offset, attempt, replaces in messages
    ]
    schema = pa.schema(
        {
            "source_partition": pa.string(),
            "source_offset": pa.int64(),
            "attempt": pa.int32(),
            "replaces": pa.int64(),
        }
    )
    return pa.Table.from_pylist([dict(zip(schema.names, row, strict=True)) for row in rows], schema)
