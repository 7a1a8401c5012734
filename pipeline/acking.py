"""The acker job of a topology: fixes what a fold reads, in an order that cannot miss a tuple in motion."""

from functools import reduce

import pyarrow.compute as pc
from pyspark.sql import DataFrame

from acker.errors import StoreError
from acker.job import FoldRequest, run_fold
from acker.ledger import Fold, fold_counts, newest_fold
from acker.schemas import EVENTS
from pipeline.batch import messages_table
from pipeline.run import Run


def fold(run: Run) -> Fold:
    """Run the acker once and return the newest fold.

    The newest fold and the clock are read first. Then one version of `events` fixes everything else:
    which batches are logged, so which events are new and which tuples still wait, all as of the same
    commit. A tuple that moves on meanwhile was consumed and emitted in one later commit; at this
    version it waits.
    """
    previous = newest_fold(run.store)
    now = run.clock()
    events = run.store.open(EVENTS)
    if events is None:
        raise StoreError(f"There is no table {run.store.path(EVENTS)}; run the topology once before folding.")
    version = events.version()
    logged = {name: run.journal.logged(name, version) for name in run.journal.components()}
    folded = previous.logged if previous else {}
    run.tell("folding", "acker", 1 + (previous.number if previous else 0))
    request = FoldRequest(
        previous=previous,
        events_version=version,
        logged=logged,
        waiting=waiting(run, logged),
        spouts=[spout.name for spout in run.topology.spouts],
        highest_attempt=_highest_attempt(run, folded, logged),
        timeouts=run.topology.timeouts,
        retry=run.topology.retry,
        now=now,
    )
    result = run_fold(run.store, run.spark, request)
    run.tell("folded", "acker", result.number, **fold_counts(run.store, result))
    return result


def waiting(run: Run, logged: dict[str, int]) -> DataFrame | None:
    """Roots (`_root_id`) of tuples in logged batches that a bolt among their edges has not logged yet."""
    frames = [
        run.tuples(upstream, batches).select("_root_id")
        for (upstream, _), batches in waiting_batches(run, logged).items()
    ]
    return reduce(lambda a, b: a.unionByName(b), frames) if frames else None


def waiting_batches(run: Run, logged: dict[str, int]) -> dict[tuple[str, str], list[int]]:
    """(emitter, bolt) -> logged batches that the bolt has yet to log; edges without any are left out."""
    found = {}
    for bolt in run.topology.bolts:
        done = logged.get(bolt.name, 0)
        batch = run.journal.read(bolt.name, done) if done else None
        for upstream in bolt.inputs:
            taken = batch.taken(upstream) if batch else 0
            numbers = run.journal.numbers_for(upstream, bolt.name, taken, logged.get(upstream, 0))
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
            replays = [messages_table(batch.input) for batch in run.journal.rows(new)]
            attempts += [pc.max(messages["attempt"]).as_py() for messages in replays]
    return max(attempts)
