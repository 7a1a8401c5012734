"""Messages of a replay that their sources cannot give any more, as far as is known without Spark."""

from collections import Counter
from dataclasses import dataclass
from typing import Any

import polars as pl

from acker.components.spout import SpoutComponent, history
from acker.core.errors import AckerError
from acker.core.snapshot.journal import Journal
from acker.spouts import TellsGone
from acker.topology.topology import Topology

_EXAMPLES = 3


@dataclass(frozen=True)
class Gone:
    """Messages that a replay would find to be lost.

    Args:
        count: how many messages are known to be gone; there may be more.
        such_as: the commonest reasons, each with its number of messages.
        unchecked: sentences on spouts whose sources were not looked at, each with the reason.
    """

    count: int = 0
    such_as: tuple[str, ...] = ()
    unchecked: tuple[str, ...] = ()

    def sentences(self) -> list[str]:
        """Sentences for people: how many messages are gone and why, and which spouts were not checked."""
        said = [f"Whether {each}" for each in self.unchecked]
        if self.count:
            said.insert(0, f"{self.count:,} of them are gone and would be lost: {', '.join(self.such_as)}.")
        return said

    def as_dict(self) -> dict[str, Any]:
        """The fields that are not empty, by name; none where all messages can be read."""
        found = {"gone": self.count, "gone_such_as": self.such_as, "unchecked": self.unchecked}
        return {name: value for name, value in found.items() if value}


def gone_of(topology: Topology, journal: Journal, messages: pl.DataFrame) -> Gone:
    """Find which of some messages are gone.

    Args:
        messages: spout, source_partition and source_offset of each.
    """
    reasons: Counter[str] = Counter()
    unchecked = []
    for spout in topology.spouts:
        mine = messages.filter(pl.col("spout") == spout.name).select("source_partition", "source_offset")
        if mine.height:
            found = _gone_of(spout, journal, mine)
            if isinstance(found, str):
                unchecked.append(f"the {mine.height:,} of {spout.name} can be read was not checked: {found}")
            else:
                reasons.update(found)
    such_as = tuple(f"{count:,} × {reason}" for reason, count in reasons.most_common(_EXAMPLES))
    return Gone(reasons.total(), such_as, tuple(unchecked))


def _gone_of(spout: SpoutComponent, journal: Journal, messages: pl.DataFrame) -> dict[str, int] | str:
    """Reason -> how many messages are gone for it; or why that is not known."""
    if not isinstance(spout.source, TellsGone):
        return "the spout has no method `gone_of`."
    try:
        found = spout.source.gone_of(messages.to_arrow(), history(journal, spout.name))
    except AckerError as error:
        return str(error)
    except Exception as error:  # of the spout's author; the replay itself finds out
        return f"{type(error).__name__}: {error}"
    return "that takes Spark." if found is None else dict(found)
