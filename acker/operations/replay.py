"""Replay: batches of a spout that emit chosen messages again, by themselves when due, or by hand.

A replay takes its batch number, and the replays that it looks through, from one snapshot. It leaves out
messages that a replay above the snapshot's fold has emitted already. If another run wins the number, it
leaves: what it chose may be in the other's batch. Otherwise a second replay of one fold would emit an attempt
twice.
"""

import json
import uuid
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

import pyarrow as pa

from acker.batches.batch import finish
from acker.batches.plan import plan, plan_all
from acker.batches.run import Run
from acker.components.base import Component
from acker.core.delta import Store, append_rows, query
from acker.core.ledger import Fold
from acker.core.quoting import check_text
from acker.core.schemas import REPLAY_REQUESTS, SCHEMAS
from acker.core.snapshot import Snapshot
from acker.journal.batch import Batch
from acker.journal.inputs import Replay
from acker.journal.journal import Journal
from acker.operations.selection import (
    MOST_LISTED,
    Emission,
    Listed,
    Matched,
    Selection,
    check_reversible,
    select,
)
from acker.topology.topology import Topology


def replay_due(run: Run) -> int:
    """Emit the messages again whose time has come, after what earlier runs left; how many there were."""
    messages = 0
    for spout in run.topology.spouts:
        finish_unfinished(run, spout)
        journal = run.snapshot()
        batch = plan_due(run, journal, spout)
        if batch is not None:
            finish(run, batch, journal)
            messages += len(batch.replay)
    return messages


def plan_due(run: Run, journal: Journal, spout: Component) -> Batch | None:
    """Plan a batch of the spout's messages that are due in the newest fold; None where there are none."""
    fold = journal.fold
    if fold is None or journal.unfinished(spout.name) is not None:
        return None
    rows = _due(run.topology, fold, spout.name, run.clock())
    due = [
        Emission(row["source_partition"], row["source_offset"], row["attempt"], row["replaces"])
        for row in rows
    ]
    planned = _emissions(journal, spout.name, due, fold)
    if planned is None:
        return None
    batch = plan(run, journal, spout.name, "replay", planned)
    return batch if batch.run_id == run.run_id else None


def _due(topology: Topology, fold: Fold, spout: str, now: datetime) -> list[dict[str, Any]]:
    """Rows of a spout's messages that are due in a fold, as many as one batch takes."""
    return query(
        "SELECT spout, source_partition, source_offset, state, attempt, replaces, component, reason "
        f"FROM ledger WHERE live_in = {fold.number} AND state = 'retrying' AND spout = '{spout}' "
        f"AND retry_at <= to_timestamp('{now.isoformat()}') "
        f"ORDER BY retry_at, source_partition, source_offset LIMIT {topology.batch_rows}",
        ledger=fold.ledger,
    )


def finish_unfinished(run: Run, spout: Component) -> None:
    """Finish the batch that the spout's last run left, since a replay needs a number of its own."""
    journal = run.snapshot()
    left = journal.unfinished(spout.name)
    if left is not None:
        finish(run, left, journal)


def _emissions(journal: Journal, spout: str, messages: Iterable[Emission], fold: Fold) -> Replay | None:
    """The input of a replay's batch; None where nothing is left to emit."""
    emitted = _emitted_since(journal, spout, fold)
    by_partition: dict[str, list[list[int | None]]] = {}
    for m in messages:
        if (m.source_partition, m.source_offset) not in emitted:
            by_partition.setdefault(m.source_partition, []).append([m.source_offset, m.attempt, m.replaces])
    return Replay(by_partition) if by_partition else None


def _emitted_since(journal: Journal, spout: str, fold: Fold) -> set[tuple[str, int]]:
    """Messages of replay batches that the fold has not seen."""
    folded = fold.logged.get(spout, 0)
    batches = journal.rows(f"component = '{spout}' AND kind = 'replay' AND batch > {folded}")
    return {(partition, offset) for batch in batches for partition, offset, *_ in batch.replay.rows()}


@dataclass(frozen=True)
class Replayed:
    """What a replay by hand came to, in messages."""

    matched: int  # those that the selection chooses
    in_flight: int  # those that match but for their state, and are left alone
    replayed: int  # those that were emitted again
    unseen: int = 0  # see `Matched`

    @property
    def counts(self) -> dict[str, int]:
        """The numbers by name; `unseen` only where there are such."""
        always = {"matched": self.matched, "in_flight": self.in_flight, "replayed": self.replayed}
        return always | ({"unseen": self.unseen} if self.unseen else {})


@dataclass(frozen=True)
class DryRun(Replayed):
    """What a replay would come to, before any message is emitted."""

    messages: tuple[Listed, ...] = ()  # of those that match, the first `MOST_LISTED`

    def as_dict(self) -> dict[str, Any]:
        """The numbers by name, and the messages."""
        return {**self.counts, "messages": [asdict(each) for each in self.messages]}


def dry_run(topology: Topology, store: Store, selection: Selection | None, now: datetime) -> DryRun:
    """What a replay would emit; it plans and records nothing.

    Args:
        selection: None for what is due.

    Raises:
        TopologyError: acked messages are chosen and a published aggregate cannot take them back.
        SettingsError: the selection names a spout or a component that is none, or its condition cannot be
            looked up.
    """
    journal = Journal(store, topology.roles)
    if selection is None:
        rows = _all_due(topology, journal, now)
        return DryRun(len(rows), 0, 0, messages=tuple(Listed.of(row) for row in rows[:MOST_LISTED]))
    matched = _match(topology, journal, selection)
    return DryRun(matched.count, matched.in_flight, 0, matched.unseen, matched.listed)


def _all_due(topology: Topology, journal: Journal, now: datetime) -> list[dict[str, Any]]:
    """Rows of the messages that a replay of what is due would emit now."""
    if journal.fold is None:
        return []
    found = []
    for spout in topology.spouts:
        emitted = _emitted_since(journal, spout.name, journal.fold)
        rows = _due(topology, journal.fold, spout.name, now)
        found += [row for row in rows if (row["source_partition"], row["source_offset"]) not in emitted]
    return found


def replay_by_hand(
    run: Run, selection: Selection, why: str, requested_by: str, request_id: str | None = None
) -> Replayed:
    """Record a request and emit the messages again that it chooses; see `plan_by_hand`."""
    matched, batches = plan_by_hand(run, selection, why, requested_by, request_id)
    for batch in batches:
        finish(run, batch)
    replayed = sum(len(batch.replay) for batch in batches)
    return Replayed(matched.count, matched.in_flight, replayed, matched.unseen)


def _match(topology: Topology, snapshot: Snapshot, selection: Selection) -> Matched:
    matched = select(topology, snapshot, selection)
    check_reversible(topology, matched)
    return matched


def plan_by_hand(
    run: Run, selection: Selection, why: str, requested_by: str, request_id: str | None = None
) -> tuple[Matched, list[Batch]]:
    """Record a request and plan its batches, all of them or none.

    Args:
        why: the reason, for the record.
        requested_by: who asks, for the record.
        request_id: names the request, which is recorded once however often it is made; a new one if None.

    Raises:
        TopologyError: acked messages are chosen and a published aggregate cannot take them back.
        SettingsError: a text is not one that the record can hold.
    """
    check_text("The why", why)
    check_text("The name", requested_by)
    request_id = request_id or uuid.uuid4().hex
    while True:
        journal = _with_nothing_left(run)
        fold = journal.fold
        matched = _match(run.topology, journal, selection)
        _record(run, selection, matched, why, requested_by, request_id)
        inputs = {
            name: _emissions(journal, name, messages, fold)
            for name, messages in matched.messages.items()
            if fold
        }
        planned = {name: each for name, each in inputs.items() if each is not None}
        if not planned:
            return matched, []
        batches = plan_all(run, journal, "replay", planned)
        if batches is not None:  # else another run has planned meanwhile, perhaps these very messages
            return matched, batches


def _with_nothing_left(run: Run) -> Journal:
    """A snapshot in which no spout has a batch to finish.

    Another run may plan a batch at any moment; a replay with the number after it would pass it over.
    """
    while True:
        journal = run.snapshot()
        left = [spout for spout in run.topology.spouts if journal.unfinished(spout.name) is not None]
        if not left:
            return journal
        for spout in left:
            finish_unfinished(run, spout)


def _record(
    run: Run, selection: Selection, matched: Matched, why: str, requested_by: str, request_id: str
) -> None:
    described: dict[str, Any] = asdict(selection)
    row = {
        "request_id": request_id,
        "requested_by": requested_by,
        "requested_at": run.clock(),
        "why": why,
        "selection": json.dumps(described, default=str),
        "matched": matched.count,
    }
    rows = pa.Table.from_pylist([row], SCHEMAS[REPLAY_REQUESTS].arrow())
    append_rows(run.store.require(REPLAY_REQUESTS), rows, request_id, 1)
