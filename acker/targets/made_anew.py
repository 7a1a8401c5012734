"""The audit of running aggregates: each row is made anew from the tuples of its key, and compared.

Keys are told from each other by their digests, so they may be of any type.
"""

from collections.abc import Sequence
from functools import partial

import polars as pl
from deltalake import DeltaTable

from acker.core.digests import frame_digests, value_digests
from acker.core.snapshot.refusals import recorded, refused_roots
from acker.core.snapshot.snapshot import Snapshot
from acker.core.snapshot.streams import all_tuples
from acker.core.snapshot.trims import Trim
from acker.core.snapshot.verdict import Finding
from acker.core.store.parquet import collect
from acker.core.store.schemas import LEDGER, stream
from acker.core.store.tables import files_of
from acker.targets.acked import Acked, is_gone
from acker.targets.audit import QUICK, audit_counts, fault_of_columns, incomparable, unpublished, untracked_in
from acker.targets.base import Evidence, Findings, Verdict
from acker.targets.by_key import COUNT, KEY, ByKey, rows_kept, rows_published

_WANTED = " as acked"  # ends the names of columns with what a row should hold


def audit_by_key(evidence: Evidence, table: DeltaTable | None, by: ByKey) -> Verdict:
    """Compare each row of a running aggregate with the row that the acked tuples of its key make.

    Only the number of all tuples is compared in three cases: contents were not asked for, the streams'
    columns cannot make the rows, or an older version has trimmed tuples and kept no sums.
    """
    if table is None:
        return unpublished(evidence)
    acked = Acked.of(evidence).number()
    why = fault_of_columns(table, [*by.keys, *by.aggregates, COUNT], COUNT)
    if why is not None:
        return incomparable(evidence, table, why)
    if not evidence.contents:
        return audit_counts(evidence, table, COUNT, QUICK)
    fit = by.that_can_be_made(evidence.streams.values())
    if isinstance(fit, str):
        return audit_counts(evidence, table, COUNT, fit)
    made = _made(evidence, fit)
    if made is None:
        return audit_counts(evidence, table, COUNT, "what an older version has trimmed is not kept by key")
    findings = _compared(table.table_uri, fit, rows_published(table, fit), made)
    left = [name for name in by.aggregates if name not in fit.aggregates]
    if left:
        return Verdict(findings, 0, acked, 0, (f"{', '.join(left)}, which cannot be made anew",))
    return Verdict(findings, acked)


def _compared(uri: str, by: ByKey, found: pl.DataFrame, made: pl.DataFrame) -> Findings:
    """The findings on the rows of a table, of which each key should have one."""
    values = [*by.recomputed, COUNT]
    found, wanted = (_with_digests(each, by, values) for each in (found, made.filter(pl.col(COUNT) > 0)))
    findings: dict[str, list[Finding]] = {"lost": [], "unexpected": [], "duplicated": []}
    for row in found.filter(pl.col(KEY).is_duplicated()).unique(KEY).sort(KEY).iter_rows(named=True):
        rows = found.filter(pl.col(KEY) == row[KEY]).height
        findings["duplicated"].append(Finding(f"{uri} {by.name_of(row)}", f"{rows} rows of one key"))
    both = found.unique(KEY).join(wanted, on=KEY, how="full", coalesce=True, suffix=_WANTED)
    same = [pl.col(_digest(name)).eq_missing(pl.col(f"{_digest(name)}{_WANTED}")) for name in values]
    for row in both.filter(~pl.all_horizontal(same)).sort(KEY).iter_rows(named=True):
        there, acked = row[COUNT] or 0, row[f"{COUNT}{_WANTED}"] or 0
        kind = "lost" if there < acked else "duplicated" if there > acked > 0 else "unexpected"
        differ = [name for name in values if row[_digest(name)] != row[f"{_digest(name)}{_WANTED}"]]
        told = ", ".join(f"{name} is {row[name]} instead of {row[f'{name}{_WANTED}']}" for name in differ)
        ended = "" if row[COUNT] is not None else _WANTED
        findings[kind].append(Finding(f"{uri} {by.name_of(row, ended)}", told))
    return findings


def _digest(name: str) -> str:
    return f"digest of {name}"


def _with_digests(rows: pl.DataFrame, by: ByKey, values: Sequence[str]) -> pl.DataFrame:
    """Rows with the digests of their keys, and of each value."""
    each = rows.rechunk().to_arrow(compat_level=pl.CompatLevel.oldest())
    digests = {_digest(name): value_digests(each[name].combine_chunks()) for name in values}
    return rows.with_columns(pl.Series(KEY, frame_digests(rows, by.keys)), **digests)


def _made(evidence: Evidence, by: ByKey) -> pl.DataFrame | None:
    """The rows that acked and untracked tuples make, trimmed tuples included, one row per key.

    Returns:
        The rows; None where the kept sums lack trimmed tuples.
    """
    gone = evidence.counted.tuples or {}
    kept = {name: rows_kept(table, by, evidence.counted.number) for name, table in evidence.kept.items()}
    sums = {name: 0 if rows is None else int(rows[COUNT].sum()) for name, rows in kept.items()}
    if any(gone.get(name, 0) != sums.get(name, 0) for name in evidence.streams):
        return None
    types = {name: by.types_in(table) for name, table in evidence.streams.items()}
    rows = Acked.of(evidence).by_key(by, types, ~is_gone(evidence.counted))
    for name, table in evidence.streams.items():
        untracked = by.over(untracked_in(evidence, name, types[name]), types[name])
        rows.append(collect(untracked, partial(files_of, table)))
    return by.together([*(each for each in kept.values() if each is not None), *rows])


def gone_by_key(
    snapshot: Snapshot, name: str, by: ByKey, before: Trim, after: Trim, batches: Sequence[int]
) -> pl.DataFrame | None:
    """The rows of a running aggregate over the tuples that a trimming deletes from a stream, one row per key.

    Args:
        name: the stream.
        by: the aggregate.
        before: the trimming before. The tuples that it deleted do not count.
        after: the trimming that deletes the tuples.
        batches: batches of the stream whose untracked tuples are deleted.

    Returns:
        The rows; None where the stream's tuples do not suffice to make them.
    """
    assert snapshot.fold is not None
    table = snapshot.require(stream(name))
    fit = by.that_can_be_made([table])
    if isinstance(fit, str):
        return None
    by, types = fit, fit.types_in(table)
    refused = refused_roots(recorded(snapshot), [name], snapshot.fold)
    acked = Acked(snapshot.require(LEDGER), {name: table}, snapshot.fold.number, refused=refused)
    is_untracked = pl.col("_root_id").is_null() & pl.col("_batch").is_in(list(batches))
    untracked = all_tuples(name, table, types).filter(is_untracked)
    rows = acked.by_key(by, {name: types}, ~is_gone(before), is_gone(after))
    return by.together([collect(by.over(untracked, types), lambda: files_of(table)), *rows])
