"""Messages that a table refuses after the ack: they are found, recorded, and so not published there.

A rule came in after the message was acked, or a sum no longer fits. The messages at fault are searched for as
bad rows are. The next fold makes dead letters of them, in the publisher's name.
"""

from contextlib import suppress
from uuid import uuid4

import polars as pl

from acker.batches.run import Run
from acker.core.errors import StoreError
from acker.core.events import State
from acker.core.snapshot.journal import Journal
from acker.core.snapshot.ledger import settled_in
from acker.core.snapshot.refusals import record_refusals, recorded, refused_by
from acker.core.store.copies import delete_folder
from acker.core.store.parquet import collect
from acker.core.store.schemas import LEDGER
from acker.core.stream_names import component_of
from acker.targets.base import Changes, position_of
from acker.topology.topology import Publication

SCRATCH = "scratch"  # a folder of the store, with a clone for each search


def record_refused(
    run: Run, journal: Journal, publication: Publication, changes: Changes, error: Exception
) -> None:
    """Record the messages of a fold that a target refuses.

    Nothing is recorded if another refusal was recorded since `journal`, or if the target has taken the fold
    in meanwhile.

    Args:
        journal: the journal from before `changes` were made.
        error: the error that the target raised over all messages of the fold.

    Raises:
        Exception: `error`, where the target finds no messages that are at fault.
        StoreError: another table could not take back the messages that this one refuses, or the target
            refuses so many that it may be at fault itself.
    """
    name, fold, target = publication.stream, changes.fold, publication.target
    run.emit_progress("refusing", name, fold)
    scratch = run.store.path(f"{SCRATCH}/{uuid4().hex}")
    try:
        found = target.refused(run.spark, changes, _groups(journal, name, fold), scratch)
    finally:
        with suppress(OSError):
            delete_folder(scratch)
    if found.is_empty():
        raise error
    _check_others(run, publication, found, error)
    redacted = pl.col("reason").map_elements(run.topology.redaction, pl.String)
    found = found.with_columns(redacted)
    if position_of(target, changes.publisher) < fold:
        record_refusals(journal, name, target.uri, fold, found, run.clock())
        run.emit_progress("refused", name, fold, messages=found.height)


def _groups(journal: Journal, name: str, fold: int) -> pl.DataFrame:
    """The roots that a fold acked and the stream's table has not refused: `root_id`, `group`.

    `group` is the same for roots that were acked together.
    """
    is_acked = (pl.col("fold") == fold) & (pl.col("state") == State.ACKED)
    acked = settled_in(journal.require(LEDGER), fold).filter(is_acked)
    rows = collect(acked.select("root_id", group=pl.coalesce("joined", "root_id")))
    return rows.join(refused_by(recorded(journal), name), on="root_id", how="anti")


def _check_others(run: Run, publication: Publication, found: pl.DataFrame, error: Exception) -> None:
    """Stop where messages would stay in another table that cannot take them back."""
    others = [each for name, each in run.topology.publications.items() if name != publication.stream]
    for other in others:
        reason = other.target.irreversible()
        if reason is not None:
            raise StoreError(
                f"{publication.to} refuses {found.height:,} acked messages, and {other.to} could not take "
                f"them back: {found['reason'][0]} {reason}",
                component=component_of(publication.stream),
                table=publication.to,
            ) from error
