"""The results of a test's run, read from the ledger, the streams and the published tables of its store."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from deltalake import DeltaTable
from pyarrow.dataset import ParquetReadOptions

from acker.batches.run import Run
from acker.components.base import Component
from acker.core.events import State
from acker.core.snapshot.in_flight import rows_now
from acker.core.snapshot.streams import held_back
from acker.core.store.schemas import stream
from acker.spark.delta import read
from acker.testing.rows import Row
from acker.topology.topology import Publication

_ATTEMPTS = (State.FAILED, State.TIMED_OUT)  # what became of one attempt, and not of its message


@dataclass(frozen=True)
class Failure:
    """A row of the test that failed.

    Attributes:
        row: the row as the test gave it.
        reason: the reason of the failure, as the ledger has it.
        bolt: the bolt that failed the row, in a run of a whole topology. On a timeout it is a rich bolt that
            held tuples of the row back. None where there is no such bolt, and in the result of `run_bolt`.
    """

    row: Row
    reason: str
    bolt: str | None = None


@dataclass(frozen=True)
class BoltResult:
    """The result of a bolt on its rows. All lists are in the order of the rows that the test gave.

    Attributes:
        rows: the rows that the bolt emitted, for each given row in the order in which they were emitted. Rows
            of failed messages are among them, since the next bolt sees them; they would not be published.
            Rows of no message come last.
        failures: the given rows that the bolt failed, or that were joined with such rows, each once.
        held: the given rows that a rich bolt neither acked nor failed.
        streams: further stream of a rich bolt -> the rows that were emitted to it, as in `rows`.
    """

    rows: list[dict[str, Any]]
    failures: list[Failure]
    held: list[Row]
    streams: dict[str, list[dict[str, Any]]]


@dataclass(frozen=True)
class TopologyResult:
    """The result of a topology on its messages.

    Attributes:
        published: stream -> the rows of its table, in the order of the messages. The rows of an aggregate are
            in the order of its key. Rows of no message come last, in the order of their texts.
        states: state -> how many messages are in it: acked, dead_letter, pending where a rich bolt holds
            messages back.
        failures: the messages that failed, with the reasons. A message that failed in several attempts for
            the same reason is there once. A message that was acked later is there as well.
        dead_letters: the messages that were given up, with the reason of their last attempt.
    """

    published: dict[str, list[dict[str, Any]]]
    states: dict[str, int]
    failures: list[Failure]
    dead_letters: list[Failure]


class Outcome:
    """The outcome of the rows that a test gave.

    Args:
        run: the run of the test.
        given: source partition -> its rows, of which the first is at offset 1.
    """

    def __init__(self, run: Run, given: Mapping[str, Sequence[Row]]) -> None:
        self._run = run
        self._journal = run.snapshot()
        self._given = given
        self._order = {partition: index for index, partition in enumerate(given)}
        found = rows_now(self._journal)
        self._ledger = sorted(found, key=lambda row: (self._place(row), row["attempt"], row["fold"]))
        self._places = self._places_of_roots()

    def states(self) -> dict[str, int]:
        """State -> how many messages are in it."""
        states = [row["state"] for row in self._newest()]
        return {state: states.count(state) for state in sorted(set(states))}

    def failures(self) -> list[Failure]:
        """The failures of all messages, each reason of a message once."""
        failed = [row for row in self._ledger if row["state"] in _ATTEMPTS]
        # Each is of a message: two rows that a test gives may be equal.
        once = {(self._place(row), row["component"], row["reason"]): self._failure(row) for row in failed}
        return list(once.values())

    def dead_letters(self) -> list[Failure]:
        """The messages that were given up."""
        return [self._failure(row) for row in self._newest() if row["state"] == State.DEAD_LETTER]

    def held(self, bolt: Component) -> list[Row]:
        """The given rows that a bolt holds back. The bolt must read them directly from their spout."""
        found = held_back(self._journal, bolt.name, self._journal.logged(bolt.name))
        message = {row["root_id"]: row for row in self._ledger}
        rows = {self._place(message[root]): self._row(message[root]) for root in found["_root_id"]}
        return [rows[place] for place in sorted(rows)]

    def emitted(self, bolt: Component, further: str = "") -> list[dict[str, Any]]:
        """The rows that a bolt emitted to one of its streams."""
        table = self._journal.open(stream(bolt.name))
        if table is None:
            return []
        columns = bolt.columns(read(self._run.spark, self._run.store.path(stream(bolt.name))), further)
        mine = (
            row for row in _rows(table) if row["_kind"] is None and row.get("_stream") == (further or None)
        )
        ordered = sorted(mine, key=lambda row: self._first(row.get("_root_ids") or [row["_root_id"]]))
        return [{column: row[column] for column in columns} for row in ordered]

    def published(self, publication: Publication) -> list[dict[str, Any]]:
        """The rows of a published table."""
        target = publication.target
        table = target.delta_table()
        if table is None:
            return []
        rows = _rows(table)
        by_key = target.rows_by_key()
        if by_key is not None:
            rows.sort(key=lambda row: [_sortable(row[column]) for column in by_key.keys])
        else:
            rows.sort(key=self._place_published)
        return [{name: value for name, value in row.items() if name[0] != "_"} for row in rows]

    def _newest(self) -> list[dict[str, Any]]:
        """The newest row of the ledger of each message, failed and timed-out attempts left out."""
        rows = (row for row in self._ledger if row["state"] not in _ATTEMPTS)
        return list({self._place(row): row for row in rows}.values())

    def _failure(self, row: Mapping[str, Any]) -> Failure:
        return Failure(self._row(row), row["reason"] or row["state"], row["component"])

    def _row(self, row: Mapping[str, Any]) -> Row:
        number: int = row["source_offset"]
        return self._given[row["source_partition"]][number - 1]

    def _place(self, row: Mapping[str, Any]) -> tuple[int, int]:
        """The place of the message of a ledger's row: the number of its source partition, and its offset."""
        return self._order[row["source_partition"]], row["source_offset"]

    def _places_of_roots(self) -> dict[int, tuple[int, int]]:
        """Root -> the place of the first message that settles together with it."""
        group = {row["root_id"]: row["root_id"] for row in self._ledger}
        group |= {row["root_id"]: row["joined"] for row in self._ledger if row["joined"] is not None}
        first: dict[int, tuple[int, int]] = {}
        for row in self._ledger:  # in the order of the messages
            first.setdefault(group[row["root_id"]], self._place(row))
        return {root: first[joined] for root, joined in group.items()}

    def _first(self, roots: Sequence[int | None]) -> tuple[int, int]:
        last = (len(self._order), 0)
        return min(self._places.get(root, last) if root is not None else last for root in roots)

    def _place_published(self, row: Mapping[str, Any]) -> tuple[tuple[int, int], str]:
        return self._first([row["_root_id"]]), repr(row) if row["_root_id"] is None else ""


def _rows(table: DeltaTable) -> list[dict[str, Any]]:
    """All rows of a table, in the order in which they lie in its files."""
    # Spark's times of 96 bits, which as nanoseconds would end in 2262.
    times = ParquetReadOptions(coerce_int96_timestamp_unit="us")
    dataset = table.to_pyarrow_dataset(parquet_read_options=times)
    fragments = sorted(dataset.get_fragments(), key=lambda fragment: fragment.path)
    parts = (fragment.to_table(schema=dataset.schema) for fragment in fragments)
    return [row for part in parts for row in part.to_pylist(maps_as_pydicts="strict")]


def _sortable(value: Any) -> Any:
    """A value of a key in a form that sorts, nulls last."""
    if isinstance(value, dict):
        value = [_sortable(each) for each in value.values()]
    return value is None, value
