"""Maintenance of a topology's tables: fewer and larger files, and no files that nobody reads any more.

Streams, events and history keep all their rows. Of the ledger, rows that were live in folds before the
newest go: each fold writes anew what is live.
"""

from acker.ledger import newest_fold
from acker.schemas import EVENTS, LEDGER
from pipeline.run import Run, stream


def compact(run: Run) -> dict[str, int]:
    """Rewrite small files into larger ones. Returns how many files each table had fewer afterwards.

    Row ids and transaction numbers stay, so everything else may run meanwhile.
    """
    newest = newest_fold(run.store)
    if newest is not None:
        run.spark.sql(f"DELETE FROM delta.`{run.store.path(LEDGER)}` WHERE live_in < {newest.number}")
    saved = {}
    for name in _tables(run):
        settled = " WHERE live_in IS NULL" if name == LEDGER else ""
        row = run.spark.sql(f"OPTIMIZE delta.`{run.store.path(name)}`{settled}").select("metrics.*").first()
        assert row is not None
        saved[name] = row["numFilesRemoved"] - row["numFilesAdded"]
    return saved


def vacuum(run: Run, retention_hours: int) -> list[str]:
    """Delete files that no version younger than the retention refers to. Returns the tables' names."""
    names = _tables(run)
    for name in names:
        run.spark.sql(f"VACUUM delta.`{run.store.path(name)}` RETAIN {retention_hours} HOURS")
    return names


def _tables(run: Run) -> list[str]:
    names = [EVENTS, LEDGER, *(stream(name) for name in run.topology.components)]
    return [name for name in names if run.store.open(name) is not None]
