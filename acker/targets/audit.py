"""The audit of published Delta tables: the tuples of exactly one acked attempt of each message.

What is missing is lost, what nobody acked is unexpected, and what is there twice is duplicated. It runs
without Spark.
"""

from collections.abc import Mapping
from typing import Any

from deltalake import DeltaTable

from acker.core.audit import Finding
from acker.core.delta import query
from acker.core.messages import MessageId, message_name
from acker.core.schemas import LEDGER, is_tuple, stream
from acker.core.snapshot import Snapshot
from acker.core.trims import Trim
from acker.targets.base import Evidence, Findings


def _tuples(name: str, table: DeltaTable) -> str:
    """A SQL condition on the tuples of a stream."""
    return is_tuple(name, [field.name for field in table.schema().fields])


def _expected(
    trim: Trim, tuples: Mapping[str, str], position: int | None = None, every_attempt: bool = False
) -> str:
    """Common table expressions: `expected`, the newest acked attempt of each message, and `emitted`.

    Of what is `gone` the stream may hold nothing any more.

    Args:
        tuples: stream, as queries call it -> a condition on the rows that are meant.
        every_attempt: also the earlier acked ones.
    """
    published = "" if position is None else f"AND fold <= {position}"
    rows = " UNION ALL ".join(f"SELECT _root_id FROM {name} WHERE {those}" for name, those in tuples.items())
    return f"""expected AS (
        SELECT *, {trim.is_gone()} AS gone FROM (
            SELECT *, row_number() OVER (
                PARTITION BY spout, source_partition, source_offset ORDER BY attempt DESC) AS n
            FROM ledger WHERE live_in IS NULL AND state = 'acked' {published})
        WHERE n = 1 OR {every_attempt}),
        emitted AS (
            SELECT _root_id AS id, count(*) AS tuples FROM ({rows}) GROUP BY _root_id)"""


def acked_tuples(snapshot: Snapshot, name: str, before: Trim, after: Trim, every_attempt: bool) -> int:
    """How many tuples of a stream belong to acked messages that go with the second trimming."""
    table = snapshot.require(stream(name))
    (row,) = query(
        f"""WITH {_expected(before, {"stream": _tuples(name, table)}, every_attempt=every_attempt)}
        SELECT coalesce(sum(tuples), 0) AS tuples FROM expected JOIN emitted ON root_id = id
        WHERE NOT gone AND {after.is_gone()}""",
        ledger=snapshot.require(LEDGER),
        stream=table,
    )
    return int(row["tuples"])


def _tables(evidence: Evidence) -> dict[str, DeltaTable]:
    """The ledger and the streams by the names that queries give them; `stream` is the one that feeds now."""
    named = enumerate(evidence.streams.values())
    return {"ledger": evidence.ledger} | {f"stream_{n}" if n else "stream": table for n, table in named}


def _conditions(evidence: Evidence) -> dict[str, str]:
    """Stream, as queries call it -> a condition on its tuples."""
    tables = _tables(evidence).items()
    return {name: _tuples(evidence.stream, table) for name, table in tables if name != "ledger"}


def _unpublished(evidence: Evidence, expected: str) -> Findings:
    """What is missing where there is no table yet."""
    rows = query(
        f"WITH {expected} SELECT expected.* FROM expected JOIN emitted ON root_id = id WHERE NOT gone",
        **_tables(evidence),
    )
    return {"lost": [Finding(message_name(row), "acked, but nothing is published") for row in rows]}


def audit_rows(evidence: Evidence, table: DeltaTable | None) -> Findings:
    """Compare the rows of a table, by their column `_root_id`, with the tuples of acked roots."""
    expected = _expected(evidence.trim, _conditions(evidence), evidence.position)
    if table is None:
        return _unpublished(evidence, expected)
    rows = query(
        f"""WITH {expected},
        found AS (SELECT _root_id AS found_id, count(*) AS found FROM published
            WHERE _root_id IS NOT NULL GROUP BY _root_id),
        wanted AS (SELECT * FROM expected LEFT JOIN emitted ON root_id = id WHERE gone OR id IS NOT NULL)
        SELECT wanted.spout, wanted.source_partition, wanted.source_offset, found_id, tuples, found,
            old.spout AS old_spout, old.source_partition AS old_partition, old.source_offset AS old_offset
        FROM wanted FULL JOIN found ON root_id = found_id
        LEFT JOIN ledger old ON old.root_id = found_id AND old.state = 'acked' AND old.live_in IS NULL
            AND old.fold <= {evidence.position} AND wanted.root_id IS NULL
        WHERE wanted.root_id IS NULL OR (NOT gone AND (found_id IS NULL OR tuples <> found))""",
        published=table,
        **_tables(evidence),
    )
    return _judged(rows, table.table_uri)


def _judged(rows: list[dict[str, Any]], where: str) -> Findings:
    """What is wrong with the roots of a published table."""
    findings: dict[str, list[Finding]] = {"lost": [], "unexpected": [], "duplicated": []}
    for row in rows:
        if row["spout"] is None and row["old_spout"] is None:
            finding = Finding(
                f"root {row['found_id']}", f"{row['found']} rows in {where} that no acked root vouches for"
            )
            findings["unexpected"].append(finding)
        elif row["spout"] is None:
            old = MessageId(row["old_spout"], row["old_partition"], row["old_offset"])
            findings["duplicated"].append(Finding(str(old), f"an earlier attempt is still in {where}"))
        else:
            counts = f"{row['found'] or 0} of {row['tuples']} rows in {where}"
            kind = "duplicated" if (row["found"] or 0) > row["tuples"] else "lost"
            findings[kind].append(Finding(message_name(row), counts))
    return findings


def audit_counts(evidence: Evidence, table: DeltaTable | None, counted: str) -> Findings:
    """Compare how many tuples the rows of a table stand for with how many were acked.

    Args:
        counted: the column with the number of a row's tuples.
    """
    if table is None:
        expected = _expected(evidence.counted, _conditions(evidence), evidence.position)
        return _unpublished(evidence, expected)
    (row,) = query(f"SELECT coalesce(sum({counted}), 0) AS found FROM published", published=table)
    return _compared(_number(evidence, every_attempt=False), int(row["found"]), table.table_uri, "aggregates")


def audit_sent(evidence: Evidence, where: str, found: int) -> Findings:
    """Compare how many tuples went to a target that keeps all of them with how many were acked."""
    return _compared(_number(evidence, every_attempt=True), found, where, "took in")


def _number(evidence: Evidence, every_attempt: bool) -> int:
    """How many tuples were acked, what is trimmed and what belongs to no message included."""
    conditions = _conditions(evidence)
    expected = _expected(evidence.counted, conditions, evidence.position, every_attempt)
    untracked = f"{conditions['stream']} AND _root_id IS NULL AND _batch <= {evidence.folded}"
    assert evidence.counted.tuples is not None
    gone = sum(evidence.counted.tuples.get(name, 0) for name in evidence.streams)
    (row,) = query(
        f"""WITH {expected}
        SELECT {gone} + (SELECT count(*) FROM stream WHERE {untracked})
            + (SELECT coalesce(sum(tuples), 0) FROM expected JOIN emitted ON root_id = id WHERE NOT gone)
                AS tuples""",
        **_tables(evidence),
    )
    return int(row["tuples"])


def _compared(acked: int, found: int, where: str, verb: str) -> Findings:
    if acked == found:
        return {}
    finding = Finding(where, f"{verb} {found} tuples, but {acked} were acked")
    return {"duplicated" if found > acked else "lost": [finding]}
