"""The audit of published Delta tables: the tuples of exactly one acked attempt of each message.

Tuples that are missing are lost, tuples that nobody acked are unexpected, and tuples that are there twice are
duplicated. The audit runs without Spark, and in passes, each of which holds some of the roots, so that its
memory has a bound. This module counts tuples; `by_content` and `made_anew` compare their contents.
"""

from collections.abc import Iterable

import polars as pl
from deltalake import DeltaTable

from acker.core.messages import message_name
from acker.core.snapshot.refusals import recorded, refused_roots
from acker.core.snapshot.snapshot import Snapshot
from acker.core.snapshot.streams import all_tuples
from acker.core.snapshot.trims import Trim
from acker.core.snapshot.verdict import Finding
from acker.core.store.parquet import collect
from acker.core.store.schemas import LEDGER, stream
from acker.core.store.tables import files_of, query, query_table
from acker.targets.acked import Acked, is_gone, unacked
from acker.targets.base import Evidence, Findings, Verdict

KINDS = ("lost", "unexpected", "duplicated")  # of findings
QUICK = "only numbers were asked for"
_NO_TABLE = "there is no table yet"
_NUMBERS = ("byte", "short", "integer", "long", "float", "double")


def acked_tuples(snapshot: Snapshot, name: str, before: Trim, after: Trim, every_attempt: bool) -> int:
    """How many tuples of acked messages a trimming deletes from a stream.

    Args:
        name: the stream.
        before: the trimming before. The tuples that it deleted do not count.
        after: the trimming that deletes the tuples.
        every_attempt: see `Acked`.
    """
    assert snapshot.fold is not None
    streams = {name: snapshot.require(stream(name))}
    refused = refused_roots(recorded(snapshot), [name], None if every_attempt else snapshot.fold)
    acked = Acked(snapshot.require(LEDGER), streams, snapshot.fold.number, every_attempt, refused)
    return acked.count(~is_gone(before), is_gone(after))


def unpublished(evidence: Evidence) -> Verdict:
    """The verdict where there is no table yet: all acked tuples are missing."""
    acked = Acked.of(evidence)
    lost = [
        Finding(message_name(row), "acked, but nothing is published")
        for _, roots in acked.with_tuples()
        for row in roots.filter(~is_gone(evidence.counted), pl.col("tuples") > 0).iter_rows(named=True)
    ]
    gone = acked.number(is_gone(evidence.counted))
    why = (f"{gone:,} trimmed messages: {_NO_TABLE}",) if gone else ()
    return Verdict({"lost": lost}, acked.number() - gone, 0, gone, why)


def fault_of_columns(table: DeltaTable, names: Iterable[str], own: str) -> str | None:
    """Why a table cannot be compared: it lacks a column, or `own` is no number; None where it can.

    Args:
        names: the columns that a comparison needs.
        own: the column that publishers add.
    """
    types = {field.name: field.type for field in table.schema().fields}
    missing = [name for name in names if name not in types]
    if missing:
        return f"has no {', '.join(missing)}, which was dropped or renamed"
    kind = types[own].type  # the name of a primitive type, or of another's kind
    return None if kind in _NUMBERS else f"has {own} as {kind}, and not as a number"


def incomparable(evidence: Evidence, table: DeltaTable, why: str) -> Verdict:
    """The verdict over a table whose columns are not as publishers made them."""
    acked = Acked.of(evidence).number()
    return Verdict({"unexpected": [Finding(table.table_uri, why)]}, 0, 0, acked, (f"the table {why}",))


def audit_rows(evidence: Evidence, table: DeltaTable | None, why: str) -> Verdict:
    """Compare how many rows a table has of each root, by their column `_root_id`, with how many were acked.

    Args:
        why: the reason why rows are not compared by what they say.
    """
    if table is None:
        return unpublished(evidence)
    findings: dict[str, list[Finding]] = {"lost": [], "unexpected": [], "duplicated": []}
    acked, gone = Acked.of(evidence), is_gone(evidence.counted)
    messages = by_count = 0
    for each, roots in acked.with_tuples():
        by_count += roots.filter(~gone).height
        messages += roots.height
        found = pl.DataFrame(
            query_table(
                "SELECT _root_id AS root_id, count(*) AS found FROM published "
                f"WHERE _root_id IS NOT NULL AND {each.condition('_root_id')} GROUP BY _root_id",
                published=table,
            )
        )
        both = roots.join(found, on="root_id", how="full", coalesce=True).with_columns(
            pl.col("found").fill_null(0)
        )
        is_acked = pl.col("tuples").is_not_null()
        differs = is_acked & ~gone & (pl.col("found") != pl.col("tuples"))
        others = (
            both.filter(~is_acked).select("root_id", "found").join(acked.earlier, on="root_id", how="left")
        )
        for row in both.filter(differs).iter_rows(named=True):
            kind = "duplicated" if row["found"] > row["tuples"] else "lost"
            counts = f"{row['found']} of {row['tuples']} rows in {table.table_uri}"
            findings[kind].append(Finding(message_name(row), counts))
        for row in others.iter_rows(named=True):
            kind, finding = unacked(row, table.table_uri)
            findings[kind].append(finding)
    return Verdict(findings, 0, by_count, messages - by_count, (why,))


def audit_counts(evidence: Evidence, table: DeltaTable | None, counted: str, why: str) -> Verdict:
    """Compare how many tuples the rows of a table stand for with how many were acked.

    Args:
        counted: the column with the number of a row's tuples.
        why: the reason why rows are not compared by key.
    """
    if table is None:
        return unpublished(evidence)
    (row,) = query(f"SELECT coalesce(sum({counted}), 0) AS found FROM published", published=table)
    acked = Acked.of(evidence)
    findings = _compared(tuples_due(evidence, acked), int(row["found"]), table.table_uri, "aggregates")
    return Verdict(findings, 0, acked.number(), 0, (why,))


def audit_sent(evidence: Evidence, where: str, found: int) -> Verdict:
    """Compare how many tuples went to a target that keeps those of all attempts with how many were acked.

    Args:
        where: the name of the target in a finding.
        found: how many tuples went to the target.
    """
    acked, messages = Acked.of(evidence, every_attempt=True), Acked.of(evidence).number()
    findings = _compared(tuples_due(evidence, acked), found, where, "took in")
    return Verdict(findings, 0, messages)


def tuples_due(evidence: Evidence, acked: Acked) -> int:
    """How many tuples were acked, with trimmed tuples and tuples of no message included."""
    assert evidence.counted.tuples is not None
    gone = sum(evidence.counted.tuples.get(name, 0) for name in evidence.streams)
    untracked = pl.concat([untracked_in(evidence, name).select(pl.len()) for name in evidence.streams])
    files = (file for table in evidence.streams.values() for file in files_of(table))
    others = int(collect(untracked.sum(), lambda: files).item())
    return gone + others + acked.count(~is_gone(evidence.counted))


def untracked_in(evidence: Evidence, name: str, users: pl.Schema | None = None) -> pl.LazyFrame:
    """The tuples of no message in a stream that a target should hold and that no trimming has counted.

    Args:
        users: see `all_tuples`.
    """
    tuples = all_tuples(name, evidence.streams[name], users)
    return tuples.filter(pl.col("_root_id").is_null(), pl.sql_expr(evidence.batches_of(name)))


def _compared(acked: int, found: int, where: str, verb: str) -> Findings:
    if acked == found:
        return {}
    finding = Finding(where, f"{verb} {found} tuples, but {acked} were acked")
    return {"duplicated" if found > acked else "lost": [finding]}
