"""Whole cycles: replay what is due, read on, run every bolt, fold, publish."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from acker.batches.batch import finish, plan, plan_bolt, unfinished
from acker.batches.run import Run, history
from acker.components.base import Component
from acker.core.delta import last_number, query
from acker.core.ledger import Fold, fold_counts, newest_fold, unfolded
from acker.core.schemas import EVENTS, LEDGER
from acker.core.streams import held_back, rows_by_batch
from acker.journal.batch import Batch
from acker.journal.inputs import SourceRange
from acker.operations.fold import fold
from acker.operations.publish import publish
from acker.operations.replay import plan_due
from acker.spouts import check_json

_NAP_SECONDS = 0.5  # a signal that comes while gRPC's threads run may only be seen after the sleep


@dataclass(frozen=True)
class CycleResult:
    """What one cycle did."""

    messages: int  # read anew from the sources
    batches: int
    commits: int  # of published tables


def run_cycle(run: Run, limit: int | None = None) -> CycleResult:
    """Run every component once over what there is, fold and publish.

    Args:
        limit: read at most so many new messages; None: as many as one batch of each spout takes.
    """
    messages = batches = 0
    for spout in run.topology.spouts:
        done, read = run_spout(run, spout, None if limit is None else limit - messages)
        messages += read
        batches += done
    for bolt in run.topology.bolts:
        batches += run_bolt(run, bolt)
    fold(run)
    return CycleResult(messages, batches, publish(run))


def run_spout(run: Run, spout: Component, limit: int | None = None, replays: bool = True) -> tuple[int, int]:
    """Finish what was left, replay what is due, and read on. Returns batches run and new messages planned.

    Args:
        limit: see `run_cycle`.
        replays: whether to replay what is due; False where another task does.
    """
    batches = []
    while (left := unfinished(run, spout.name)) is not None:
        finish(run, spout, left)
        batches.append(left)
    for plan_one in (plan_due, _plan_next(limit)) if replays else (_plan_next(limit),):
        batch = plan_one(run, spout)
        if batch is not None:
            finish(run, spout, batch)
            batches.append(batch)
    read = sum(emitted(run, batch) for batch in batches if batch.kind == "next")
    return len(batches), read


def _plan_next(limit: int | None) -> Callable[[Run, Component], Batch | None]:
    def plan_next(run: Run, spout: Component) -> Batch | None:
        assert spout.source is not None
        # The number first: a run that plans it meanwhile, or has planned it since the last look, is followed.
        number = run.journal.newest_number(spout.name) + 1
        left = unfinished(run, spout.name)
        if left is not None:
            return left
        rows = run.topology.batch_rows if limit is None else min(limit, run.topology.batch_rows)
        room = min(rows, room_for_new(run, spout.name))
        if room <= 0:
            return None
        planned = spout.source.next_range(run.spark, history(run, spout.name), room)
        if planned is None:
            return None
        check_json(spout.name, planned)
        return plan(run, spout, "next", SourceRange(planned), number)

    return plan_next


def room_for_new(run: Run, spout: str) -> int:
    """How many new messages of a spout `max_pending` leaves room for.

    In flight are its pending roots of the newest fold, and those whose init no fold has seen. Messages that
    wait for a retry do not count, nor those of other spouts, for which a bolt may hold these back.
    """
    if run.topology.max_pending is None:
        return run.topology.batch_rows
    newest = newest_fold(run.store)
    events = run.store.require(EVENTS)
    new = f"kind = 'init' AND ({unfolded(newest, {spout: last_number(events, spout)})})"
    (row,) = query(
        f"""SELECT (SELECT count(*) FROM events WHERE {new}) + (SELECT count(*) FROM ledger
            WHERE live_in = {newest.number if newest else 0} AND state = 'pending' AND spout = '{spout}')
            AS pending""",
        events=events,
        ledger=run.store.require(LEDGER, newest.ledger_version if newest else None),
    )
    return run.topology.max_pending - int(row["pending"])


def emitted(run: Run, batch: Batch) -> int:
    """How many messages a spout's logged batch took from its source, from its stream."""
    return rows_by_batch(run.store, batch.component).get(batch.number, 0)


def run_bolt(run: Run, bolt: Component) -> int:
    """Run a bolt until its inputs have no logged batch that it has not taken. Returns batches run."""
    count = 0
    while (batch := plan_bolt(run, bolt)) is not None:
        finish(run, bolt, batch)
        count += 1
    return count


def drain(run: Run, limit: int | None = None, sleep: Callable[[float], None] = time.sleep) -> int:
    """Run cycles until nothing is left to read, to replay or to wait for. Returns how many ran.

    Args:
        limit: read at most so many new messages in all.
        sleep: waits, in seconds, for the next retry to become due.
    """
    cycles = 0
    left = limit
    while True:
        full = [spout.name for spout in run.topology.spouts if room_for_new(run, spout.name) <= 0]
        result = run_cycle(run, left)
        cycles += 1
        if left is not None:
            left -= result.messages
        if result.batches or any(room_for_new(run, name) > 0 for name in full):
            continue
        due = _next_due(run)
        if due is None:
            return cycles
        while (rest := (due - run.clock()).total_seconds()) > 0:
            sleep(min(rest, _NAP_SECONDS))


def _next_due(run: Run) -> datetime | None:
    """When the next message is due, or the next window turns while roots are pending; None if idle.

    What a bolt holds back waits for other messages, which may be long in coming, and not for this run.
    """
    newest = newest_fold(run.store)
    if newest is None:
        return None
    (row,) = query(
        f"SELECT min(retry_at) AS due FROM ledger WHERE live_in = {newest.number} AND state = 'retrying'",
        ledger=run.store.require(LEDGER, newest.ledger_version),
    )
    due: datetime | None = row["due"]
    timeouts = run.topology.timeouts
    pending = fold_counts(run.store, newest).get("pending", 0)
    if due is None and pending and timeouts.message_timeout is not None and not _holds_back(run, newest):
        return run.clock() + timeouts.message_timeout / timeouts.windows
    return due


def _holds_back(run: Run, fold: Fold) -> bool:
    """Whether a rich bolt holds tuples back."""
    bolts = [bolt.name for bolt in run.topology.bolts if bolt.make is not None]
    return any(held_back(run.store, name, run.journal.logged(name), fold).height for name in bolts)
