"""Acknowledging what was given up: a person knows of the dead letters and lost messages up to a fold."""

import pyarrow as pa

from acker.batches.run import Run
from acker.core.delta import append_rows
from acker.core.errors import StoreError
from acker.core.schemas import ACKNOWLEDGEMENTS, SCHEMAS

APP = "acknowledged"  # whose newest number is the fold


def acknowledge(run: Run, who: str, why: str) -> int:
    """Say that a person knows of all messages that were given up so far. Returns up to which fold.

    Raises:
        StoreError: there is no fold yet.
    """
    fold = run.snapshot().fold
    if fold is None:
        raise StoreError(f"No fold of {run.topology.name} has run yet, so there is nothing to acknowledge.")
    row = {"fold": fold.number, "acknowledged_by": who, "acknowledged_at": run.clock(), "why": why or None}
    rows = pa.Table.from_pylist([row], SCHEMAS[ACKNOWLEDGEMENTS].arrow())
    append_rows(run.store.require(ACKNOWLEDGEMENTS), rows, APP, fold.number)
    return fold.number
