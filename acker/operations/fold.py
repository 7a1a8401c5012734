"""The acker job of a topology: fixes what a fold reads, in an order that cannot miss a tuple in motion."""

from acker.batches.orphans import retire
from acker.batches.run import Run
from acker.core.errors import StoreError
from acker.core.fold_job import FoldRequest, run_fold
from acker.core.ledger import Fold, fold_counts, highest_attempt, newest_fold
from acker.core.retry import delay_after
from acker.core.schemas import EVENTS, component_of
from acker.operations.notify import call_hooks
from acker.targets.publisher import position


def fold(run: Run) -> Fold:
    """Run the acker once, call the topology's hooks, and return the newest fold.

    What waits for a bolt that is gone is failed first. The newest fold and the clock are read next. Then
    one version of `events` fixes everything else: which batches are logged, so which events are new and
    which tuples still wait, all as of the same commit. A tuple that moves on meanwhile was consumed and
    emitted in one later commit; at this version it waits.
    """
    for publication in run.topology.publications.values():
        position(run.store, publication)  # which is an error where the ledger was put back
    retire(run)
    previous = newest_fold(run.store)
    now = run.clock()
    events = run.store.open(EVENTS)
    if events is None:
        raise StoreError(f"There is no table {run.store.path(EVENTS)}; run the topology once before folding.")
    version = events.version()
    folded = previous.logged if previous else {}
    # Never less than before, although `events` was put back: what a fold has seen, no other is to see.
    logged = {
        name: max(run.journal.logged(name, version), folded.get(name, 0)) for name in run.journal.components()
    }
    highest = _highest_attempt(run, folded, logged)
    if previous:
        highest = max(highest, highest_attempt(run.store, previous))
    run.tell("folding", "acker", 1 + (previous.number if previous else 0))
    request = FoldRequest(
        previous=previous,
        events_version=version,
        logged=logged,
        waiting=waiting(run, logged),
        spouts=[spout.name for spout in run.topology.spouts],
        delays=[delay_after(run.topology.retry, attempt) for attempt in range(1, highest + 1)],
        timeouts=run.topology.timeouts,
        now=now,
    )
    result, is_ours = run_fold(run.store, request)
    run.tell("folded", "acker", result.number, **fold_counts(run.store, result))
    if is_ours:
        call_hooks(run.topology.hooks, run.store, previous, result)
    return result


def waiting(run: Run, logged: dict[str, int]) -> dict[str, list[int]]:
    """Stream -> its logged batches that a bolt among their edges has not logged yet."""
    found: dict[str, set[int]] = {}
    for (upstream, _), batches in waiting_batches(run, logged).items():
        found.setdefault(upstream, set()).update(batches)
    return {upstream: sorted(batches) for upstream, batches in found.items()}


def waiting_batches(run: Run, logged: dict[str, int]) -> dict[tuple[str, str], list[int]]:
    """(stream, bolt) -> logged batches that the bolt has yet to log; edges without any are left out."""
    found = {}
    for bolt in run.topology.bolts:
        done = logged.get(bolt.name, 0)
        batch = run.journal.read(bolt.name, done) if done else None
        for upstream in bolt.inputs:
            taken = batch.spans.end(upstream) if batch else 0
            newest = logged.get(component_of(upstream), 0)
            numbers = run.journal.numbers_for(upstream, bolt.name, taken, newest)
            if numbers:
                found[upstream, bolt.name] = numbers
    return found


def _highest_attempt(run: Run, folded: dict[str, int], logged: dict[str, int]) -> int:
    """The highest attempt in the replay batches that no fold has seen; 1 where there are none."""
    attempts = [1]
    for spout, newest in logged.items():
        after = folded.get(spout, 0)
        if newest > after:
            new = f"component = '{spout}' AND kind = 'replay' AND batch > {after} AND batch <= {newest}"
            attempts += [batch.replay.highest_attempt() for batch in run.journal.rows(new)]
    return max(attempts)
