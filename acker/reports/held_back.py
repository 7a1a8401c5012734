"""Tuples that rich bolts hold back: on purpose, as where one waits for a partner, or by a mistake."""

from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from acker.components.base import Component
from acker.core.errors import StoreError
from acker.core.snapshot.journal import Journal
from acker.core.snapshot.streams import held_back
from acker.topology.topology import Topology


@dataclass(frozen=True)
class HeldBack:
    """The tuples that a rich bolt held back when its newest batch ended: it neither acked nor failed them.

    Tuples of messages that have settled since do not count. Untracked tuples do.

    Args:
        bolt: the name of the bolt.
        tuples: how many tuples there are.
        since: when the bolt's batch was planned that took in the oldest of the tuples.
    """

    bolt: str
    tuples: int
    since: datetime

    def __str__(self) -> str:
        count = "a tuple that it has" if self.tuples == 1 else f"{self.tuples:,} tuples that it has"
        oldest = "" if self.tuples == 1 else "the oldest "
        return (
            f"{self.bolt} holds back {count} neither acked nor failed, {oldest}since "
            f"{self.since:%Y-%m-%d %H:%M:%S}"
        )


def told_held_back(journal: Journal, bolt: Component) -> dict[str, Any] | None:
    """The fields of a bolt's `HeldBack`, and a sentence in `says`; None where the bolt holds nothing back.

    If the bolt's stream cannot be read, there are only the bolt's name and a sentence that tells so, since
    all else is to be told all the same.
    """
    try:
        found = _held_back(journal, bolt) if bolt.holds_back else None
    except StoreError as error:
        return {"bolt": bolt.name, "says": f"What {bolt.name} holds back is unknown: {error}"}
    return None if found is None else {**asdict(found), "says": str(found)}


def all_held_back(topology: Topology, journal: Journal) -> list[dict[str, Any]]:
    """The tuples that each bolt of a topology holds back, if any, as `told_held_back` has them."""
    found = (told_held_back(journal, bolt) for bolt in topology.bolts)
    return [each for each in found if each is not None]


def _held_back(journal: Journal, bolt: Component) -> HeldBack | None:
    found = held_back(journal, bolt.name, journal.logged(bolt.name))
    held = found.unique(["stream", "file", "row"])  # which several tasks may hold
    if held.is_empty():
        return None
    (oldest,) = held.select("since").min().row(0)
    return HeldBack(bolt.name, held.height, journal.read(bolt.name, oldest).planned_at)
