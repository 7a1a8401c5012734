"""Replay: batches of a spout that emit messages again, which are due or were chosen by hand.

A replay takes its batch number, and the earlier replays that it looks through, from one snapshot. It leaves
out messages that an earlier replay has emitted already and whose new attempts the snapshot's fold has not
seen. If another run wins the number, the replay drops its choice, since those messages may be in the other
run's batch. Otherwise two replays after one fold could emit an attempt twice.
"""

import uuid
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any

import polars as pl

from acker.batches.batch import finish
from acker.batches.plan import plan, plan_all
from acker.batches.run import Run
from acker.components.base import Component
from acker.core.errors import SettingsError
from acker.core.events import State
from acker.core.messages import POSITION
from acker.core.snapshot.journal import Journal
from acker.core.snapshot.ledger import Fold, live_rows
from acker.core.snapshot.planned import Batch
from acker.core.snapshot.replays import EMISSIONS, messages_of, record_replay
from acker.core.snapshot.snapshot import Snapshot
from acker.core.store.parquet import collect
from acker.core.store.store import Store
from acker.operations.selection.matching import (
    MOST_LISTED,
    Listed,
    Matched,
    check_reversible,
    parted,
    select,
    select_recorded,
)
from acker.operations.selection.readable import Gone, gone_of
from acker.operations.selection.requests import Request, record_request, requested
from acker.operations.selection.selection import Selection
from acker.topology.topology import Topology


def replay_due(run: Run) -> int:
    """Emit due messages again, after batches that earlier runs left. Returns how many messages there were."""
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
    due = _unemitted(journal, spout.name, _due(run.topology, fold, spout.name, run.clock()))
    if due.is_empty():
        return None
    planned = record_replay(run.store, spout.name, due.select(EMISSIONS.names()))
    batch = plan(run, journal, spout.name, "replay", planned)
    return batch if batch.run_id == run.run_id else None


def _due(topology: Topology, fold: Fold, spout: str, now: datetime) -> pl.DataFrame:
    """Rows of a spout's messages that are due in a fold, as many as one batch takes."""
    is_due = (pl.col("state") == State.RETRYING) & (pl.col("retry_at") <= now)
    rows = live_rows(fold).filter((pl.col("spout") == spout) & is_due)
    first = rows.sort("retry_at", *POSITION).head(topology.batch_rows)
    return collect(first.select("spout", *EMISSIONS, "state", "component", "reason"))


def finish_unfinished(run: Run, spout: Component) -> None:
    """Finish the batches that the spout's last run left, since a replay needs a number of its own."""
    journal = run.snapshot()
    while (left := journal.unfinished(spout.name)) is not None:
        finish(run, left, journal)
        journal = run.snapshot()


def _unemitted(journal: Journal, spout: str, messages: pl.DataFrame) -> pl.DataFrame:
    """Some messages of a spout, without those in replays that the newest fold has not seen.

    Args:
        messages: the messages, by their positions.
    """
    folded = journal.fold.logged.get(spout, 0) if journal.fold else 0
    for batch in journal.rows(f"component = '{spout}' AND kind = 'replay' AND batch > {folded}"):
        messages = messages.join(messages_of(journal.store, batch), on=POSITION, how="anti")
    return messages


@dataclass(frozen=True)
class Replayed:
    """The result of a replay by hand: numbers of messages."""

    matched: int  # those that the selection chooses
    in_flight: int  # those that match but for their state, and are left alone
    replayed: int  # those that were emitted again
    unseen: int = 0  # see `Matched`

    @property
    def counts(self) -> dict[str, int]:
        """The numbers by name; `unseen` only where there are unseen messages."""
        always = {"matched": self.matched, "in_flight": self.in_flight, "replayed": self.replayed}
        return always | ({"unseen": self.unseen} if self.unseen else {})


@dataclass(frozen=True)
class DryRun(Replayed):
    """The result that a replay would have, before any message is emitted."""

    messages: tuple[Listed, ...] = ()  # of those that match, the first `MOST_LISTED`
    gone: Gone = field(default_factory=Gone)

    def as_dict(self) -> dict[str, Any]:
        """The numbers by name, the numbers of gone messages, and the listed messages."""
        return {**self.counts, **self.gone.as_dict(), "messages": [asdict(each) for each in self.messages]}


def dry_run(topology: Topology, store: Store, selection: Selection | None, now: datetime) -> DryRun:
    """Find the messages that a replay would emit; nothing is planned or recorded.

    Args:
        selection: the selection; None for due messages.

    Raises:
        TopologyError: acked messages are chosen and a target cannot take them back, or a message that would
            have to be replayed with them is of a spout that is gone.
        SettingsError: the topology has no such spout or component, the condition cannot be looked up, or the
            days of the messages cannot be told.
    """
    journal = Journal(store, topology.roles)
    if selection is None:
        rows = _all_due(topology, journal, now)
        listed = tuple(Listed.of(row) for row in rows.head(MOST_LISTED).rows(named=True))
        return DryRun(rows.height, 0, 0, messages=listed, gone=gone_of(topology, journal, rows))
    matched = _match(topology, journal, selection)
    gone = gone_of(topology, journal, matched.emissions)
    return DryRun(matched.count, matched.in_flight, 0, matched.unseen, matched.listed, gone)


def _all_due(topology: Topology, journal: Journal, now: datetime) -> pl.DataFrame:
    """Rows of the messages that a replay of due messages would emit now."""
    fold = journal.fold
    if fold is None:
        return pl.DataFrame(schema={"spout": pl.String(), **EMISSIONS})
    each = (spout.name for spout in topology.spouts)
    return pl.concat([_unemitted(journal, name, _due(topology, fold, name, now)) for name in each])


def replay_by_hand(
    run: Run, selection: Selection, why: str, requested_by: str, request_id: str | None = None
) -> Replayed:
    """Record a request and emit the messages again that it chooses; see `plan_by_hand`."""
    matched, batches = plan_by_hand(run, selection, why, requested_by, request_id)
    return Replayed(matched.count, matched.in_flight, _finished(run, batches), matched.unseen)


def plan_by_hand(
    run: Run, selection: Selection, why: str, requested_by: str, request_id: str | None = None
) -> tuple[Matched, list[Batch]]:
    """Record a request and plan its batches; see `request_by_hand` and `plan_requested`."""
    matched, request = request_by_hand(run, selection, why, requested_by, request_id)
    return matched, plan_requested(run, request)


def request_by_hand(
    run: Run, selection: Selection, why: str, requested_by: str, request_id: str | None = None
) -> tuple[Matched, Request]:
    """Record a request and the messages that it chooses. It needs no Spark.

    Args:
        why: the reason, for the record.
        requested_by: who asks, for the record.
        request_id: names the request, which is recorded once however often it is made; a new one if None.

    Raises:
        TopologyError: acked messages are chosen and a published aggregate cannot take them back.
        SettingsError: a text is not one that the record can hold, or the request was made before with
            another selection.
    """
    matched = _match(run.topology, run.snapshot(), selection)
    request_id = request_id or uuid.uuid4().hex
    request = record_request(
        run.store, selection, matched.emissions, why, requested_by, request_id, run.clock()
    )
    return matched, request


def emit_requested(run: Run, request: Request) -> int:
    """Emit the messages of a request. Returns how many there were. See `plan_requested`."""
    return _finished(run, plan_requested(run, request))


def plan_requested(run: Run, request: Request) -> list[Batch]:
    """Plan the batches of a request, all of them or none.

    Left out are messages that are in flight or whose next attempt is not the recorded one any more, among
    them those that this request has emitted before. See `select_recorded`.

    Raises:
        TopologyError: acked messages are chosen and a published aggregate cannot take them back.
        StoreError: the messages of the request are not those that were recorded.
    """
    messages = requested(run.store, request)
    while True:
        journal = _with_nothing_left(run)
        found = select_recorded(run.topology, journal, messages)
        check_reversible(run.topology, found)
        planned = {}
        for (spout,), mine in found.emissions.group_by("spout", maintain_order=True):
            parts = parted(_unemitted(journal, spout, mine), run.topology.batch_rows)
            planned[spout] = [record_replay(run.store, spout, part, request.request_id) for part in parts]
        if not any(planned.values()):
            return []
        batches = plan_all(run, journal, "replay", planned)
        if batches is not None:  # else another run has planned meanwhile, perhaps these very messages
            return batches


def _finished(run: Run, batches: list[Batch]) -> int:
    """Finish the batches of replays. Returns how many messages they emit."""
    for batch in batches:
        finish(run, batch)
    return sum(len(batch.replay) for batch in batches)


def _match(topology: Topology, snapshot: Snapshot, selection: Selection) -> Matched:
    matched = select(topology, snapshot, selection)
    if selection.day_column is not None and matched.unseen and not matched.count:
        raise SettingsError(
            f"Nobody can tell which messages are of {selection.day}: the rows of {matched.unseen:,} were "
            f"trimmed from the streams, so what they say in {selection.day_column} is gone. Choose them by "
            f"partition, position or time of emission in {topology.name}.replay."
        )
    check_reversible(topology, matched)
    return matched


def _with_nothing_left(run: Run) -> Journal:
    """A snapshot in which no spout has a batch to finish. Such batches are finished first.

    Another run may plan a batch at any moment. A replay with the number after an unfinished batch would pass
    that batch over.
    """
    while True:
        journal = run.snapshot()
        left = [spout for spout in run.topology.spouts if journal.unfinished(spout.name) is not None]
        if not left:
            return journal
        for spout in left:
            finish_unfinished(run, spout)
