"""Planned batches."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from acker.core.snapshot.inputs import PlanInput, Replay, SourceRange, Spans

BatchKind = Literal["next", "replay", "retire"]
Role = Literal["spout", "bolt"]

_INPUTS: dict[tuple[BatchKind, Role], Callable[[Any], PlanInput]] = {
    ("next", "spout"): SourceRange.from_json,
    ("next", "bolt"): Spans.from_json,
    ("replay", "spout"): Replay.from_json,
    ("retire", "bolt"): Spans.from_json,
}


@dataclass(frozen=True)
class Batch:
    """One planned batch: one run of one component over one input."""

    component: str
    number: int
    kind: BatchKind
    input: PlanInput
    edges: tuple[str, ...]  # the consumers at the time
    planned_at: datetime
    run_id: str

    @property
    def spans(self) -> Spans:
        """The input of a bolt's batch."""
        assert isinstance(self.input, Spans), self
        return self.input

    @property
    def replay(self) -> Replay:
        """The input of a replay's batch."""
        assert isinstance(self.input, Replay), self
        return self.input


def input_of(kind: BatchKind, role: Role, value: Any) -> PlanInput:
    """The input of a batch from its JSON.

    Args:
        role: of the batch's component.

    Raises:
        KeyError, TypeError, ValueError, AttributeError: no run can have planned such a batch.
    """
    return _INPUTS[kind, role](value)
