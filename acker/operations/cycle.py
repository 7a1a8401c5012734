"""Whole cycles: replay due messages, read on, run every bolt, fold, publish."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from acker.batches.batch import finish
from acker.batches.holds import held_if_it_raises
from acker.batches.plan import plan, plan_bolt
from acker.batches.run import Run
from acker.components.base import Component
from acker.components.spout import SpoutComponent, history
from acker.core.errors import ServerError, StoreError
from acker.core.snapshot.in_flight import in_flight, next_due
from acker.core.snapshot.inputs import SourceRange
from acker.core.snapshot.journal import Journal
from acker.core.snapshot.ledger import fold_counts
from acker.core.snapshot.planned import Batch
from acker.core.snapshot.refusals import unread_refusals
from acker.core.snapshot.streams import held_back, rows_by_batch
from acker.operations.fold import fold
from acker.operations.publish import publish
from acker.operations.replay import plan_due
from acker.spouts import check_json
from acker.topology.topology import Topology

_NAP_SECONDS = 0.5  # a signal that comes while gRPC's threads run may only be seen after the sleep


@dataclass(frozen=True)
class CycleResult:
    """The result of one cycle."""

    messages: int  # read anew from the sources
    replayed: int  # messages emitted again
    batches: int
    commits: int  # of published tables


def run_cycle(run: Run, limit: int | None = None) -> CycleResult:
    """Run every component once over the input that there is, fold and publish.

    Where a component raises, its batch is left for the next cycle. The components after it and other branches
    go on, and the first error is raised at the end.

    Args:
        limit: read at most so many new messages; None: as many as one batch of each spout takes.
    """
    messages = replayed = batches = 0
    errors: list[Exception] = []
    for spout in run.topology.spouts:
        with collecting_errors(errors):
            done = run_spout(run, spout, None if limit is None else limit - messages)
            messages += done.messages
            replayed += done.replayed
            batches += done.batches
    for bolt in run.topology.bolts:
        with collecting_errors(errors):
            batches += run_bolt(run, bolt)
    fold(run)
    commits = publish(run)
    if errors:
        raise errors[0]
    return CycleResult(messages, replayed, batches, commits)


@contextmanager
def collecting_errors(errors: list[Exception]) -> Iterator[None]:
    """Keep an error of one component, so that the others go on; raise an error that would stop them all."""
    try:
        yield
    except Exception as error:
        if _stops_all(error):
            raise
        errors.append(error)


def _stops_all(error: Exception) -> bool:
    """Whether an error is of the store or of Spark's server, and of no component."""
    from pyspark.errors.exceptions.connect import SparkConnectGrpcException  # which loads gRPC

    # Of this very class are errors of the connection; what Spark says of a query has a class below it.
    return isinstance(error, StoreError | ServerError) or type(error) is SparkConnectGrpcException


class SpoutResult(NamedTuple):
    """The result of a spout in one cycle."""

    batches: int = 0
    messages: int = 0  # read anew
    replayed: int = 0


def run_spout(run: Run, spout: SpoutComponent, limit: int | None = None, replays: bool = True) -> SpoutResult:
    """Finish batches that were left, replay due messages, and read on.

    Args:
        limit: see `run_cycle`.
        replays: whether to replay due messages; False where another task does.
    """
    journal = run.snapshot()
    batches = []
    while (left := journal.unfinished(spout.name)) is not None:
        finish(run, left, journal)
        batches.append(left)
        journal = run.snapshot()
    if replays and (due := plan_due(run, journal, spout)) is not None:
        finish(run, due, journal)
        batches.append(due)
        journal = run.snapshot()
    new = _plan_next(run, journal, spout, limit)
    if new is not None:
        finish(run, new, journal)
        batches.append(new)
    if not batches:
        return SpoutResult()
    journal = run.snapshot()
    return SpoutResult(
        batches=len(batches),
        messages=sum(emitted(journal, batch) for batch in batches if batch.kind == "next"),
        replayed=sum(len(batch.replay) for batch in batches if batch.kind == "replay"),
    )


def _plan_next(run: Run, journal: Journal, spout: SpoutComponent, limit: int | None) -> Batch | None:
    """Plan a batch of a spout that reads on, or return the spout's unfinished batch.

    Another run may plan the batch's number first. Then that run's batch is returned.

    Args:
        limit: read at most so many new messages; None: as many as one batch takes.

    Returns:
        The batch; None where the source has nothing new, or `max_pending` or `limit` leaves no room.
    """
    left = journal.unfinished(spout.name)
    if left is not None:
        return left
    rows = run.topology.batch_rows if limit is None else min(limit, run.topology.batch_rows)
    room = min(rows, room_for_new(run.topology, journal, spout.name))
    if room <= 0:
        return None
    planned = spout.source.next_range(run.spark, history(journal, spout.name), room)
    if planned is None:
        return None
    check_json(spout.name, planned)
    return plan(run, journal, spout.name, "next", SourceRange(planned))


def room_for_new(topology: Topology, journal: Journal, spout: str) -> int:
    """How many new messages of a spout `max_pending` leaves room for."""
    if topology.max_pending is None:
        return topology.batch_rows
    return topology.max_pending - in_flight(journal, spout)


def emitted(journal: Journal, batch: Batch) -> int:
    """How many messages a spout's logged batch took from its source, as its stream tells."""
    return rows_by_batch(journal, batch.component).get(batch.number, 0)


def run_bolt(run: Run, bolt: Component) -> int:
    """Run a bolt until its inputs have no logged batch that it has not taken. Returns batches run.

    A batch that raises is held (`acker.batches.holds`), and the error goes on.
    """
    count = 0
    while True:
        journal = run.snapshot()
        batch = plan_bolt(run, journal, bolt)
        if batch is None:
            return count
        with held_if_it_raises(run, batch):
            finish(run, batch, journal)
        count += 1


def drain(run: Run, limit: int | None = None, sleep: Callable[[float], None] = time.sleep) -> int:
    """Run cycles until nothing is left to read, to replay or to wait for. Returns how many ran.

    Args:
        limit: read at most so many new messages in all.
        sleep: waits, in seconds, for the next retry to become due.
    """
    cycles = 0
    left = limit
    while True:
        full = _full(run)
        result = run_cycle(run, left)
        cycles += 1
        if left is not None:
            left -= result.messages
        if result.batches or not full <= _full(run) or unread_refusals(run.snapshot()):
            continue
        due = _next_due(run)
        if due is None:
            return cycles
        while (rest := (due - run.clock()).total_seconds()) > 0:
            sleep(min(rest, _NAP_SECONDS))


def _full(run: Run) -> set[str]:
    """The spouts that `max_pending` holds back."""
    journal = run.snapshot()
    spouts = (spout.name for spout in run.topology.spouts)
    return {name for name in spouts if room_for_new(run.topology, journal, name) <= 0}


def _next_due(run: Run) -> datetime | None:
    """The time at which a further cycle may have work; None where there is nothing to wait for.

    It is the time at which the next message is due. If no message is retrying and pending roots may time out,
    it is one window from now. While a rich bolt holds tuples back, pending roots are not waited for: such
    tuples wait for other messages, which may be long in coming, and not for this run.
    """
    journal = run.snapshot()
    newest = journal.fold
    if newest is None:
        return None
    due = next_due(newest)
    timeouts = run.topology.timeouts
    pending = fold_counts(newest).get("pending", 0)
    if due is None and pending and timeouts.message_timeout is not None and not _holds_back(run, journal):
        return run.clock() + timeouts.message_timeout / timeouts.windows
    return due


def _holds_back(run: Run, journal: Journal) -> bool:
    """Whether a rich bolt holds tuples back."""
    bolts = [bolt.name for bolt in run.topology.bolts if bolt.holds_back]
    return any(held_back(journal, name, journal.logged(name)).height for name in bolts)
