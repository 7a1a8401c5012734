"""Steps of a run as they are told to whoever watches it."""

from dataclasses import dataclass, field
from typing import Any

_KINDS = {"replay": " of replays", "retire": " of what nobody reads any more"}


@dataclass(frozen=True)
class Step:
    """Something that has become durable, told to whoever watches the run."""

    name: str  # planned, written, logged, held, folded, published, refused; before they are done folding,
    # searching and refusing
    component: str  # "acker" for folds
    number: int  # of the batch or fold
    detail: dict[str, Any] = field(default_factory=dict)


def describe(step: Step) -> str:
    """A step in a few words."""
    if step.name == "folding":
        return f"fold {step.number}: reading events"
    if step.name == "folded":
        counts = ", ".join(f"{n:,} {state}" for state, n in step.detail.items() if n)
        return f"fold {step.number}: {counts or 'nothing new'}"
    if step.name == "published":
        return f"{step.component}: fold {step.number} published"
    if step.name == "refusing":
        return f"{step.component}: fold {step.number} is refused, looking for the messages"
    if step.name == "refused":
        return f"{step.component}: {step.detail['messages']:,} messages of fold {step.number} are refused"
    if step.name == "searching":
        return f"{step.component} batch {step.number}: a row raised, looking for the message"
    if step.name == "held":
        return f"{step.component} batch {step.number} is held: {step.detail['reason']}"
    kind = _KINDS.get(step.detail.get("kind", ""), "")
    return f"{step.component} batch {step.number}{kind}: {step.name}"
