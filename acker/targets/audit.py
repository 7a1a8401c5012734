"""The audit of published Delta tables: the tuples of exactly one acked attempt of each message.

What is missing is lost, what nobody acked is unexpected, and what is there twice is duplicated. It runs
without Spark, and in passes, each of which holds some of the roots, so that its memory has a bound.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl
from deltalake import DeltaTable

from acker.core.audit import Finding
from acker.core.delta import files_of, query, query_table
from acker.core.events import State
from acker.core.ledger import settled_in
from acker.core.messages import MESSAGE, message_name
from acker.core.parquet import collect
from acker.core.schemas import LEDGER, component_of, stream
from acker.core.snapshot import Snapshot
from acker.core.streams import all_tuples
from acker.core.trims import Trim
from acker.targets.base import Evidence, Findings
from acker.targets.by_key import COUNT, ByKey, rows_kept, rows_published

ROOTS_OF_A_PASS = 1_000_000
_WANTED = " as acked"  # ends the names of columns with what a row should hold


@dataclass(frozen=True)
class _Pass:
    """One pass of several: the roots whose ids leave `number` when they are divided by `count`."""

    number: int
    count: int

    def of(self, rows: pl.LazyFrame, column: str) -> pl.LazyFrame:
        """The rows of its roots."""
        return rows.filter(pl.col(column) % self.count == self.number)

    def condition(self, column: str) -> str:
        """The same in SQL, where a remainder has the sign of what is divided."""
        return f"(({column} % {self.count}) + {self.count}) % {self.count} = {self.number}"


class _Acked:
    """The acked roots, each with its tuples.

    Args:
        streams: the tables that hold, or held, its tuples, by the names of their streams.
        position: the newest fold that counts.
        every_attempt: whether a message has all its acked attempts, and not the newest one alone.
    """

    def __init__(
        self,
        ledger: DeltaTable,
        streams: Mapping[str, DeltaTable],
        position: int,
        every_attempt: bool = False,
    ) -> None:
        is_acked = pl.col("state") == State.ACKED
        rows = settled_in(ledger, position).filter(is_acked).select("root_id", *MESSAGE, "attempt", "batch")
        self.earlier = pl.DataFrame(schema={"root_id": pl.Int64}) if every_attempt else _earlier(rows)
        self._rows = rows.join(self.earlier.lazy(), on="root_id", how="anti")
        self._streams = streams
        tuples = [all_tuples(each, table).select("_root_id") for each, table in streams.items()]
        self._tuples = pl.concat(tuples).drop_nulls()

    def passes(self) -> Iterator[tuple[_Pass, pl.DataFrame]]:
        """For each pass its roots: root_id, spout, source_partition, source_offset, batch, tuples."""
        for each in self._passes():
            tuples = (
                each.of(self._tuples, "_root_id").group_by("_root_id").agg(tuples=pl.len().cast(pl.Int64))
            )
            found = each.of(self._rows, "root_id").join(
                tuples, left_on="root_id", right_on="_root_id", how="left"
            )
            yield each, collect(found.with_columns(pl.col("tuples").fill_null(0)), self._files)

    def _passes(self) -> list[_Pass]:
        roots: int = collect(self._rows.select(pl.len())).item()
        count = max(1, -(-roots // ROOTS_OF_A_PASS))
        return [_Pass(number, count) for number in range(count)]

    def _files(self) -> Iterator[str]:
        return (file for table in self._streams.values() for file in files_of(table))

    def count(self, *conditions: pl.Expr) -> int:
        """The tuples of roots that fulfil all conditions."""
        return sum(int(roots.filter(*conditions)["tuples"].sum()) for _, roots in self.passes())

    def by_key(self, by: ByKey, types: Mapping[str, pl.Schema], *conditions: pl.Expr) -> list[pl.DataFrame]:
        """Rows of an aggregate over the tuples of roots that fulfil all conditions, by pass and stream.

        Args:
            types: of the columns that the aggregate needs, by stream.
        """
        rows = self._rows.filter(*conditions).select(_root_id="root_id")
        found = []
        for each in self._passes():
            roots = collect(each.of(rows, "_root_id"), self._files).lazy()
            for name, table in self._streams.items():
                tuples = all_tuples(name, table, types[name]).join(roots, on="_root_id", how="semi")
                found.append(collect(by.over(tuples, types[name]), self._files))
        return found


def _earlier(acked: pl.LazyFrame) -> pl.DataFrame:
    """Of acked attempts those whose message was acked again later. Few messages were."""
    again = collect(acked.filter(pl.col("attempt") > 1).select(MESSAGE).unique()).lazy()
    attempts = collect(acked.join(again, on=MESSAGE, how="semi"))
    return attempts.filter(pl.col("attempt") < pl.col("attempt").max().over(MESSAGE))


def _is_gone(trim: Trim) -> pl.Expr:
    return pl.sql_expr(trim.is_gone())


def acked_tuples(snapshot: Snapshot, name: str, before: Trim, after: Trim, every_attempt: bool) -> int:
    """How many tuples of a stream belong to acked messages that go with the second trimming."""
    assert snapshot.fold is not None
    streams = {name: snapshot.require(stream(name))}
    acked = _Acked(snapshot.require(LEDGER), streams, snapshot.fold.number, every_attempt)
    return acked.count(~_is_gone(before), _is_gone(after))


def _acked(evidence: Evidence, every_attempt: bool = False) -> _Acked:
    return _Acked(evidence.ledger, evidence.streams, evidence.position, every_attempt)


def _unpublished(evidence: Evidence, trim: Trim) -> Findings:
    """What is missing where there is no table yet."""
    return {
        "lost": [
            Finding(message_name(row), "acked, but nothing is published")
            for _, roots in _acked(evidence).passes()
            for row in roots.filter(~_is_gone(trim), pl.col("tuples") > 0).iter_rows(named=True)
        ]
    }


def audit_rows(evidence: Evidence, table: DeltaTable | None) -> Findings:
    """Compare the rows of a table, by their column `_root_id`, with the tuples of acked roots."""
    if table is None:
        return _unpublished(evidence, evidence.trim)
    findings: dict[str, list[Finding]] = {"lost": [], "unexpected": [], "duplicated": []}
    acked = _acked(evidence)
    for each, roots in acked.passes():
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
        differs = is_acked & ~_is_gone(evidence.trim) & (pl.col("found") != pl.col("tuples"))
        others = (
            both.filter(~is_acked).select("root_id", "found").join(acked.earlier, on="root_id", how="left")
        )
        for row in both.filter(differs).iter_rows(named=True):
            kind = "duplicated" if row["found"] > row["tuples"] else "lost"
            counts = f"{row['found']} of {row['tuples']} rows in {table.table_uri}"
            findings[kind].append(Finding(message_name(row), counts))
        for row in others.iter_rows(named=True):
            kind, finding = _unacked(row, table.table_uri)
            findings[kind].append(finding)
    return findings


def _unacked(row: dict[str, Any], where: str) -> tuple[str, Finding]:
    """What is wrong with a published root that is no message's newest acked attempt."""
    if row["spout"] is None:
        why = f"{row['found']} rows in {where} that no acked root vouches for"
        return "unexpected", Finding(f"root {row['root_id']}", why)
    return "duplicated", Finding(message_name(row), f"an earlier attempt is still in {where}")


def audit_counts(evidence: Evidence, table: DeltaTable | None, counted: str) -> Findings:
    """Compare how many tuples the rows of a table stand for with how many were acked.

    Args:
        counted: the column with the number of a row's tuples.
    """
    if table is None:
        return _unpublished(evidence, evidence.counted)
    (row,) = query(f"SELECT coalesce(sum({counted}), 0) AS found FROM published", published=table)
    return _compared(
        tuples_due(evidence, every_attempt=False), int(row["found"]), table.table_uri, "aggregates"
    )


def audit_sent(evidence: Evidence, where: str, found: int) -> Findings:
    """Compare how many tuples went to a target that keeps all of them with how many were acked."""
    return _compared(tuples_due(evidence, every_attempt=True), found, where, "took in")


def audit_by_key(evidence: Evidence, table: DeltaTable | None, by: ByKey) -> Findings:
    """Compare each row of a running aggregate with what the acked tuples of its key make.

    Where that cannot be known, as of tuples that an older version has trimmed, the number of all tuples is.
    """
    if table is None:
        return _unpublished(evidence, evidence.counted)
    found, made = rows_published(table, by), _made(evidence, by)
    if found is None or made is None:
        return audit_counts(evidence, table, COUNT)
    wanted = made.filter(pl.col(COUNT) > 0).cast({name: found.schema[name] for name in by.columns})
    both = found.join(wanted, on=by.keys, how="full", coalesce=True, nulls_equal=True, suffix=_WANTED)
    values = [*by.recomputed, COUNT]
    same = [pl.col(name).eq_missing(pl.col(f"{name}{_WANTED}")) for name in values]
    findings: dict[str, list[Finding]] = {"lost": [], "unexpected": [], "duplicated": []}
    for row in both.filter(~pl.all_horizontal(same)).sort(by.keys).iter_rows(named=True):
        there, acked = row[COUNT] or 0, row[f"{COUNT}{_WANTED}"] or 0
        kind = "lost" if there < acked else "duplicated" if there > acked > 0 else "unexpected"
        differ = [name for name in values if row[name] != row[f"{name}{_WANTED}"]]
        told = ", ".join(f"{name} is {row[name]} instead of {row[f'{name}{_WANTED}']}" for name in differ)
        key = ", ".join(f"{name}={row[name]}" for name in by.keys)
        findings[kind].append(Finding(f"{table.table_uri} {key}", told))
    return findings


def _made(evidence: Evidence, by: ByKey) -> pl.DataFrame | None:
    """The rows that acked and untracked tuples make, what is trimmed included; None where nobody knows."""
    types = {name: found for name, table in evidence.streams.items() if (found := by.types_in(table))}
    gone = evidence.counted.tuples or {}
    kept = {name: rows_kept(table, by, evidence.counted.number) for name, table in evidence.kept.items()}
    sums = {name: 0 if rows is None else int(rows[COUNT].sum()) for name, rows in kept.items()}
    if any(name not in types or gone.get(name, 0) != sums.get(name, 0) for name in evidence.streams):
        return None
    name, table = evidence.stream, evidence.streams[evidence.stream]
    untracked = all_tuples(name, table, types[name]).filter(_is_untracked(evidence))
    acked = _acked(evidence).by_key(by, types, ~_is_gone(evidence.counted))
    rows = [collect(by.over(untracked, types[name]), lambda: files_of(table)), *acked]
    return by.together([*(each for each in kept.values() if each is not None), *rows])


def gone_by_key(
    snapshot: Snapshot, name: str, by: ByKey, before: Trim, after: Trim, batches: Sequence[int]
) -> pl.DataFrame | None:
    """What tuples of a stream make that go with the second trimming; None where nobody knows.

    Args:
        batches: of the stream, whose untracked tuples go.
    """
    assert snapshot.fold is not None
    table = snapshot.require(stream(name))
    types = by.types_in(table)
    if types is None:
        return None
    acked = _Acked(snapshot.require(LEDGER), {name: table}, snapshot.fold.number)
    is_untracked = pl.col("_root_id").is_null() & pl.col("_batch").is_in(list(batches))
    untracked = all_tuples(name, table, types).filter(is_untracked)
    rows = acked.by_key(by, {name: types}, ~_is_gone(before), _is_gone(after))
    return by.together([collect(by.over(untracked, types), lambda: files_of(table)), *rows])


def tuples_due(evidence: Evidence, every_attempt: bool) -> int:
    """How many tuples were acked, what is trimmed and what belongs to no message included."""
    assert evidence.counted.tuples is not None
    gone = sum(evidence.counted.tuples.get(name, 0) for name in evidence.streams)
    table = evidence.streams[evidence.stream]
    tuples = all_tuples(evidence.stream, table).filter(_is_untracked(evidence))
    untracked: int = collect(tuples.select(pl.len()), lambda: files_of(table)).item()
    return gone + untracked + _acked(evidence, every_attempt).count(~_is_gone(evidence.counted))


def _is_untracked(evidence: Evidence) -> pl.Expr:
    """Of the tuples of a stream those of no message that a fold has seen and that no trimming has counted."""
    gone = evidence.counted.upto.get(component_of(evidence.stream), 0)
    return pl.col("_root_id").is_null() & (pl.col("_batch") > gone) & (pl.col("_batch") <= evidence.folded)


def _compared(acked: int, found: int, where: str, verb: str) -> Findings:
    if acked == found:
        return {}
    finding = Finding(where, f"{verb} {found} tuples, but {acked} were acked")
    return {"duplicated" if found > acked else "lost": [finding]}
