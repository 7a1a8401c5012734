"""Events that components report, and rows that the fold decides, as frozen records.

The records are the plain-Python side of the tables in `schemas`; a field and its column share a name.
"""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from acker.core.messages import MessageId


class Kind(StrEnum):
    """The kind of an event. Checksums depend on the order of the kinds, so a new kind comes last."""

    INIT = "init"  # a spout emitted the root
    ACK = "ack"  # a component consumed tuples of the root, and perhaps emitted more
    FAIL = "fail"  # a component failed a tuple of the root
    RESET = "reset"  # a component asked for the root's timeout to start again
    JOIN = "join"  # a component emitted a tuple that belongs to another root as well
    LOST = "lost"  # the source no longer holds the message that was to be emitted
    BATCH = "batch"  # a component's batch is logged; of no root, it seals the batch's other events
    REJECT = "reject"  # a component failed a tuple of the root for good: no further attempt can help


class State(StrEnum):
    """The state of a root or of its message."""

    PENDING = "pending"  # in flight
    RETRYING = "retrying"  # failed or timed out, waiting for retry_at
    ACKED = "acked"  # everything that the message caused has succeeded
    FAILED = "failed"  # what became of one attempt
    TIMED_OUT = "timed_out"  # what became of one attempt
    DEAD_LETTER = "dead_letter"  # attempts used up
    LOST = "lost"  # no longer in the source


FAILURES = (Kind.FAIL, Kind.REJECT)
LIVE = (State.PENDING, State.RETRYING)
SELECTABLE = (State.RETRYING, State.ACKED, State.DEAD_LETTER, State.LOST)  # by a replay by hand
SETTLED = (State.ACKED, State.FAILED, State.TIMED_OUT, State.DEAD_LETTER, State.LOST)


@dataclass(frozen=True)
class Event:
    """One row of `events`: the report of one component on one root in one batch."""

    root_id: int
    kind: Kind
    ack_val: int = 0  # XOR of the ids of the tuples consumed and emitted, signed 64 bits
    emitted: int = 0  # tuples, counted by edge
    consumed: int = 0  # tuples, counted by edge
    spout: str | None = None  # on init and lost, as the four that follow
    source_partition: str | None = None
    source_offset: int | None = None
    attempt: int | None = None  # from 1
    replaces: int | None = None  # the acked root whose published rows this attempt is to replace
    joined: int | None = None  # on join, the smallest root of the tuple
    component: str = ""
    batch: int = 0
    reason: str | None = None  # on fail and lost
    logged_at: datetime | None = None


@dataclass(frozen=True)
class LedgerRow:
    """One row of `ledger`: the state of one root, or of one message between two attempts."""

    root_id: int
    spout: str
    source_partition: str
    source_offset: int
    attempt: int  # on retrying, the attempt to come
    state: State
    ack_val: int = 0
    outstanding: int = 0  # tuples emitted and not consumed, counted by edge
    reason: str | None = None
    component: str | None = None  # that failed it, or held it back until it timed out
    batch: int | None = None  # the spout's batch that emitted it
    turn: int | None = None  # the window turn at which its time began
    replaces: int | None = None
    joined: int | None = None  # the smallest of the roots that settle together with it; None if it is alone
    emitted_at: datetime | None = None
    retry_at: datetime | None = None
    settled_at: datetime | None = None

    @property
    def message(self) -> MessageId:
        """The message of which this row is an attempt."""
        return MessageId(self.spout, self.source_partition, self.source_offset)
