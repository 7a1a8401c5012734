"""Records of published rows whose tuples were trimmed, made before a publish takes the rows out of the table.

Such a publish brings new attempts of the rows' messages. The published rows are all that is left of the
earlier attempts. While the table still has these rows, the kept sums of their fold are compared with the sums
of the table. If they differ, nobody can tell any more which sums the rest of the fold should have.
"""

from collections.abc import Sequence

import polars as pl

from acker.core.events import State
from acker.core.snapshot.journal import Journal
from acker.core.snapshot.kept import GONE, Kept, has_taken, kept_rows, take_rows
from acker.core.snapshot.ledger import settled_in
from acker.core.snapshot.trims import Trim, counted_trim
from acker.core.store.parquet import collect
from acker.core.store.schemas import LEDGER, stream
from acker.targets.acked import Acked, is_gone
from acker.targets.base import Target
from acker.targets.by_content import sums_of_folds, sums_of_table


def note_taken(journal: Journal, name: str, former: Sequence[str], target: Target, fold: int) -> None:
    """Note the trimmed rows of a table that the replays of a fold are about to take back.

    Args:
        name: the name of the stream that is published.
        former: streams that fed the table before.
    """
    if not target.has_roots or has_taken(journal.store, [name, *former], fold):
        return
    counted = counted_trim(journal.store)
    kept = kept_rows(journal.store, [name, *former], counted, fold - 1)
    old = _replaced(journal, fold, counted, kept)
    table = target.delta_table()
    if old.is_empty() or table is None:
        return
    acked = Acked(journal.require(LEDGER), {}, fold - 1)
    touched = pl.col("fold").is_in(old["fold"].unique().implode()), is_gone(counted), ~is_gone(kept.since)
    streams = [journal.require(stream(each)) for each in (name, *former)]
    taken, there = [pl.DataFrame(schema=GONE)], [pl.DataFrame(schema=GONE)]
    for roots in sums_of_table(table, streams, acked, *touched):
        there.append(sums_of_folds(roots))
        taken.append(sums_of_folds(roots.join(old, on="root_id", how="semi")))
    found = _together(there).join(_known(kept), on="fold", how="left", suffix="_kept")
    is_sound = pl.all_horizontal(pl.col(each) == pl.col(f"{each}_kept").fill_null(0) for each in _SUMS)
    sound = found.filter(is_sound).select("fold", sound=pl.lit(True))
    rows = _together(taken).join(sound, on="fold", how="left")
    digest = pl.when("sound").then("digest")
    take_rows(journal.store, name, rows.with_columns(digest=digest).drop("sound"), counted.number, fold)


_SUMS = ("rows", "digest")


def _replaced(journal: Journal, fold: int, counted: Trim, kept: Kept) -> pl.DataFrame:
    """The trimmed attempts that attempts acked by a fold replace: `root_id`, `fold`."""
    acked = settled_in(journal.require(LEDGER), fold).filter(pl.col("state") == State.ACKED)
    new = acked.filter(pl.col("fold") == fold).select(root_id="replaces").drop_nulls()
    goes = is_gone(counted), ~is_gone(kept.since)
    return collect(acked.filter(*goes).join(new, on="root_id", how="semi").select("root_id", "fold"))


def _together(rows: list[pl.DataFrame]) -> pl.DataFrame:
    return pl.concat(rows).group_by("fold").agg(pl.exclude("fold").sum())


def _known(kept: Kept) -> pl.DataFrame:
    """The sums that the trimmed rows of each fold should have: columns fold, rows and digest.

    A fold is left out if the digest of some of its trimmed rows is not known.
    """
    sums = [pl.col(name).sum() for name in _SUMS]
    folds = kept.rows.group_by("fold").agg(*sums, untold=pl.col("digest").has_nulls())
    return folds.filter(~pl.col("untold")).drop("untold")
