"""Publishing: the terminal tuples of acked messages, fold by fold, oldest first, each fold once.

The rows of an earlier acked attempt of a message leave in the commit that brings those of the later one. A
message that a table refuses is recorded, and left out (`acker/operations/refuse.py`). With the fold that has
read a refusal, every other table gives up its rows of the root.
"""

from dataclasses import dataclass, replace

import polars as pl
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from acker.batches.holds import noted_if_it_raises
from acker.batches.run import Run
from acker.components.base import columns_of
from acker.core.errors import AckerError, SourceError
from acker.core.quoting import sql_name
from acker.core.snapshot.downstream import downstream_batches
from acker.core.snapshot.integrity import check_missing
from acker.core.snapshot.journal import Journal
from acker.core.snapshot.publishers import Meeting, has_published, known_of, meet
from acker.core.snapshot.refusals import last_refusal, leaving, read_by_fold, recorded, refusals, refused_by
from acker.core.snapshot.settled import acked_batches, acked_in, logged_by_fold
from acker.core.snapshot.streams import Rows, untracked
from acker.core.store.identity import ids_of
from acker.core.store.schemas import LEDGER, stream
from acker.core.store.tables import files_of
from acker.core.stream_names import component_of
from acker.operations.contents import MOST_PASSED_OVER, folds_with_tuples
from acker.operations.refuse import record_refused
from acker.operations.taken_rows import note_taken
from acker.spark.delta import read_files
from acker.spark.streams import tuples
from acker.spark.tags import tagged
from acker.targets.base import Changes, Publisher, Target, position_of
from acker.targets.standing import Standing, standing_of
from acker.topology.topology import Publication, Topology

SMALL_BYTES = 16 * 2**20  # of files
SMALL_ROWS = 100_000


@dataclass(frozen=True)
class Acked:
    """The roots that one fold acked, by the batches that emitted them.

    Args:
        emissions: (spout, batch) that emitted the roots.
        replaced: (spout, batch) that emitted the roots that these replace.
        untracked: batches of the stream that the fold was the first to see, with tuples of no message.
        refusals: the commits of `refusals` that the fold was the first to read, as (first, last].
    """

    fold: int
    emissions: list[tuple[str, int]]
    replaced: list[tuple[str, int]]
    untracked: list[int]
    refusals: tuple[int, int] = (0, 0)

    @property
    def reads_refusals(self) -> bool:
        """Whether the fold was the first to read some refusals."""
        return self.refusals[0] < self.refusals[1]


def publish(run: Run) -> int:
    """Bring every target up to the newest fold. Returns how many commits that took.

    If a target raises an error of this library or of Spark, the other targets are brought up to the newest
    fold as well, and the first such error is raised at the end.
    """
    commits, faults = 0, []
    for publication in run.topology.publications.values():
        try:
            commits += publish_stream(run, publication)
        except (AckerError, PySparkException) as fault:
            faults.append(fault)
    if faults:
        raise faults[0]
    return commits


def publish_stream(run: Run, publication: Publication) -> int:
    """Bring the target of one stream up to the newest fold. Returns how many commits that took."""
    journal = run.snapshot()
    if journal.fold is None or journal.open(stream(publication.stream)) is None:
        return 0  # nothing was folded, or nothing emitted that could be published
    standing = standing_of(journal, publication.target.pinned(), publication.stream)
    learn(run, publication, standing)
    folds = acked_folds(run.topology, journal, publication.stream, standing.fold, journal.fold.number)
    for done, acked in enumerate(folds):
        run.hold()
        name, publishes = run.topology.name, publication.stream
        with tagged(run.spark, topology=name, publishes=publishes, fold=acked.fold, run=run.run_id):
            if acked.replaced:
                former = former_streams(run.topology, journal, publication.target)
                note_taken(journal, publication.stream, [*former], publication.target, acked.fold)
            with noted_if_it_raises(run, publishes, acked.fold):
                is_taken = _apply(run, journal, publication, acked, standing.known.is_shared)
        if not is_taken:
            return done + publish_stream(run, publication)
        record(run, publication, standing, acked.fold)
        run.emit_progress("published", publication.stream, acked.fold)
    return len(folds)


def _apply(run: Run, journal: Journal, publication: Publication, acked: Acked, is_shared: bool) -> bool:
    """Let a target take a fold in.

    Args:
        is_shared: whether other publishers may publish to the target as well.

    Returns:
        True where the target has the fold; False where it refuses some messages. See `record_refused`.

    Raises:
        Exception: the target's error, where the fault is not that of some messages.
    """
    changes = _changes(run, journal, publication, acked)
    try:
        publication.target.apply(run.spark, replace(changes, is_shared=is_shared))
    except (PySparkException, SourceError) as error:
        record_refused(run, journal, publication, changes, error)
        return False
    return True


def learn(run: Run, publication: Publication, standing: Standing) -> None:
    """Record folds of a publisher that a target holds and the store does not know, as after a crash.

    If the store does not know that the publisher has published to this target, the store records that the two
    have met. An older version recorded nothing. Rows that other stores have published to the target before
    stay as they are, and these stores may go on to publish there.
    """
    app, target, own = standing.publisher.app, publication.target, standing.own
    if own <= standing.known.fold:
        return
    if standing.known.there:
        has_published(run.store, app, standing.target_id or "", own)
        return
    ours = {*ids_of(run.store.require(LEDGER))}
    is_shared = any(note.app.partition("/")[0] not in ours for note in target.notes())
    meeting = Meeting(publication.stream, target.uri, standing.target_id or "", app, own, "known before")
    meet(run.store, meeting, is_shared, run.clock())


def record(run: Run, publication: Publication, standing: Standing, fold: int) -> None:
    """Record that a target has taken a fold in; for the first fold also the id of the target."""
    app, target = standing.publisher.app, publication.target
    target_id = target.target_id() if standing.target_id is None else standing.target_id
    if known_of(run.store, app, target_id or "").there:
        has_published(run.store, app, target_id or "", fold)
    else:
        meeting = Meeting(publication.stream, target.uri, target_id or "", app, fold, "first")
        meet(run.store, meeting, standing.known.is_shared, run.clock())


def published_through(topology: Topology, journal: Journal) -> int:
    """The newest fold up to which every publisher has published all that was acked."""
    if journal.fold is None:
        return 0
    publications = topology.publications.values()
    return min(
        (published_upto(topology, journal, each) for each in publications), default=journal.fold.number
    )


def published_upto(topology: Topology, journal: Journal, publication: Publication) -> int:
    """The newest fold up to which a target has all tuples that there are for it.

    The target's own position is an earlier fold where no message that was acked since has a tuple for it.
    """
    if journal.fold is None:
        return 0
    newest = journal.fold.number
    if journal.open(stream(publication.stream)) is None:
        return newest  # it has emitted nothing yet
    waiting = waiting_folds(topology, journal, publication)
    return waiting[0].fold - 1 if waiting else newest


def former_streams(topology: Topology, journal: Journal, target: Target) -> dict[str, int]:
    """Component that fed a target before, as one that was renamed -> the newest fold that it published."""
    others = [name for name in journal.components() if name not in topology.publications]
    ledger = journal.require(LEDGER)
    positions = {name: position_of(target, Publisher.of(ledger, name)) for name in others}
    return {name: position for name, position in positions.items() if position}


def waiting_folds(topology: Topology, journal: Journal, publication: Publication) -> list[Acked]:
    """The folds with something to publish that a target does not hold, as far as the store knows."""
    assert journal.fold is not None
    standing = standing_of(journal, publication.target.pinned(), publication.stream)
    position = min(standing.fold, standing.known.fold)
    return acked_folds(topology, journal, publication.stream, position, journal.fold.number)


def acked_folds(topology: Topology, journal: Journal, name: str, after: int, upto: int) -> list[Acked]:
    """Folds in (after, upto] that have something to publish of a stream.

    Of the folds that have nothing each `MOST_PASSED_OVER`th is among them, so that a target does not stay
    behind without end.
    """
    folds = _all_acked(topology, journal, name, after, upto)
    full = {each.fold for each in folds if each.replaced or each.untracked or each.reads_refusals}
    left = [each for each in folds if each.fold not in full]
    batches = caused(journal, name, [emission for each in left for emission in each.emissions])
    full |= folds_with_tuples(journal, name, batches, [each.fold for each in left])
    found, passed_over = [], 0
    for each in folds:
        passed_over = 0 if each.fold in full else passed_over + 1
        if not passed_over % MOST_PASSED_OVER:
            found.append(each)
    return found


def _all_acked(topology: Topology, journal: Journal, name: str, after: int, upto: int) -> list[Acked]:
    """Folds in (after, upto] that may have something to publish of a stream.

    Such a fold acked messages, was the first to see untracked tuples of the stream, or was the first to read
    some refusals.
    """
    if after >= upto:
        return []
    rows = acked_batches(journal.require(LEDGER), after, upto)
    others = _untracked_batches(topology, journal, name, after, upto)
    read = read_by_fold(journal.require(LEDGER), after, upto) if last_refusal(recorded(journal)) else {}
    refused = {fold for fold, (first, last) in read.items() if first < last}
    found = []
    for fold in sorted({row["fold"] for row in rows} | set(others) | refused):
        mine = [row for row in rows if row["fold"] == fold]
        new, old = ([(r["spout"], r["batch"]) for r in mine if r["old"] is kind] for kind in (False, True))
        found.append(Acked(fold, new, old, others.get(fold, []), read.get(fold, (0, 0))))
    return found


def _untracked_batches(
    topology: Topology, journal: Journal, name: str, after: int, upto: int
) -> dict[int, list[int]]:
    """Fold in (after, upto] -> the batches of a stream that it saw first, and that have untracked tuples."""
    if not topology.may_be_untracked(name) or journal.open(stream(name)) is None:
        return {}
    folds = logged_by_fold(journal.require(LEDGER), after, upto)
    logged = {fold: batches.get(component_of(name), 0) for fold, batches in folds.items()}
    newest = logged.pop(after, 0)
    there = untracked(journal, name, newest, max(logged.values(), default=0))
    found: dict[int, list[int]] = {}
    for fold, number in logged.items():
        batches = sorted(batch for batch in there if newest < batch <= number)
        if batches:
            found[fold] = batches
        newest = number
    return found


def _changes(run: Run, journal: Journal, publication: Publication, acked: Acked) -> Changes:
    """The changes that a fold brings to a target, as frames that are not computed yet."""
    name = publication.stream
    mine = acked_in(acked.fold)
    ledger = journal.require(LEDGER)
    settled = read_files(run.spark, ledger, files_of(ledger, mine)).where(mine)
    own = refused_by(recorded(journal), name)
    batches = caused(journal, name, acked.emissions)
    added = _of_roots(run, journal, name, batches, _without(_roots(settled, F.col("root_id")), own))
    if acked.untracked:
        added = added.unionByName(_of_no_message(run, journal, name, acked.untracked))
    target = publication.target
    is_by_root = not (target.takes_back or target.only_adds or target.irreversible())
    never_in = own.clear() if is_by_root else own
    old, emissions = _leaving(run, journal, acked, settled, own, never_in)
    replaced = None
    if old is not None and target.takes_back:
        replaced = _of_roots(run, journal, name, caused(journal, name, emissions), old)
    position = ("spout", "source_partition", "source_offset", "attempt")
    return Changes(
        publisher=Publisher.of(ledger, name),
        fold=acked.fold,
        added=added,
        is_small=_is_small(Rows.of(journal, name, [*batches, *acked.untracked])),
        messages=settled.select(F.col("root_id").alias("_root_id"), *position),
        replaced_roots=old,
        replaced=replaced,
    )


def _leaving(
    run: Run,
    journal: Journal,
    acked: Acked,
    settled: DataFrame,
    own: pl.DataFrame,
    never_in: pl.DataFrame,
) -> tuple[DataFrame | None, list[tuple[str, int]]]:
    """The roots whose tuples leave a table with a fold, each once, and the (spout, batch) that emitted them.

    Args:
        settled: the rows of the roots that the fold acked.
        own: roots that the table has refused.
        never_in: roots of `own` that were never in the table. So they do not leave it when a fold reads their
            refusal. It is empty for a table whose rows leave by their root: once the rule was gone, another
            publisher may have brought in the rows that the first could not.

    Returns:
        The roots, or None where none leave; and the pairs.
    """
    refused, (first, last) = recorded(journal), acked.refusals
    old = None
    if acked.replaced:
        old = _roots(settled.where(F.col("replaces").isNotNull()), F.col("replaces"))
        old = _without(old, pl.concat([own, refusals(refused, 0, first).select("root_id")]))
    if first == last:
        return old, acked.replaced
    given_up = leaving(journal.require(LEDGER), refused, acked.fold, acked.refusals)
    given_up = given_up.join(never_in, on="root_id", how="anti")
    if given_up.is_empty():
        return old, acked.replaced
    emissions = {*acked.replaced, *given_up.select("spout", "batch").unique().rows()}
    roots = _frame(run.spark, given_up)
    return roots if old is None else old.union(roots).distinct(), sorted(emissions)


def _without(roots: DataFrame, others: pl.DataFrame) -> DataFrame:
    """The roots, without some others (`root_id`)."""
    if others.is_empty():
        return roots
    return roots.join(_frame(roots.sparkSession, others), "_root_id", "left_anti")


def _frame(spark: SparkSession, roots: pl.DataFrame) -> DataFrame:
    return spark.createDataFrame(roots.select(_root_id="root_id").to_arrow())


def _is_small(rows: Rows) -> bool:
    return rows.size <= SMALL_BYTES and rows.most is not None and rows.most <= SMALL_ROWS


def _roots(rows: DataFrame, root: Column) -> DataFrame:
    return rows.select(root.alias("_root_id"))


def caused(journal: Journal, name: str, emissions: list[tuple[str, int]]) -> list[int]:
    """The batches of a stream that can have tuples caused by some batches of spouts.

    Args:
        emissions: the batches of spouts, as (spout, batch).

    Raises:
        StoreError: a batch has another number of rows than when it was logged, or the journal was put back.
    """
    component = component_of(name)
    batches = downstream_batches(journal, emissions).get(component, [])
    check_missing(journal, component, batches)
    return batches


def _of_roots(run: Run, journal: Journal, name: str, batches: list[int], roots: DataFrame) -> DataFrame:
    """The tuples of some batches of a stream that belong to some roots."""
    return _published_columns(run, journal, name, batches).join(roots, "_root_id", "left_semi")


def _of_no_message(run: Run, journal: Journal, name: str, batches: list[int]) -> DataFrame:
    """The untracked tuples of some batches of a stream."""
    check_missing(journal, component_of(name), batches)
    return _published_columns(run, journal, name, batches).where("_root_id IS NULL")


def _published_columns(run: Run, journal: Journal, name: str, batches: list[int]) -> DataFrame:
    found = tuples(run.spark, journal, name, batches)
    columns = columns_of(run.topology.components, found, name)
    return found.select("_root_id", *map(sql_name, columns))
