"""Overdue messages: acked long ago and not published yet, by stream, with the publisher's last error.

Folds that have nothing for a target do not count, although the target has not passed over them yet.
"""

from datetime import datetime

import polars as pl

from acker.batches.holds import unpublished_since
from acker.core.events import State
from acker.core.snapshot.journal import Journal
from acker.core.snapshot.ledger import read_fold, settled_in
from acker.core.snapshot.refusals import leaving, recorded, refusals, refused_by
from acker.core.snapshot.settled import acked_roots, newest_before
from acker.core.snapshot.verdict import Overdue
from acker.core.store.parquet import collect
from acker.core.store.schemas import LEDGER
from acker.operations.contents import roots_with_tuples
from acker.operations.publish import Acked, caused, waiting_folds
from acker.topology.topology import Publication, Topology

_ROOTS = pl.Schema({"fold": pl.Int64, "_root_id": pl.Int64})


def overdue_of(
    topology: Topology, journal: Journal, publication: Publication, before: datetime
) -> Overdue | None:
    """The overdue messages and untracked tuples of a target; None where there are none.

    The target should have taken them in, or given them up, with the folds before a time. Messages that the
    target refused before that time are overdue until a fold has read the refusal.

    Args:
        before: the time.
    """
    name = publication.stream
    newest = newest_before(journal.require(LEDGER), before)
    folds = [each for each in waiting_folds(topology, journal, publication) if each.fold <= newest]
    roots = pl.concat([_roots(journal, name, folds), _unread(journal, name, before)])
    first = [*roots["fold"], *(each.fold for each in folds if each.untracked)]
    if not first:
        return None
    noted = unpublished_since(journal, name, folds[0].fold) if folds else None
    return Overdue(
        to=publication.target.uri,
        messages=roots["_root_id"].n_unique(),
        untracked=any(each.untracked for each in folds),
        fold=min(first),
        since=_folded_at(journal, min(first)),
        tries=noted.tries if noted else 0,
        reason=noted.reason if noted else None,
    )


def _roots(journal: Journal, name: str, folds: list[Acked]) -> pl.DataFrame:
    """The roots (`fold`, `_root_id`) for which some folds bring tuples to a target or take tuples out of it.

    If only tuples of a replaced root leave, the root that replaces it counts. Roots that the target itself
    has refused are left out.
    """
    if not folds:
        return pl.DataFrame(schema=_ROOTS)
    emissions = [emission for each in folds for emission in each.emissions]
    acked = acked_roots(journal, folds[0].fold, folds[-1].fold)
    found = [_with_tuples(journal, name, emissions, acked)]
    for each in folds:
        if each.replaced:
            replacing = _replacing(journal, each.fold)
            old = _with_tuples(journal, name, each.replaced, replacing.select("fold", _root_id="replaces"))
            found.append(
                replacing.filter(pl.col("replaces").is_in(old["_root_id"].implode())).select(*_ROOTS)
            )
        if each.reads_refusals:
            given_up = leaving(journal.require(LEDGER), recorded(journal), each.fold, each.refusals)
            roots = given_up.select(pl.lit(each.fold).alias("fold"), _root_id="root_id")
            pairs = given_up.select("spout", "batch").unique().rows()
            found.append(_with_tuples(journal, name, pairs, roots.cast(_ROOTS)))
    own = refused_by(recorded(journal), name)
    return pl.concat(found).join(own, left_on="_root_id", right_on="root_id", how="anti")


def _with_tuples(
    journal: Journal, name: str, emissions: list[tuple[str, int]], roots: pl.DataFrame
) -> pl.DataFrame:
    return roots_with_tuples(journal, name, caused(journal, name, emissions), roots)


def _replacing(journal: Journal, fold: int) -> pl.DataFrame:
    """The roots that a fold acked in the place of others: `fold`, `_root_id`, `replaces`."""
    is_acked = (pl.col("fold") == fold) & (pl.col("state") == State.ACKED)
    rows = settled_in(journal.require(LEDGER), fold).filter(is_acked, pl.col("replaces").is_not_null())
    return collect(rows.select("fold", "replaces", _root_id="root_id"))


def _unread(journal: Journal, name: str, before: datetime) -> pl.DataFrame:
    """The roots (`fold`, `_root_id`) that a target refused before a time.

    Roots whose refusal the newest fold has read are left out.
    """
    read = journal.fold.refusals if journal.fold else 0
    rows = refusals(recorded(journal), read)
    mine = rows.filter(pl.col("stream") == name, pl.col("refused_at") < before)
    return mine.select("fold", _root_id="root_id")


def _folded_at(journal: Journal, fold: int) -> datetime:
    found = read_fold(journal.require(LEDGER), fold).folded_at
    assert found is not None  # by which it was chosen
    return found
