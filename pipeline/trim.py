"""Trimming: what no live root, no publisher and no correction needs any more leaves the streams and events.

A stream is trimmed by whole batches from its beginning, so by whole files, and no file is rewritten.
"""

from datetime import datetime, timedelta

from acker.audit import acked_tuples
from acker.ledger import Fold, newest_fold, read_fold
from acker.schemas import EVENTS, LEDGER, component_of, stream
from acker.tables import query
from acker.trims import Trim, append_trim, newest_trim
from acker.untracked import untracked
from pipeline.publish import passed
from pipeline.run import Run


def trim_streams(run: Run, older_than: timedelta) -> dict[str, int]:
    """Delete the rows of batches that were planned before the retention and that nobody needs any more.

    Returns:
        component -> how many of its batches are gone now that were there before.
    """
    fold = newest_fold(run.store)
    before = newest_trim(run.store)
    if fold is None:
        return {}
    upto = _positions(run, fold, before, run.clock() - older_than)
    if upto != before.upto:
        tuples = {
            name: before.tuples.get(name, 0) + _published(run, name, before, Trim(0, upto))
            for name, publication in run.topology.publications.items()
            if publication.by and run.store.open(stream(name)) is not None
        }
        trim = append_trim(run.store, Trim(before.number + 1, upto, tuples), run.clock())
    else:
        trim = before  # which may have been interrupted
    for name, newest in trim.upto.items():
        gone = f"_batch <= {newest}"
        if run.store.require(stream(name)).file_uris(file_pruning_predicate=gone):
            run.spark.sql(f"DELETE FROM delta.`{run.store.path(stream(name))}` WHERE {gone}")
    return {name: newest - before.upto.get(name, 0) for name, newest in trim.upto.items()}


def _published(run: Run, name: str, before: Trim, after: Trim) -> int:
    """How many tuples of a published stream go with the second trimming."""
    first, last = (trim.upto.get(component_of(name), 0) for trim in (before, after))
    others = untracked(run.store, name, first, last).values() if run.topology.may_be_untracked(name) else ()
    return acked_tuples(run.store, name, before, after) + sum(others)


def _positions(run: Run, fold: Fold, before: Trim, planned_before: datetime) -> dict[str, int]:
    """Component -> the newest batch up to which all are old enough, settled, published, and taken in."""
    kept = _kept(run, fold)
    taken = _taken(run, fold)
    upto = dict(before.upto)
    for component in run.topology.order():
        name, last = component.name, before.upto.get(component.name, 0)
        newest = min([fold.logged.get(name, 0), *taken.get(name, [])])
        where = f"component = '{name}' AND batch > {last} AND batch <= {newest}"
        for batch in run.journal.rows(where):
            whole = all(batch.taken(name) <= upto.get(component_of(name), 0) for name in component.inputs)
            if batch.planned_at >= planned_before or batch.number >= kept.get(name, newest + 1) or not whole:
                break
            last = batch.number
        if last:
            upto[name] = last
    return upto


def _taken(run: Run, fold: Fold) -> dict[str, list[int]]:
    """Component -> up to which of its batches each bolt has folded, and each publisher untracked tuples."""
    taken: dict[str, list[int]] = {}
    published = passed(run)
    at = read_fold(run.store.require(LEDGER), published).logged if published else {}
    for name in run.topology.publications:
        if run.topology.may_be_untracked(name):
            taken.setdefault(component_of(name), []).append(at.get(component_of(name), 0))
    for bolt in run.topology.bolts:
        newest = fold.logged.get(bolt.name, 0)
        batch = run.journal.read(bolt.name, newest) if newest else None
        for upstream in bolt.inputs:
            taken.setdefault(component_of(upstream), []).append(batch.taken(upstream) if batch else 0)
    return taken


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
        ledger=run.store.require(LEDGER),
    )
    kept = {row["spout"]: row["batch"] for row in rows}
    for spout in run.topology.spouts:
        unseen = (
            f"component = '{spout.name}' AND kind = 'replay' AND batch > {fold.logged.get(spout.name, 0)}"
        )
        if run.journal.rows(unseen):  # of which any may replace something
            kept[spout.name] = 0
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
