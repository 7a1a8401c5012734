"""The verdict on a store, judged as Jepsen's total-queue checker judges a history, without Spark.

Every emitted message must be accounted for, and the published tables must hold the tuples of exactly
one acked attempt of every acked message: what is missing is lost, what nobody acked is unexpected,
what is there twice is duplicated, and what was acked after a failure is recovered.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from deltalake import DeltaTable

from acker.core.delta import Store, query
from acker.core.integrity import missing_rows, refuse_broken
from acker.core.ledger import NOW, fold_counts, newest_fold
from acker.core.schemas import EVENTS, LEDGER, component_of, of_stream, stream
from acker.core.trims import Trim, counted_trim, newest_trim


@dataclass(frozen=True)
class PublishedTable:
    """One published table and the stream that feeds it."""

    component: str  # or `component.stream`
    table: DeltaTable | None  # None where nothing was published yet
    stream: DeltaTable | None
    position: int  # the newest fold published
    folded: int = 0  # the newest batch of the component in that fold
    counted: str | None = None  # on a table of aggregates, its column of tuples per row
    former: Mapping[str, DeltaTable] = field(default_factory=dict)  # who fed it before -> the stream

    def streams(self) -> dict[str, DeltaTable]:
        """All that fed it, by a name for queries; the one that does now is `stream`."""
        assert self.stream is not None
        return {"stream": self.stream} | {f"stream_of_{name}": each for name, each in self.former.items()}


@dataclass(frozen=True)
class Finding:
    """A message, or a root that no message owns, with what is wrong with it."""

    message: str  # spout:partition:offset, or "root N"
    why: str


@dataclass(frozen=True)
class Audit:
    """Counts of messages, by the newest state of each, and the verdict."""

    emitted: int
    acked: int
    pending: int
    retrying: int
    dead_letter: int
    lost: int  # gone from the source, or acked and missing from a published table
    unexpected: int  # published or acked without proof
    duplicated: int  # published more than once
    recovered: int  # acked after a failed attempt
    unpublished: int  # acked in folds that some publisher has yet to publish
    late: int  # events that the newest fold found to be of settled attempts
    dead_letters: list[Finding] = field(default_factory=list)
    findings: dict[str, list[Finding]] = field(default_factory=dict)  # lost, unexpected, duplicated

    @property
    def passed(self) -> bool:
        """Whether nothing is lost, unexpected or duplicated."""
        return not (self.lost or self.unexpected or self.duplicated)

    @property
    def verdict(self) -> str:
        """Pass or fail."""
        return "pass" if self.passed else "fail"


def audit(
    store: Store, spouts: Collection[str], published: Sequence[PublishedTable], components: Collection[str]
) -> Audit:
    """Audit a store.

    Args:
        components: all that ever planned a batch.

    Raises:
        StoreError: the store has no ledger yet, cannot be read, or does not hold what was committed to it.
    """
    fold = newest_fold(store)
    refuse_broken(store, fold, components)
    ledger = store.require(LEDGER, fold.ledger_version if fold else None)
    number = fold.number if fold else 0
    counts = _message_counts(ledger, number)
    unfolded = _unfolded(store, spouts, fold.logged if fold else {})
    given_up = _given_up(ledger, number)
    findings: dict[str, list[Finding]] = {
        "lost": given_up["lost"],
        "unexpected": _unproven(ledger),
        "duplicated": [],
    }
    trim, counted = newest_trim(store), counted_trim(store)
    for one in published:
        for kind, found in _published(ledger, one, counted if one.counted else trim).items():
            findings[kind].extend(found)
        findings["lost"].extend(_gone_from_stream(store, one))
    return Audit(
        emitted=sum(counts["states"].values()) + unfolded,
        acked=counts["states"].get("acked", 0),
        pending=counts["states"].get("pending", 0) + unfolded,
        retrying=counts["states"].get("retrying", 0),
        dead_letter=counts["states"].get("dead_letter", 0),
        lost=len(findings["lost"]),
        unexpected=len(findings["unexpected"]),
        duplicated=len(findings["duplicated"]),
        recovered=counts["recovered"],
        unpublished=_unpublished(
            ledger, min((one.position for one in published if one.stream is not None), default=number)
        ),
        late=fold_counts(store, fold)["late"] if fold else 0,
        dead_letters=given_up["dead_letter"],
        findings=findings,
    )


def _gone_from_stream(store: Store, one: PublishedTable) -> list[Finding]:
    """Rows that a published stream had when they were logged, and has no more."""
    if one.stream is None:
        return []
    where = one.stream.table_uri
    return [
        Finding(f"{where} batch {batch}", f"{there} rows instead of the {logged} that were logged")
        for batch, (there, logged) in missing_rows(store, component_of(one.component)).items()
    ]


def _newest(number: int) -> str:
    """Common table expressions, of which `newest` holds each message's newest row.

    Only messages that were emitted again are sorted: one that has a single attempt has a single row.
    """
    return f"""
        current AS (SELECT * FROM ledger
            WHERE {NOW.format(fold=number)} AND state NOT IN ('failed', 'timed_out')),
        again AS (SELECT DISTINCT spout AS s, source_partition AS p, source_offset AS o
            FROM current WHERE attempt > 1),
        once AS (SELECT * FROM current LEFT ANTI JOIN again
            ON spout = s AND source_partition = p AND source_offset = o),
        sorted AS (SELECT current.*, row_number() OVER (
                PARTITION BY spout, source_partition, source_offset ORDER BY attempt DESC, fold DESC) AS n
            FROM current JOIN again ON spout = s AND source_partition = p AND source_offset = o),
        newest AS (SELECT {_MESSAGE} FROM once UNION ALL SELECT {_MESSAGE} FROM sorted WHERE n = 1)"""


_MESSAGE = "spout, source_partition, source_offset, attempt, state, replaces, component, reason"


def _message_counts(ledger: DeltaTable, number: int) -> dict[str, Any]:
    rows = query(
        f"""WITH {_newest(number)}
        SELECT state, count(*) AS messages,
            sum(CASE WHEN attempt > 1 AND replaces IS NULL THEN 1 ELSE 0 END) AS again
        FROM newest GROUP BY state""",
        ledger=ledger,
    )
    recovered = sum(row["again"] for row in rows if row["state"] == "acked")
    return {"states": {row["state"]: row["messages"] for row in rows}, "recovered": recovered}


def _given_up(ledger: DeltaTable, number: int) -> dict[str, list[Finding]]:
    """Messages that are `dead_letter` and that are `lost`, with the reason of each."""
    rows = query(
        f"""WITH {_newest(number)} SELECT * FROM newest WHERE state IN ('dead_letter', 'lost')
        ORDER BY spout, source_partition, source_offset""",
        ledger=ledger,
    )
    found: dict[str, list[Finding]] = {"dead_letter": [], "lost": []}
    for row in rows:
        where = f" in {row['component']}" if row["component"] else ""
        why = f"attempt {row['attempt']}{where}: {row['reason']}"
        found[row["state"]].append(Finding(message_name(row), why))
    return found


def _unfolded(store: Store, spouts: Collection[str], folded: dict[str, int]) -> int:
    """Messages emitted for the first time that no fold has seen."""
    events = store.open(EVENTS)
    if events is None or not spouts:
        return 0
    new = " OR ".join(f"(component = '{spout}' AND batch > {folded.get(spout, 0)})" for spout in spouts)
    (row,) = query(
        f"SELECT count(*) AS n FROM events WHERE kind IN ('init', 'lost') AND attempt = 1 AND ({new})",
        events=events,
    )
    return int(row["n"])


def _unproven(ledger: DeltaTable) -> list[Finding]:
    rows = query(
        "SELECT * FROM ledger WHERE state = 'acked' AND (ack_val <> 0 OR outstanding <> 0)", ledger=ledger
    )
    return [Finding(message_name(row), "acked although its tuples do not cancel out") for row in rows]


def _unpublished(ledger: DeltaTable, position: int) -> int:
    (row,) = query(
        f"SELECT count(*) AS n FROM ledger WHERE live_in IS NULL AND state = 'acked' AND fold > {position}",
        ledger=ledger,
    )
    return int(row["n"])


def message_name(row: dict[str, Any]) -> str:
    """A message as commands write and take it."""
    if row["spout"] is None:
        return f"root {row['root_id']}"
    return f"{row['spout']}:{row['source_partition']}:{row['source_offset']}"


def _tuples(name: str, table: DeltaTable) -> str:
    """A SQL condition on the tuples of a stream."""
    return f"_kind IS NULL AND {of_stream(name, [field.name for field in table.schema().fields])}"


def _expected(trim: Trim, tuples: Mapping[str, str], position: int | None = None) -> str:
    """Common table expressions: `expected`, the newest acked attempt of each message, and `emitted`.

    Of what is `gone` the stream may hold nothing any more.

    Args:
        tuples: stream, as queries call it -> a condition on the rows that are meant.
    """
    published = "" if position is None else f"AND fold <= {position}"
    rows = " UNION ALL ".join(f"SELECT _root_id FROM {name} WHERE {those}" for name, those in tuples.items())
    return f"""expected AS (
        SELECT *, {trim.is_gone()} AS gone FROM (
            SELECT *, row_number() OVER (
                PARTITION BY spout, source_partition, source_offset ORDER BY attempt DESC) AS n
            FROM ledger WHERE live_in IS NULL AND state = 'acked' {published})
        WHERE n = 1),
        emitted AS (
            SELECT _root_id AS id, count(*) AS tuples FROM ({rows}) GROUP BY _root_id)"""


def acked_tuples(store: Store, name: str, before: Trim, after: Trim) -> int:
    """How many tuples of a stream belong to acked messages that go with the second trimming."""
    table = store.require(stream(name))
    (row,) = query(
        f"""WITH {_expected(before, {"stream": _tuples(name, table)})}
        SELECT coalesce(sum(tuples), 0) AS tuples FROM expected JOIN emitted ON root_id = id
        WHERE NOT gone AND {after.is_gone()}""",
        ledger=store.require(LEDGER),
        stream=table,
    )
    return int(row["tuples"])


def _published(ledger: DeltaTable, one: PublishedTable, trim: Trim) -> dict[str, list[Finding]]:
    if one.stream is None:
        return {}
    streams = one.streams()
    tuples = {name: _tuples(one.component, table) for name, table in streams.items()}
    expected = _expected(trim, tuples, one.position)
    tables = {"ledger": ledger, **streams}
    if one.table is None:
        rows = query(
            f"WITH {expected} SELECT expected.* FROM expected JOIN emitted ON root_id = id WHERE NOT gone",
            **tables,
        )
        return {"lost": [Finding(message_name(row), "acked, but nothing is published") for row in rows]}
    tables["published"] = one.table
    if one.counted:
        untracked = f"{tuples['stream']} AND _root_id IS NULL AND _batch <= {one.folded}"
        assert trim.tuples is not None
        gone = sum(trim.tuples.get(name, 0) for name in (one.component, *one.former))
        return _aggregated(expected, untracked, tables, one.counted, gone)
    rows = query(
        f"""WITH {expected},
        found AS (SELECT _root_id AS found_id, count(*) AS found FROM published
            WHERE _root_id IS NOT NULL GROUP BY _root_id),
        wanted AS (SELECT * FROM expected LEFT JOIN emitted ON root_id = id WHERE gone OR id IS NOT NULL)
        SELECT wanted.spout, wanted.source_partition, wanted.source_offset, found_id, tuples, found,
            old.spout AS old_spout, old.source_partition AS old_partition, old.source_offset AS old_offset
        FROM wanted FULL JOIN found ON root_id = found_id
        LEFT JOIN ledger old ON old.root_id = found_id AND old.state = 'acked' AND old.live_in IS NULL
            AND old.fold <= {one.position} AND wanted.root_id IS NULL
        WHERE wanted.root_id IS NULL OR (NOT gone AND (found_id IS NULL OR tuples <> found))""",
        **tables,
    )
    findings: dict[str, list[Finding]] = {"lost": [], "unexpected": [], "duplicated": []}
    where = one.table.table_uri
    for row in rows:
        if row["spout"] is None and row["old_spout"] is None:
            finding = Finding(
                f"root {row['found_id']}", f"{row['found']} rows in {where} that no acked root vouches for"
            )
            findings["unexpected"].append(finding)
        elif row["spout"] is None:
            name = f"{row['old_spout']}:{row['old_partition']}:{row['old_offset']}"
            findings["duplicated"].append(Finding(name, f"an earlier attempt is still in {where}"))
        else:
            counts = f"{row['found'] or 0} of {row['tuples']} rows in {where}"
            kind = "duplicated" if (row["found"] or 0) > row["tuples"] else "lost"
            findings[kind].append(Finding(message_name(row), counts))
    return findings


def _aggregated(
    expected: str, untracked: str, tables: dict[str, DeltaTable], counted: str, gone: int
) -> dict[str, list[Finding]]:
    (row,) = query(
        f"""WITH {expected}
        SELECT {gone} + (SELECT count(*) FROM stream WHERE {untracked})
            + (SELECT coalesce(sum(tuples), 0) FROM expected JOIN emitted ON root_id = id WHERE NOT gone)
                AS tuples,
            (SELECT coalesce(sum({counted}), 0) FROM published) AS found""",
        **tables,
    )
    if row["tuples"] == row["found"]:
        return {}
    where = tables["published"].table_uri
    finding = Finding(where, f"aggregates {row['found']} tuples, but {row['tuples']} were acked")
    return {"duplicated" if row["found"] > row["tuples"] else "lost": [finding]}
