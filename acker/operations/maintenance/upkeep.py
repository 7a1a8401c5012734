"""The upkeep of a store: when each of its steps ended last, and with which fault."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

import pyarrow as pa

from acker.batches.holds import reason_of
from acker.batches.run import utc_now
from acker.core.errors import AckerError
from acker.core.reasons import LONGEST_TOLD
from acker.core.snapshot.journal import Journal
from acker.core.store.schemas import SCHEMAS, UPKEEP
from acker.core.store.store import Store
from acker.core.store.tables import append_rows, last_number, query

UpkeepStep = Literal["audit", "trim", "compact", "vacuum", "backup"]


@dataclass(frozen=True)
class Upkeep:
    """The newest end of a step.

    Args:
        step: the name of the step.
        ended_at: when the step ended, with a fault or without.
        fault: the fault of the step; None where there was none.
    """

    step: str
    ended_at: datetime
    fault: str | None


def note(store: Store, step: UpkeepStep, fault: str | None = None) -> None:
    """Record that a step has ended now.

    Raises:
        StoreError: the store cannot be written.
    """
    if store.open(UPKEEP) is None:  # the store is of a version that had no such table
        store.create()
    row = {"step": step, "ended_at": utc_now(), "fault": fault[:LONGEST_TOLD] if fault else None}
    rows = pa.Table.from_pylist([row], SCHEMAS[UPKEEP].arrow())
    table = store.require(UPKEEP)
    while not append_rows(table, rows, step, last_number(table, step) + 1):
        table = store.require(UPKEEP)  # another process has noted the same step


@contextmanager
def noted(store: Store, step: UpkeepStep) -> Iterator[list[str]]:
    """Record the end of a step, with the faults that the block adds, or with what it raises."""
    faults: list[str] = []
    with noted_if_raised(store, step):
        yield faults
    note(store, step, "; ".join(faults))


@contextmanager
def noted_if_raised(store: Store, step: UpkeepStep) -> Iterator[None]:
    """Record the end of a step, with its fault, where the block raises; the error is raised again.

    Where the block does not raise, nothing is recorded, and the caller is to record the end.
    """
    try:
        yield
    except Exception as error:
        with suppress(AckerError):  # where the store is out of reach itself, the error alone tells
            note(store, step, reason_of(error))
        raise


def newest(journal: Journal) -> dict[str, Upkeep]:
    """Step -> its newest end. A step that has never ended is not there."""
    table = journal.open(UPKEEP)
    if table is None:
        return {}
    rows = query(
        "SELECT step, ended_at, fault FROM (SELECT *, row_number() OVER "
        "(PARTITION BY step ORDER BY ended_at DESC) AS place FROM upkeep) AS ends WHERE place = 1",
        upkeep=table,
    )
    return {row["step"]: Upkeep(**row) for row in rows}
