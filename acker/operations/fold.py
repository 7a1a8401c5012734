"""A fold of a topology's store: its input is fixed in an order that misses no tuple in motion."""

from acker.batches.orphans import fail_orphaned
from acker.batches.run import Run
from acker.core.errors import StoreError
from acker.core.fold.job import FoldRequest, run_fold
from acker.core.snapshot.journal import Journal
from acker.core.snapshot.ledger import Fold, fold_counts
from acker.core.snapshot.refusals import recorded
from acker.core.store.schemas import EVENTS
from acker.core.stream_names import component_of
from acker.operations.maintenance.compact import compact_if_many
from acker.operations.notify import call_hooks
from acker.operations.offsets import commit_offsets
from acker.targets.base import published_fold
from acker.topology.topology import Topology


def fold(run: Run) -> Fold:
    """Run the acker once, call the topology's hooks, and return the newest fold.

    Tuples that wait for a bolt that is gone are failed first. Then one snapshot fixes the input: the fold
    before, and one version of `events`. This version tells which batches are logged. So it tells which events
    are new, and which tuples still wait. A tuple that moves on meanwhile was consumed and emitted in one
    later commit; in the snapshot it waits.

    If another run commits the fold first, that fold is returned, and this call calls no hook.

    Raises:
        StoreError: there is no table `events` yet, or the ledger was put back to before a published fold.
    """
    journal = run.snapshot()
    _check_published(run.topology, journal)
    journal = fail_orphaned(run, journal)
    now = run.clock()
    if journal.open(EVENTS) is None:
        path = run.store.path(EVENTS)
        raise StoreError(f"There is no table {path}; run the topology once before folding.", table=path)
    previous = journal.fold
    folded = previous.logged if previous else {}
    # Never less than before, although `events` was put back: what a fold has seen, no other is to see.
    logged = {name: max(journal.logged(name), folded.get(name, 0)) for name in journal.components()}
    request = FoldRequest(
        snapshot=journal,
        logged=logged,
        waiting=_waiting(run.topology, journal, logged),
        spouts=[spout.name for spout in run.topology.spouts],
        retry=run.topology.retry,
        timeouts=run.topology.timeouts,
        now=now,
        holding=[bolt.name for bolt in run.topology.bolts if bolt.holds_back],
        refusals=recorded(journal),  # the snapshot has opened `events` before
        tasks=run.tasks,
    )
    run.emit_progress("folding", "acker", request.number)
    result, is_ours = run_fold(request)
    run.emit_progress("folded", "acker", result.number, **fold_counts(result))
    if is_ours:
        call_hooks(run.topology.hooks, run.topology.name, previous, result)
        after = run.snapshot()
        commit_offsets(run.topology, after)
        compact_if_many(run, after)
    return result


def _check_published(topology: Topology, journal: Journal) -> None:
    """Stop where the ledger was put back, and ends before a fold that a target has of this store.

    Raises:
        StoreError: with both folds.
    """
    for publication in topology.publications.values():
        published_fold(journal, publication.target, publication.stream)


def _waiting(topology: Topology, journal: Journal, logged: dict[str, int]) -> dict[str, list[int]]:
    """Stream -> its logged batches that some bolt among the batch's edges has yet to take in.

    A bolt has taken in a batch once the bolt's own batch with it is logged. Streams without such batches are
    left out.

    Args:
        logged: component -> its newest logged batch.
    """
    found: dict[str, set[int]] = {}
    for (upstream, _), batches in waiting_batches(topology, journal, logged).items():
        found.setdefault(upstream, set()).update(batches)
    return {upstream: sorted(batches) for upstream, batches in found.items()}


def waiting_batches(
    topology: Topology, journal: Journal, logged: dict[str, int]
) -> dict[tuple[str, str], list[int]]:
    """(stream, bolt) -> the stream's logged batches that the bolt, among their edges, has yet to take in.

    A bolt has taken in a batch once the bolt's own batch with it is logged. Edges without such batches are
    left out.

    Args:
        logged: component -> its newest logged batch.
    """
    found = {}
    for bolt in topology.bolts:
        done = logged.get(bolt.name, 0)
        batch = journal.read(bolt.name, done) if done else None
        for upstream in bolt.inputs:
            taken = batch.spans.end(upstream) if batch else 0
            newest = logged.get(component_of(upstream), 0)
            numbers = journal.numbers_for(upstream, bolt.name, taken, newest)
            if numbers:
                found[upstream, bolt.name] = numbers
    return found
