"""Trimming: what no live root, no publisher and no correction needs any more leaves the streams and events.

A stream is trimmed by whole batches from its beginning, so by whole files, and no file is rewritten.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from itertools import takewhile

import polars as pl
from pyspark.errors import PySparkException

from acker.batches.run import Run
from acker.core.audit import acked_tuples
from acker.core.delta import query
from acker.core.errors import StoreError
from acker.core.ledger import Fold, newest_fold, read_fold
from acker.core.quoting import sql_name
from acker.core.schemas import EVENTS, LEDGER, component_of, stream
from acker.core.streams import held_back, untracked
from acker.core.trims import Trim, append_trim, counted_trim, newest_trim
from acker.journal.batch import Batch
from acker.operations.publish import passed

_TRIES = 3
_CONFLICT = "io.delta.exceptions.Concurrent"  # how the names of all of Delta's begin


def trim_streams(run: Run, older_than: timedelta) -> dict[str, int]:
    """Delete the rows of batches that were planned before the retention and that nobody needs any more.

    Returns:
        component -> how many of its batches are gone now that were there before.

    Raises:
        StoreError: other commits to a stream were in the way; run it again, and it goes on.
    """
    fold = newest_fold(run.store)
    before = newest_trim(run.store)
    if fold is None:
        return {}
    trim = before  # which may have been interrupted
    upto = _positions(run, fold, before, run.clock() - older_than)
    if upto != before.upto:
        trim = append_trim(run.store, Trim(before.number + 1, upto, tuples=None), run.clock())
    kept = _kept(run, newest_fold(run.store) or fold)
    if any(kept.get(name, newest + 1) <= newest for name, newest in trim.upto.items()):
        return {}  # a replay that was planned meanwhile needs them; the next trimming goes on
    if trim.tuples is None:
        counted = _counted(run, trim)
        trim = append_trim(run.store, counted, run.clock())
        if trim != counted:
            return {}  # another trimming goes on
    for name, newest in trim.upto.items():
        _delete(run, stream(name), f"_batch <= {newest}")
    return {name: newest - before.upto.get(name, 0) for name, newest in trim.upto.items()}


def _delete(run: Run, name: str, gone: str) -> None:
    """Delete rows of a stream's table, where there are any.

    Other commits may come between, of a run or of a trimming, also of one whose client is gone by now.
    """
    path = run.store.path(name)
    for _ in range(_TRIES):
        table = run.store.open(name)
        if table is None or not table.file_uris(file_pruning_predicate=gone):
            return
        try:
            run.spark.sql(f"DELETE FROM delta.{sql_name(path)} WHERE {gone}")
        except PySparkException as error:
            if _CONFLICT not in str(error):
                raise
            conflict = error
        else:
            return
    raise StoreError(f"{path} was changed whenever it was to be trimmed: run it again.") from conflict


def _counted(run: Run, announced: Trim) -> Trim:
    """A trimming with what goes with it, and with all before."""
    before = counted_trim(run.store)
    assert before.tuples is not None
    tuples = dict(before.tuples) | {
        name: before.tuples.get(name, 0) + _published(run, name, before, announced)
        for name, publication in run.topology.publications.items()
        if publication.by and run.store.open(stream(name)) is not None
    }
    return Trim(announced.number + 1, announced.upto, tuples)


def _published(run: Run, name: str, before: Trim, after: Trim) -> int:
    """How many tuples of a published stream go with the second trimming."""
    first, last = (trim.upto.get(component_of(name), 0) for trim in (before, after))
    others = untracked(run.store, name, first, last).values() if run.topology.may_be_untracked(name) else ()
    return acked_tuples(run.store, name, before, after) + sum(others)


def _positions(run: Run, fold: Fold, before: Trim, planned_before: datetime) -> dict[str, int]:
    """Component -> the newest batch up to which all are old enough, settled, published, and taken in.

    Components that are gone are trimmed as all others.
    """
    edges = run.journal.edges()
    bolts = {bolt for found in edges.values() for bolt in found}
    first: dict[str, int] = {}
    found = (
        _untaken(run, fold, edges),
        _kept(run, fold),
        _unpublished(run),
        _held(run, fold),
    )
    for kept in found:
        for name, batch in kept.items():
            first[name] = min(batch, first.get(name, batch))
    upto = dict(before.upto)
    left: dict[str, list[Batch]] = {}
    for name, newest in fold.logged.items():
        newest = min(newest, first.get(name, newest + 1) - 1)
        where = f"component = '{name}' AND batch > {upto.get(name, 0)} AND batch <= {newest}"
        left[name] = list(takewhile(lambda batch: batch.planned_at < planned_before, run.journal.rows(where)))
    # What a batch took in goes before it. Components change, so no order of them serves for all batches.
    moved = True
    while moved:
        moved = False
        for name, batches in left.items():
            while batches and (name not in bolts or _is_whole(batches[0], upto)):
                upto[name] = batches.pop(0).number
                moved = True
    return upto


def _is_whole(batch: Batch, upto: Mapping[str, int]) -> bool:
    """Whether all that a bolt has taken in by a batch is to go."""
    return all(number <= upto.get(component_of(name), 0) for name, number in batch.spans.ends.items())


def _held(run: Run, fold: Fold) -> dict[str, int]:
    """Component -> the first of its batches with an untracked tuple that a rich bolt holds back.

    Of those that are tracked their messages tell, which are in flight.
    """
    first: dict[str, int] = {}
    for bolt in run.topology.bolts:
        if bolt.make is not None:
            held = held_back(run.store, bolt.name, run.journal.logged(bolt.name), fold)
            untracked = held.filter(pl.col("_root_id").is_null())
            for name, batch in untracked.group_by("stream").agg(pl.col("batch").min()).rows():
                first[component_of(name)] = min(batch, first.get(component_of(name), batch))
    return first


def _unpublished(run: Run) -> dict[str, int]:
    """Component -> the first of its batches that can have untracked tuples which are not published."""
    published = passed(run)
    logged = read_fold(run.store.require(LEDGER), published).logged if published else {}
    names = [name for name in run.topology.publications if run.topology.may_be_untracked(name)]
    return {component_of(name): logged.get(component_of(name), 0) + 1 for name in names}


def _untaken(run: Run, fold: Fold, edges: Mapping[str, Iterable[str]]) -> dict[str, int]:
    """Component -> the first of its batches that a bolt among their edges has yet to take in and fold."""
    newest = {bolt: fold.logged.get(bolt, 0) for bolts in edges.values() for bolt in bolts}
    batches = {bolt: run.journal.read(bolt, number) for bolt, number in newest.items() if number}
    first: dict[str, int] = {}
    for name, bolts in edges.items():
        upstream = component_of(name)
        for bolt in bolts:
            taken = batches[bolt].spans.end(name) if bolt in batches else 0
            waiting = run.journal.numbers_for(name, bolt, taken, fold.logged.get(upstream, 0))
            if waiting:
                first[upstream] = min(waiting[0], first.get(upstream, waiting[0]))
    return first


def _kept(run: Run, fold: Fold) -> dict[str, int]:
    """Spout -> the first of its batches with a root that is in flight, unpublished, or to be replaced."""
    new = f"(live_in = {fold.number} OR (live_in IS NULL AND fold > {passed(run)}))"
    rows = query(
        f"""
        WITH new AS (SELECT * FROM ledger WHERE root_id IS NOT NULL AND {new}),
        old AS (SELECT ledger.* FROM new JOIN ledger ON ledger.root_id = new.replaces
            WHERE ledger.state = 'acked' AND ledger.live_in IS NULL),
        both AS (SELECT spout, batch FROM new UNION ALL SELECT spout, batch FROM old)
        SELECT spout, min(batch) AS batch FROM both WHERE batch IS NOT NULL GROUP BY spout""",
        ledger=run.store.require(LEDGER, fold.ledger_version),
    )
    kept = {row["spout"]: row["batch"] for row in rows}
    edges = run.journal.edges()
    bolts = {bolt for found in edges.values() for bolt in found}
    for spout in {component_of(name) for name in edges} - bolts:
        unseen = f"component = '{spout}' AND kind = 'replay' AND batch > {fold.logged.get(spout, 0)}"
        if any(batch.replay.replaced() for batch in run.journal.rows(unseen)):
            kept[spout] = 0
    return kept


def trim_events(run: Run, older_than: timedelta) -> dict[str, int]:
    """Delete events that were folded and that are older than the retention. Returns how many."""
    fold = newest_fold(run.store)
    if fold is None or not fold.logged:
        return {}
    folded = " OR ".join(f"(component = '{name}' AND batch <= {n})" for name, n in fold.logged.items())
    before = f"logged_at < to_timestamp('{(run.clock() - older_than).isoformat()}')"
    done = run.store.change(EVENTS, lambda table: table.delete(f"({folded}) AND {before}"))
    return {EVENTS: done["num_deleted_rows"]}
