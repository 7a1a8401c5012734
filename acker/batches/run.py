"""The parts that all steps of a run share: the topology, its store, Spark, the clock and the run's id."""

import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from typing import Any

from pyspark.sql import SparkSession

from acker.core.snapshot.journal import Journal
from acker.core.store.sightings import Sightings
from acker.core.store.store import Store
from acker.core.tasks import CALLER, Tasks
from acker.topology.topology import Topology

_KINDS = {"replay": " of replays", "retire": " of what nobody reads any more"}


@dataclass(frozen=True)
class Step:
    """The report of a step that has begun or has become durable, for whoever watches the run."""

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


def utc_now() -> datetime:
    """The time in UTC: the clock of every run that is not given another."""
    return datetime.now(UTC)


@dataclass(frozen=True)
class Run:
    """One run of a topology against a store.

    Args:
        connect: gives the Spark session; called when the first step needs one, which folds do not.
        clock: gives the time, with a time zone; read once per step and written into rows as a literal.
        tasks: the runner of the work of logs and folds.
        hold: takes and renews the right to work on the store; raises where another deployment has it.
        sightings: the marks of leases that this machine has seen.
        on_step: called after each step, in this thread; it may raise or never return.
    """

    topology: Topology
    store: Store
    connect: Callable[[], SparkSession]
    clock: Callable[[], datetime] = utc_now
    tasks: Tasks = CALLER
    hold: Callable[[], None] = lambda: None
    sightings: Sightings = field(default_factory=Sightings)
    on_step: Callable[[Step], None] = lambda step: None
    run_id: str = field(default_factory=lambda: uuid.uuid4().hex)

    @cached_property
    def spark(self) -> SparkSession:
        """The run's Spark session."""
        return self.connect()

    def snapshot(self) -> Journal:
        """A new snapshot of the store, with its journal. Each step takes one and hands it down.

        Raises:
            StoreError: another deployment works on the store, or the store cannot be read.
        """
        self.hold()
        return Journal(self.store, self.topology.roles)

    def emit_progress(self, name: str, component: str, number: int, **detail: Any) -> None:
        """Report a step."""
        self.on_step(Step(name, component, number, detail))
