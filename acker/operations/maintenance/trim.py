"""Trimming: rows that no live root, publisher or correction needs any more leave the streams and events.

A stream is trimmed by whole batches from its beginning, so by whole files, and no file is rewritten.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from itertools import takewhile

import polars as pl
from deltalake import DeltaTable

from acker.batches.run import Run
from acker.core.errors import StoreError
from acker.core.snapshot.journal import Journal
from acker.core.snapshot.ledger import read_fold
from acker.core.snapshot.planned import Batch
from acker.core.snapshot.refusals import check_read, refusals
from acker.core.snapshot.settled import first_batches_needed
from acker.core.snapshot.streams import held_back, untracked
from acker.core.snapshot.trims import Trim, append_trim, counted_trim, newest_trim
from acker.core.store.schemas import EVENTS, LEDGER, REFUSALS, stream
from acker.core.store.tables import files_of
from acker.core.stream_names import component_of
from acker.operations.maintenance.trimmed_rows import keep_sums_of_trimmed_rows
from acker.operations.publish import former_streams, published_through
from acker.targets.audit import acked_tuples
from acker.targets.base import Target
from acker.targets.by_key import keep, trimmed
from acker.targets.made_anew import gone_by_key
from acker.topology.topology import Topology

_TRIES = 3


def trim_streams(run: Run, older_than: timedelta) -> dict[str, int]:
    """Delete the rows of batches that were planned before the retention and that nobody needs any more.

    Returns:
        Component -> how many of its batches are gone now that were there before.

    Raises:
        StoreError: other commits to a stream were in the way; run it again, and it goes on.
    """
    journal = run.snapshot()
    before = newest_trim(run.store)
    if journal.fold is None:
        return {}
    trim = before  # which may have been interrupted
    upto = _horizon(run.topology, journal, before, run.clock() - older_than)
    if upto != before.upto:
        trim = append_trim(run.store, Trim(before.number + 1, upto, tuples=None), run.clock())
    kept = _kept(run.topology, run.snapshot())
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
    """Delete the rows of a stream's table that meet a condition, where there are any.

    Another commit may be in the way, of a run or of a trimming, also of one whose client is gone by now. Then
    the deletion is tried again.

    Args:
        name: the name of the table.
        gone: the condition, in SQL.

    Raises:
        StoreError: no try succeeded.
    """
    for tries_left in reversed(range(_TRIES)):
        table = run.store.open(name)
        if table is None or not files_of(table, gone):
            return
        try:
            run.store.change(name, lambda table: table.delete(gone))
        except StoreError:
            if not tries_left:
                raise
        else:
            return


def _counted(run: Run, announced: Trim) -> Trim:
    """Count the acked and untracked tuples that an announced trimming and all before it delete.

    The store keeps sums of the tuples that this trimming deletes. With these sums the published rows can be
    checked without the tuples.

    Returns:
        The announced trimming under the next number, with the counts in `tuples`.
    """
    before, journal = counted_trim(run.store), run.snapshot()
    assert before.tuples is not None
    counted, tuples = announced.number + 1, dict(before.tuples)
    for name, target in _counted_targets(run.topology, journal).items():
        batches = _untracked(run.topology, journal, name, before, announced)
        number = acked_tuples(journal, name, before, announced, target.only_adds) + sum(batches.values())
        had = before.tuples.get(name, 0)
        tuples[name] = had + number
        by = target.rows_by_key()
        if by is not None:
            rows = gone_by_key(journal, name, by, before, announced, [*batches])
            # Where an older version has trimmed without that, what it took is not known any more.
            if rows is not None and (not had or run.store.open(trimmed(name)) is not None):
                keep(run.store, name, by, rows, before.number, counted)
    keep_sums_of_trimmed_rows(run.topology, journal, before, announced, counted)
    return Trim(counted, announced.upto, tuples)


def _counted_targets(topology: Topology, journal: Journal) -> dict[str, Target]:
    """Stream -> the target that it feeds or has fed, for each target whose trimmed tuples are counted.

    Such a target needs the tuples of a replaced attempt to take them back, or keeps them. Streams that have
    emitted nothing yet are left out.
    """
    targets = {name: each.target for name, each in topology.publications.items()}
    counting = {name: each for name, each in targets.items() if each.takes_back or each.only_adds}
    former = {name: each for each in counting.values() for name in former_streams(topology, journal, each)}
    return {
        name: each for name, each in (former | counting).items() if journal.open(stream(name)) is not None
    }


def _untracked(
    topology: Topology, journal: Journal, name: str, before: Trim, after: Trim
) -> Mapping[int, int]:
    """Batch -> how many of its untracked tuples the trimming `after` deletes from a published stream.

    Batches that the trimming `before` has deleted are left out, and so are batches without untracked tuples.
    """
    if name not in topology.publications or not topology.may_be_untracked(name):
        return {}
    first, last = (trim.upto.get(component_of(name), 0) for trim in (before, after))
    return untracked(journal, name, first, last)


def _horizon(topology: Topology, journal: Journal, before: Trim, planned_before: datetime) -> dict[str, int]:
    """Component -> the newest batch up to which all are old enough, settled, published, and taken in.

    Components that are gone are trimmed as all others.
    """
    assert journal.fold is not None
    bolts = {bolt for found in journal.edges.values() for bolt in found}
    first: dict[str, int] = {}
    found = (
        _untaken(journal),
        _kept(topology, journal),
        _unpublished(topology, journal),
        _held(topology, journal),
    )
    for kept in found:
        for name, batch in kept.items():
            first[name] = min(batch, first.get(name, batch))
    upto = dict(before.upto)
    left: dict[str, list[Batch]] = {}
    for name, newest in journal.fold.logged.items():
        newest = min(newest, first.get(name, newest + 1) - 1)
        where = f"component = '{name}' AND batch > {upto.get(name, 0)} AND batch <= {newest}"
        left[name] = list(takewhile(lambda batch: batch.planned_at < planned_before, journal.rows(where)))
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
    """Whether all batches that a bolt has taken in, up to and with one of its own batches, are to be trimmed.

    Args:
        batch: the batch of the bolt.
        upto: component -> the newest of its batches that is to be trimmed.
    """
    return all(number <= upto.get(component_of(name), 0) for name, number in batch.spans.ends.items())


def _held(topology: Topology, journal: Journal) -> dict[str, int]:
    """Component -> the first of its batches with an untracked tuple that a rich bolt holds back.

    Tracked tuples are not looked at. Their messages are in flight, and keep the batches from a trimming.
    """
    first: dict[str, int] = {}
    for bolt in topology.bolts:
        if bolt.holds_back:
            held = held_back(journal, bolt.name, journal.logged(bolt.name))
            untracked = held.filter(pl.col("_root_id").is_null())
            for name, batch in untracked.group_by("stream").agg(pl.col("batch").min()).rows():
                first[component_of(name)] = min(batch, first.get(component_of(name), batch))
    return first


def _unpublished(topology: Topology, journal: Journal) -> dict[str, int]:
    """Component -> the first of its batches that can have untracked tuples which are not published."""
    published = published_through(topology, journal)
    logged = read_fold(journal.require(LEDGER), published).logged if published else {}
    names = [name for name in topology.publications if topology.may_be_untracked(name)]
    return {component_of(name): logged.get(component_of(name), 0) + 1 for name in names}


def _untaken(journal: Journal) -> dict[str, int]:
    """Component -> the first of its batches that some bolt among the batch's edges has yet to take in.

    Only batches that the newest fold has read count. A bolt has taken in a batch once the newest fold has
    read the bolt's own batch with it. Components without such batches are left out.
    """
    folded = journal.fold.logged if journal.fold else {}
    newest = {bolt: folded.get(bolt, 0) for bolts in journal.edges.values() for bolt in bolts}
    batches = {bolt: journal.read(bolt, number) for bolt, number in newest.items() if number}
    first: dict[str, int] = {}
    for name, bolts in journal.edges.items():
        upstream = component_of(name)
        for bolt in bolts:
            taken = batches[bolt].spans.end(name) if bolt in batches else 0
            waiting = journal.numbers_for(name, bolt, taken, folded.get(upstream, 0))
            if waiting:
                first[upstream] = min(waiting[0], first.get(upstream, waiting[0]))
    return first


def _kept(topology: Topology, journal: Journal) -> dict[str, int]:
    """Spout -> the first of its batches with a root for which a trimming has to wait.

    Such a root is in flight, is unpublished, is to be replaced, or was refused and may still be in a table.
    The number is 0 where a planned replay of the spout, which the newest fold has not seen, replaces acked
    attempts.
    """
    fold = journal.fold
    assert fold is not None
    published = published_through(topology, journal)
    kept = first_batches_needed(fold, published)
    # Opened after the positions of all publishers: what one has refused before it stood there is in it.
    read = read_fold(journal.require(LEDGER), published).refusals if published else 0
    refused = journal.store.open(REFUSALS)
    check_read(journal, refused)
    for spout, batch in _first_refused(refused, read).items():
        kept[spout] = min(batch, kept.get(spout, batch))
    bolts = {bolt for found in journal.edges.values() for bolt in found}
    for spout in {component_of(name) for name in journal.edges} - bolts:
        unseen = f"component = '{spout}' AND kind = 'replay' AND batch > {fold.logged.get(spout, 0)}"
        if any(batch.replay.replaces for batch in journal.rows(unseen)):
            kept[spout] = 0
    return kept


def _first_refused(table: DeltaTable | None, read: int) -> dict[str, int]:
    """Spout -> the first of its batches with a refused root that some table may still hold.

    Args:
        table: the table `refusals`; None where nothing was ever refused.
        read: the newest commit of that table whose roots every table has given up.
    """
    rows = refusals(table, read)
    return dict(rows.group_by("spout").agg(pl.col("batch").min()).iter_rows())


def trim_events(run: Run, older_than: timedelta) -> dict[str, int]:
    """Delete events that were folded and that are older than the retention.

    Returns:
        `events` -> the number of deleted rows; empty before the first fold.
    """
    fold = run.snapshot().fold
    if fold is None or not fold.logged:
        return {}
    folded = " OR ".join(f"(component = '{name}' AND batch <= {n})" for name, n in fold.logged.items())
    before = f"logged_at < to_timestamp('{(run.clock() - older_than).isoformat()}')"
    done = run.store.change(EVENTS, lambda table: table.delete(f"({folded}) AND {before}"))
    return {EVENTS: done["num_deleted_rows"]}
