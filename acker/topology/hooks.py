"""Hooks: functions of a topology that hear what each fold decided, as a Kafka spout's listener does in Storm.

They are told what the ledger says of the fold, by the process whose commit went in and after it. A process
that ends in between has told nobody, so a hook hears of a fold at most once; the ledger is the truth.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum


class Hook(StrEnum):
    """What a function hears of."""

    ON_EMIT = "on_emit"  # attempts whose init this fold was the first to see
    ON_ACK = "on_ack"  # attempts that this fold acked
    ON_RETRY = "on_retry"  # messages that failed or timed out in this fold and are tried again
    ON_DEAD_LETTER = "on_dead_letter"  # messages that this fold gave up
    ON_LOST = "on_lost"  # messages that this fold found to be gone


@dataclass(frozen=True)
class Message:
    """One message of a notice, as its row of the ledger has it."""

    spout: str
    source_partition: str
    source_offset: int
    attempt: int  # in `on_retry` the attempt to come, else the attempt that was
    reason: str | None
    component: str | None  # that failed it, or held it back until it timed out


@dataclass(frozen=True)
class Notice:
    """What one hook hears of one fold."""

    topology: str
    hook: Hook
    fold: int
    count: int  # of messages, 1 or more
    sample: tuple[Message, ...]  # of them, at most `SAMPLE`


HookFunction = Callable[[Notice], None]
Hooks = Mapping[Hook, Sequence[HookFunction]]
