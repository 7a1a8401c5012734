"""Names of messages, which never change: spout and position in the source, as text, as SQL and in rows."""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from acker.core.errors import UnknownMessage
from acker.core.names import did_you_mean
from acker.core.quoting import check_text, sql_text

MESSAGE = ("spout", "source_partition", "source_offset")  # the columns that name one
POSITION = MESSAGE[1:]  # of them those that name it within its spout

_OFFSET = re.compile("-?[0-9]{1,19}")
_OFFSETS = range(-(2**63), 2**63)


@dataclass(frozen=True, order=True)
class MessageId:
    """The name of one message. Each attempt of the message has a root of its own."""

    spout: str
    source_partition: str
    source_offset: int

    def __str__(self) -> str:
        return f"{self.spout}:{self.source_partition}:{self.source_offset}"

    @classmethod
    def parse(
        cls, text: str, topology: str, spouts: Collection[str], gone: Collection[str] = ()
    ) -> "MessageId":
        """The message that SPOUT:PARTITION:OFFSET names.

        The spout may be left out where the topology has only one.

        Args:
            topology: name of the topology, for the error.
            spouts: names of the topology's spouts.
            gone: names of the spouts that the topology had before.

        Raises:
            UnknownMessage: the text is not of that form.
            SettingsError: the text is not valid UTF-8, so no table can hold it.
        """
        head, _, rest = text.partition(":")
        is_named = head in spouts or (head in gone and ":" in rest)
        if not is_named and len(spouts) == 1:
            (head,), rest, is_named = spouts, text, True
        position = parse_position(rest)
        if not is_named or position is None:
            suggestion = "" if head in spouts else did_you_mean(head, spouts)
            raise UnknownMessage(
                f"{text!r:.200} is not a message of {topology}; write SPOUT:PARTITION:OFFSET, "
                f"with one of the spouts {', '.join(spouts)}.{suggestion}"
            )
        check_text("The message", text)
        return cls(head, *position)

    def condition(self) -> str:
        """A SQL condition on the rows of the message, in the ledger and in events."""
        return (
            f"spout = {sql_text(self.spout)} AND source_partition = {sql_text(self.source_partition)} "
            f"AND source_offset = {self.source_offset}"
        )


def parse_position(text: str) -> tuple[str, int] | None:
    """(source_partition, source_offset) from PARTITION:OFFSET; None where the text is not of that form."""
    partition, _, offset = text.rpartition(":")
    if not partition or not _OFFSET.fullmatch(offset) or int(offset) not in _OFFSETS:
        return None
    return partition, int(offset)


def message_of(row: Mapping[str, Any]) -> MessageId:
    """The message of a row that has the columns `MESSAGE`."""
    return MessageId(row["spout"], row["source_partition"], row["source_offset"])


def message_name(row: Mapping[str, Any]) -> str:
    """The name of a row's message, as commands print and take it; the row's root where it has no message."""
    return f"root {row['root_id']}" if row["spout"] is None else str(message_of(row))
