"""Hooks: functions of a topology that hear what each fold decided, as a Kafka spout's listener does in Storm.

The process that has committed a fold calls the hooks, after the commit, with notices from the ledger.
If that process ends before it has called a hook, nobody calls that hook for this fold. So a hook hears of a
fold at most once. The ledger is the truth.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum


class Hook(StrEnum):
    """The kind of a hook: the decisions of a fold that its function hears of."""

    ON_EMIT = "on_emit"  # attempts whose init this fold was the first to see
    ON_ACK = "on_ack"  # attempts that this fold acked
    ON_RETRY = "on_retry"  # messages that failed or timed out in this fold and are tried again
    ON_DEAD_LETTER = "on_dead_letter"  # messages that this fold gave up
    ON_LOST = "on_lost"  # messages that this fold found to be gone


@dataclass(frozen=True)
class Message:
    """One message of a notice, with the values of its row of the ledger."""

    spout: str
    source_partition: str
    source_offset: int
    attempt: int  # in `on_retry` the attempt to come, else the attempt that was
    reason: str | None
    component: str | None  # that failed it, or held it back until it timed out


@dataclass(frozen=True)
class Notice:
    """The notice that one hook gets of one fold: a count of messages and a sample of them.

    Attributes:
        topology: the topology's name.
        hook: the kind of the hook.
        fold: the fold's number.
        count: the number of messages, in `on_emit` and `on_ack` of attempts; 1 or more.
        sample: the messages with the lowest positions, at most `acker.operations.notify.SAMPLE` of them.
    """

    topology: str
    hook: Hook
    fold: int
    count: int  # of messages, 1 or more
    sample: tuple[Message, ...]  # of them, at most `SAMPLE`


HookFunction = Callable[[Notice], None]
Hooks = Mapping[Hook, Sequence[HookFunction]]
