"""Held batches: they raised an error that no row causes, so no message fails and the batch is tried again.

Each try that raises adds a row to the table `holds`. The newest row of a batch counts until the batch is
logged. The row says when a scheduler is to try again; a person who runs the bolt need not wait.
"""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

import pyarrow as pa

from acker.batches.run import Run
from acker.core.error_messages import message_of
from acker.core.errors import AckerError, BatchHeld
from acker.core.reasons import LONGEST_TOLD
from acker.core.retry import ExponentialBackoff
from acker.core.snapshot.journal import Journal
from acker.core.snapshot.planned import Batch
from acker.core.store.schemas import HOLDS, SCHEMAS
from acker.core.store.tables import append_rows, last_number, query

BACKOFF = ExponentialBackoff(initial_seconds=10, multiplier=2, cap_seconds=3600, limit=None)


@dataclass(frozen=True)
class Hold:
    """A held batch, as its newest try left it."""

    component: str
    batch: int
    tries: int  # that raised
    reason: str  # a line of what the newest of them raised
    held_at: datetime  # when the first of them raised
    tried_at: datetime  # when the newest of them raised
    retry_at: datetime  # when a scheduler tries again

    def __str__(self) -> str:
        return f"{self.component} holds batch {self.batch} since {self.told}"

    @property
    def told(self) -> str:
        """The time since which the batch is held, the number of its tries, and the reason, as text."""
        tries = "once" if self.tries == 1 else f"{self.tries:,} times"
        return f"{self.held_at:%Y-%m-%d %H:%M} UTC, tried {tries}: {self.reason}"


def newest_hold(journal: Journal, component: str) -> Hold | None:
    """The hold of a component's unfinished batch; None where there is no such batch or no try has raised."""
    number = journal.planned(component)
    if number == journal.logged(component):
        return None
    return _newest(journal, component, number)


def check_not_held(journal: Journal, component: str, now: datetime) -> None:
    """Stop where a component's batch is held and the time of its next try has not come.

    Raises:
        BatchHeld: with the reason and the time of the next try.
    """
    found = newest_hold(journal, component)
    if found is not None and now < found.retry_at:
        raise BatchHeld(
            f"{found} The next try is at {found.retry_at:%H:%M:%S} UTC.",
            component=component,
            batch=found.batch,
        )


@contextlib.contextmanager
def held_if_it_raises(run: Run, batch: Batch) -> Iterator[None]:
    """Record a hold of a batch where the work on it raises an error; the error is raised again."""
    try:
        yield
    except Exception as error:
        # Where the store is out of reach itself, the error alone tells.
        with contextlib.suppress(AckerError):
            _hold(run, batch.component, batch.number, error)
        raise


@contextlib.contextmanager
def noted_if_it_raises(run: Run, stream: str, fold: int) -> Iterator[None]:
    """Record a hold of a fold where its publish raises an error; the error is raised again."""
    try:
        yield
    except Exception as error:
        with contextlib.suppress(AckerError):
            _hold(run, _publisher(stream), fold, error)
        raise


def unpublished_since(journal: Journal, stream: str, fold: int) -> Hold | None:
    """The hold of a fold that could not be published, from its newest try; None where no try has raised."""
    return _newest(journal, _publisher(stream), fold)


def _publisher(stream: str) -> str:
    return f"publish {stream}"  # which is no component's name


def _hold(run: Run, component: str, number: int, error: Exception) -> None:
    journal, now = run.snapshot(), run.clock()
    before = _newest(journal, component, number)
    tries = before.tries + 1 if before else 1
    delay = BACKOFF.delay_seconds(tries) or 0
    hold = Hold(
        component=component,
        batch=number,
        tries=tries,
        reason=run.topology.redaction(reason_of(error)),
        held_at=before.held_at if before else now,
        tried_at=now,
        retry_at=now + timedelta(seconds=delay),
    )
    table = journal.require(HOLDS)
    rows = pa.Table.from_pylist([vars(hold)], SCHEMAS[HOLDS].arrow())
    append_rows(table, rows, hold.component, last_number(table, hold.component) + 1)
    run.emit_progress("held", hold.component, hold.batch, reason=hold.reason)


def reason_of(error: Exception) -> str:
    """The message of an error in one line, of at most `LONGEST_TOLD` characters."""
    return message_of(error)[:LONGEST_TOLD]


def _newest(journal: Journal, component: str, number: int) -> Hold | None:
    table = journal.open(HOLDS)
    if table is None:
        return None
    rows = query(
        f"SELECT * FROM holds WHERE component = '{component}' AND batch = {number} "
        "ORDER BY tries DESC, tried_at DESC LIMIT 1",
        holds=table,
    )
    return Hold(**rows[0]) if rows else None
