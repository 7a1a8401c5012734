"""Acknowledgements: a person states that the dead letters and lost messages up to a fold are known."""

import pyarrow as pa

from acker.batches.run import Run
from acker.core.errors import SettingsError, StoreError
from acker.core.names import called
from acker.core.store.schemas import ACKNOWLEDGEMENTS, SCHEMAS
from acker.core.store.tables import append_rows, last_number

APP = "acknowledged"  # whose newest number is the fold


def acknowledge(run: Run, fold: int | None, who: str, why: str) -> int:
    """Record that a person knows of all messages that were given up in the folds up to one.

    Messages that were given up since the person looked stay unacknowledged.

    Args:
        fold: the fold that the person was shown; without it nothing is acknowledged.

    Returns:
        The newest fold that is acknowledged by now; another person may have acknowledged a later one.

    Raises:
        SettingsError: no fold is named, or one that has not run.
        StoreError: there is no fold yet.
    """
    name, newest = run.topology.name, run.snapshot().fold
    if newest is None:
        raise StoreError(f"No fold of {name} has run yet, so there is nothing to acknowledge.")
    if fold is None:
        raise SettingsError(
            f"Say with --fold up to which fold you know what was given up: `acker failures {called(name)}` "
            "ends with the fold that it shows, and the monitor's warning names it too."
        )
    if not 1 <= fold <= newest.number:
        raise SettingsError(f"Fold {fold} of {name} has not run; the newest is {newest.number}.")
    row = {"fold": fold, "acknowledged_by": who, "acknowledged_at": run.clock(), "why": why or None}
    rows = pa.Table.from_pylist([row], SCHEMAS[ACKNOWLEDGEMENTS].arrow())
    table = run.store.require(ACKNOWLEDGEMENTS)
    append_rows(table, rows, APP, fold)
    return max(fold, last_number(table, APP))
