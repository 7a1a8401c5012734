"""Publishing to Delta tables of rows without Spark: what the product publishes, written by `deltalake`."""

import polars as pl
from deltalake import CommitProperties, Transaction, write_deltalake

from acker.batches.run import Run
from acker.core.store.schemas import LEDGER, stream
from acker.core.store.tables import open_table
from acker.operations.cycle import run_cycle
from acker.operations.publish import acked_folds, former_streams, learn, record
from acker.operations.taken_rows import note_taken
from acker.targets.base import Publisher
from acker.targets.standing import standing_of
from tests.kit.polars_topology import USERS, rows


def run_and_publish(run: Run) -> None:
    """A cycle without Spark, and the publication of what it acked."""
    publications, run.topology.publications = run.topology.publications, {}
    try:
        run_cycle(run)
    finally:
        run.topology.publications = publications
    publish(run)


def publish(run: Run) -> None:
    """Bring the only table that a topology publishes up to the newest fold."""
    journal = run.snapshot()
    (publication,) = run.topology.publications.values()
    name, target = publication.stream, publication.target
    standing = standing_of(journal, target.pinned(), name)
    learn(run, publication, standing)
    former = [*former_streams(run.topology, journal, target)]
    for acked in acked_folds(run.topology, journal, name, standing.fold, journal.fold.number):
        note_taken(journal, name, former, target, acked.fold)
        _append(run, name, target.path, acked.fold, acked.untracked)
        record(run, publication, standing, acked.fold)


def _append(run: Run, name: str, path: str, fold: int, untracked: list[int]) -> None:
    roots = rows(run.store.require(LEDGER), f"live_in IS NULL AND state = 'acked' AND fold = {fold}")
    tuples = rows(run.store.require(stream(name)), "_kind IS NULL")
    is_new = pl.col("_root_id").is_in(roots["root_id"].implode())
    is_others = pl.col("_root_id").is_null() & pl.col("_batch").is_in(untracked)
    added = tuples.filter(is_new.fill_null(False) | is_others).select("_root_id", USERS)
    old = ", ".join(str(root) for root in roots["replaces"].drop_nulls())
    table = open_table(path)
    if table is not None and old:
        table.delete(f"_root_id IN ({old})")
    publisher = Publisher.of(run.store.require(LEDGER), name)
    note = {"userMetadata": publisher.note(fold)}
    once = CommitProperties(note, app_transactions=[Transaction(publisher.app, fold)])
    write_deltalake(path, added.to_arrow(), mode="append", commit_properties=once)
