"""The source rows of messages, as their spout read them, from the streams and without Spark."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from acker.core.messages import MessageId
from acker.core.snapshot.in_flight import newest_reads
from acker.core.snapshot.snapshot import Snapshot
from acker.core.snapshot.trims import newest_trim
from acker.core.store.schemas import stream
from acker.core.store.tables import in_batches, query_table
from acker.reports.rows import Value, plain_rows


@dataclass(frozen=True)
class SourceRow:
    """The source row of one message, as its spout read it.

    Args:
        values: the source's columns; empty where there is no row to show.
        missing: why there is no row to show; None where there is one.
    """

    values: Mapping[str, Value]
    missing: str | None = None


def source_rows(snapshot: Snapshot, messages: Collection[MessageId]) -> dict[MessageId, SourceRow]:
    """The row of each message, by its newest attempt that was read from the source.

    Raises:
        StoreError: there is no ledger, or a table cannot be read.
    """
    if not messages:
        return {}
    batches = newest_reads(snapshot, messages)
    trim = newest_trim(snapshot.store)
    found: dict[MessageId, SourceRow] = {}
    for spout in {message.spout for message in messages}:
        mine = {message: batch for message, batch in batches.items() if message.spout == spout}
        found |= _rows(snapshot, spout, mine)
        for message in messages:
            if message.spout == spout and message not in found:
                is_trimmed = mine.get(message, 0) <= trim.upto.get(spout, 0)
                found[message] = SourceRow({}, _TRIMMED if is_trimmed else _NOT_THERE)
    return found


_TRIMMED = "the row was trimmed from the stream, as all are that are older than the retention"
_NOT_THERE = "the stream has no row of the message"


def _rows(snapshot: Snapshot, spout: str, batches: Mapping[MessageId, int]) -> dict[MessageId, SourceRow]:
    """Message -> its row in the spout's stream; messages whose row is there no more are left out."""
    table = snapshot.open(stream(spout))
    if table is None or not batches:
        return {}
    offsets = ", ".join(str(message.source_offset) for message in batches)
    rows = plain_rows(
        query_table(
            f"SELECT * FROM stream WHERE {in_batches(sorted(set(batches.values())))} "
            f"AND _source_offset IN ({offsets})",
            stream=table,
        )
    )
    found = {}
    for row in rows:
        message = MessageId(spout, str(row["_source_partition"]), int(row["_source_offset"] or 0))
        if batches.get(message) == row["_batch"]:
            values = {name: value for name, value in row.items() if not name.startswith("_")}
            unreadable = row["_error"] if row["_kind"] is not None else None
            found[message] = SourceRow({}, str(unreadable)) if unreadable else SourceRow(values)
    return found
