"""Replay: batches of a spout that emit chosen messages again, by themselves when due, or by hand.

A replay fixes its batch number before it reads the ledger, and leaves out messages that a replay
logged after that fold has emitted already. If another run wins the number, it leaves: what it chose
may be in the other's batch. Otherwise a second replay of one fold would emit an attempt twice.
"""

import json
import uuid
from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

import pyarrow as pa

from acker.batches.batch import finish, plan, plan_all, unfinished
from acker.batches.run import Run
from acker.components.base import Component
from acker.core.delta import append_rows, query
from acker.core.ledger import Fold, newest_fold
from acker.core.quoting import check_text
from acker.core.schemas import LEDGER, REPLAY_REQUESTS, SCHEMAS
from acker.journal.batch import Batch
from acker.journal.inputs import Replay
from acker.operations.selection import Emission, Matched, Selection, refuse_irreversible, select


def plan_due(run: Run, spout: Component) -> Batch | None:
    """Plan a batch of the spout's messages that are due in the newest fold; None where there are none."""
    number = run.journal.newest_number(spout.name) + 1
    if unfinished(run, spout.name) is not None:
        return None
    fold = newest_fold(run.store)
    if fold is None or fold.number == 0:
        return None
    now = run.clock()
    rows = query(
        "SELECT source_partition, source_offset, attempt, replaces FROM ledger "
        f"WHERE live_in = {fold.number} AND state = 'retrying' AND spout = '{spout.name}' "
        f"AND retry_at <= to_timestamp('{now.isoformat()}') "
        f"ORDER BY retry_at, source_partition, source_offset LIMIT {run.topology.batch_rows}",
        ledger=run.store.require(LEDGER, fold.ledger_version),
    )
    planned = _emissions(run, spout.name, [Emission(**row) for row in rows], fold)
    if planned is None:
        return None
    batch = plan(run, spout, "replay", planned, number)
    return batch if batch.run_id == run.run_id else None


def finish_unfinished(run: Run, spout: Component) -> None:
    """Finish the batch that the spout's last run left, since a replay needs a number of its own."""
    left = unfinished(run, spout.name)
    if left is not None:
        finish(run, spout, left)


def size(batch: Batch) -> int:
    """How many messages a replay batch emits."""
    return len(batch.replay)


def _emissions(run: Run, spout: str, messages: Iterable[Emission], fold: Fold) -> Replay | None:
    """The input of a replay's batch; None where nothing is left to emit."""
    emitted = _emitted_since(run, spout, fold)
    by_partition: dict[str, list[list[int | None]]] = {}
    for m in messages:
        if (m.source_partition, m.source_offset) not in emitted:
            by_partition.setdefault(m.source_partition, []).append([m.source_offset, m.attempt, m.replaces])
    return Replay(by_partition) if by_partition else None


def _emitted_since(run: Run, spout: str, fold: Fold) -> set[tuple[str, int]]:
    """Messages of replay batches that the fold has not seen."""
    folded = fold.logged.get(spout, 0)
    batches = run.journal.rows(f"component = '{spout}' AND kind = 'replay' AND batch > {folded}")
    return {(partition, offset) for batch in batches for partition, offset, *_ in batch.replay.rows()}


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
        numbers = _free_numbers(run)
        fold = newest_fold(run.store)
        matched = select(run.topology, run.store, selection)
        refuse_irreversible(run.topology, matched)
        _record(run, selection, matched, why, requested_by, request_id)
        inputs = {
            name: _emissions(run, name, messages, fold) for name, messages in matched.messages.items() if fold
        }
        planned = {name: each for name, each in inputs.items() if each is not None}
        if not planned:
            return matched, []
        batches = plan_all(run, "replay", planned, numbers)
        if batches is not None:  # else another run has planned meanwhile, perhaps these very messages
            return matched, batches


def _free_numbers(run: Run) -> dict[str, int]:
    """Spout -> the number of its next batch, with nothing left of the batch before it.

    Another run may plan a batch at any moment; a replay with the number after it would pass it over.
    """
    while True:
        numbers = {spout.name: run.journal.newest_number(spout.name) + 1 for spout in run.topology.spouts}
        left = [spout for spout in run.topology.spouts if unfinished(run, spout.name) is not None]
        if not left:
            return numbers
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
