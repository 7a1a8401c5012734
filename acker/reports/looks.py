"""Looks at a topology: their input, their limits, and the findings that they give an operator."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cached_property
from pathlib import Path

from acker.core.snapshot.journal import Journal
from acker.core.store.schemas import EVENTS, LEDGER
from acker.core.store.store import Store
from acker.reports.sources import SourceBacklog, source_backlogs
from acker.topology.topology import Topology

PAGE = "docs/how-to/alerts.md"

Hidden = tuple[tuple[str | None, str | None], ...]
EVERYTHING: Hidden = ((None, None),)


@dataclass(frozen=True)
class Finding:
    """Something that is late, too much, broken, or was given up.

    Args:
        kind: the kind of the finding, such as `late-batches`. The part of `docs/how-to/alerts.md` on such
            findings has the same name.
        subject: the part that the finding is about, such as a component, stream, disk, step or DAG; empty
            where it is the topology.
        said: sentences for a person.
        grade: how grave the finding is. A finding whose grade has changed since it was told is told again.
        hides: (kind, subject) of findings that cannot be known for as long as this one lasts, where None
            stands for every kind or subject.
    """

    kind: str
    subject: str
    said: str
    grade: str = ""
    hides: Hidden = ()

    def __str__(self) -> str:
        return f"{self.said} See {PAGE}#{self.kind}."


Findings = Iterator[Finding]


@dataclass(frozen=True)
class Limits:
    """The limits beyond which something is a finding.

    Args:
        dead_letters: how many dead letters may stand.
        backlog: how many messages may be in flight or wait for a retry.
        backlog_ahead: for how long ahead the backlog is reckoned by its trend; zero: not at all.
        acker_late: how old events that no fold has seen may be.
        batch_late: how old a batch that is not logged may be.
        retry_late: for how long the next attempt of a message may be due before it is emitted.
        publish_late: how old an unpublished fold may be, and a logged batch that a bolt has yet to take.
        message_late: how old a message that has not settled may be.
        source_late: how old unread input may be; zero: any age.
        spout_stalled: for how long a spout may read nothing although there is something; zero: for ever.
        upkeep_late: step of the upkeep -> the longest time since its newest end; a missing step has no limit.
        disk_free_percent: how much of a disk, and of its inodes, has to be free.
    """

    dead_letters: int
    backlog: int
    backlog_ahead: timedelta
    acker_late: timedelta
    batch_late: timedelta
    retry_late: timedelta
    publish_late: timedelta
    message_late: timedelta
    source_late: timedelta
    spout_stalled: timedelta
    disk_free_percent: int
    upkeep_late: Mapping[str, timedelta] = field(default_factory=dict)


@dataclass(frozen=True)
class Look:
    """A topology, its store at one moment, and all else that the looks need.

    Args:
        places: further folders of the deployment whose disks are looked at, as (name of the contents,
            folder).
        known_store: where the deployment last worked on the topology's store; None where it never did.
    """

    topology: Topology
    store: Store
    limits: Limits
    now: datetime
    places: Sequence[tuple[str, Path]] = ()
    known_store: str | None = None

    @cached_property
    def journal(self) -> Journal:
        """The store's tables at one moment."""
        return Journal(self.store, self.topology.roles)

    @cached_property
    def has_run(self) -> bool:
        """Whether there is a store, so that something may have run."""
        return self.journal.open(EVENTS) is not None and self.journal.open(LEDGER) is not None

    @cached_property
    def sources(self) -> list[SourceBacklog]:
        """The backlog of each source, which its spout has not read."""
        return source_backlogs(self.topology, self.journal)


def grade_of(number: int) -> str:
    """A grade for a number. It changes when the number has doubled, or is down to a half."""
    return str(number.bit_length())


def time_of(moment: datetime) -> str:
    """The text of a moment, for people."""
    return f"{moment:%Y-%m-%d %H:%M} UTC"


def minutes_of(late: timedelta) -> str:
    """The text of a span of time, for people."""
    return f"{late // timedelta(minutes=1):,} minutes"
