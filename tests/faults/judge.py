"""What must hold of a store and its published tables at any end, whatever happened on the way.

Read from the tables, by queries of its own.
"""

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

from acker.core.snapshot.ledger import newest_fold
from acker.core.store.schemas import stream
from acker.core.store.store import Store
from acker.core.store.tables import open_table, query
from acker.core.stream_names import component_of
from acker.reports.audit import audit_report
from acker.targets.aggregate import DeltaAggregate
from acker.targets.append import DeltaAppend
from acker.targets.kafka import KafkaTarget
from acker.topology.topology import Topology
from tests.kit.received import newest, received

Rows = list[tuple[Any, ...]]
HISTORY = "('failed', 'timed_out')"


def published(topology: Topology) -> dict[str, Rows]:
    """The user's columns of every published table, and what readers of every topic find, sorted."""
    found = {}
    for publication in topology.publications.values():
        target = publication.target
        if isinstance(target, KafkaTarget):
            found[_called(target)] = sorted(_values(value) for _, value, _ in _records(target))
            continue
        if isinstance(target, DeltaAggregate) and target.topic is not None:
            found[_called(target.topic)] = sorted(map(_values, newest(_records(target.topic)).values()))
        table = open_table(publication.to)
        rows = query("SELECT * FROM t", t=table) if table else []
        kept = [tuple(value for name, value in row.items() if name[0] != "_") for row in rows]
        found[Path(publication.to).name] = sorted(kept)
    return found


def _called(target: KafkaTarget) -> str:
    """What a topic is called that has the name of its case's folder behind its own."""
    return str(target.topic).partition("-")[0]


def _records(target: KafkaTarget) -> list[tuple[Any, ...]]:
    return received(target.servers, target.topic)


def _values(text: str) -> tuple[Any, ...]:
    return tuple(json.loads(text).values())


def states(store: Store) -> dict[str, int]:
    """Messages by the state of their newest row."""
    return dict(Counter(row["state"] for row in newest_rows(store)))


def settled_rows(store: Store) -> set[str]:
    """Every settled row, as text, and of its reason whether it has one: that may be forgotten."""
    if newest_fold(store) is None:
        return set()
    rows = query(
        "SELECT * FROM ledger WHERE live_in IS NULL AND root_id IS NOT NULL", ledger=store.require("ledger")
    )
    return {str(row | {"reason": row["reason"] is not None}) for row in rows}


def newest_rows(store: Store) -> list[dict[str, Any]]:
    fold = newest_fold(store)
    return query(
        f"""WITH numbered AS (
            SELECT *, rank() OVER (
                PARTITION BY spout, source_partition, source_offset ORDER BY attempt DESC, fold DESC) AS n
            FROM ledger
            WHERE root_id IS NOT NULL AND (live_in IS NULL OR live_in = {fold.number if fold else 0})
                AND state NOT IN {HISTORY})
        SELECT * FROM numbered WHERE n = 1""",
        ledger=store.require("ledger"),
    )


def faults(topology: Topology, store: Store) -> list[str]:
    """All that is wrong with a store and with what it published; nothing where all is well."""
    found = [f"{name}: {row}" for name, sql in BROKEN.items() for row in _rows(store, sql)]
    newest = Counter(
        (row["spout"], row["source_partition"], row["source_offset"]) for row in newest_rows(store)
    )
    found += [f"a message has {count} newest rows: {name}" for name, count in newest.items() if count > 1]
    found += _gaps(store) + _published_twice(topology, store) + _emitted_twice(topology, store)
    result = audit_report(topology, store)
    found += [f"audit: {kind} {finding}" for kind, each in result.findings.items() for finding in each]
    return found


def _rows(store: Store, sql: str) -> list[dict[str, Any]]:
    names = set(re.findall(r"\b(batches|events|ledger|refusals|replays|replay_requests|trims)\b", sql))
    return query(sql, **{name: store.require(name) for name in names})


# Each finds nothing in a store that is sound. Of a root whose events were trimmed nothing can be added up.
BROKEN = {
    "acked without proof": """
        SELECT l.root_id FROM ledger l JOIN events e ON e.root_id = l.root_id
        WHERE l.live_in IS NULL AND l.state = 'acked' GROUP BY l.root_id
        HAVING bit_xor(e.ack_val) <> 0 OR sum(e.emitted) <> sum(e.consumed)
            OR sum(CASE WHEN e.kind = 'init' THEN 1 ELSE 0 END) <> 1
            OR sum(CASE WHEN e.kind = 'fail' THEN 1 ELSE 0 END) > 0""",
    "acked with work outstanding": """
        SELECT root_id FROM ledger WHERE state = 'acked' AND (ack_val <> 0 OR outstanding <> 0)""",
    "an attempt that settled twice": f"""
        SELECT spout, source_partition, source_offset, attempt, count(*) FROM ledger
        WHERE live_in IS NULL AND root_id IS NOT NULL AND state IN ('acked', 'lost', {HISTORY[1:-1]})
            AND NOT (state = 'failed' AND root_id IN (SELECT root_id FROM refusals))
        GROUP BY spout, source_partition, source_offset, attempt HAVING count(*) > 1""",
    "an attempt with two roots": """
        SELECT spout, source_partition, source_offset, attempt FROM events WHERE kind = 'init'
        GROUP BY spout, source_partition, source_offset, attempt HAVING count(*) > 1""",
    "an event that is there twice": """
        SELECT root_id, component, batch, kind FROM events
        GROUP BY root_id, component, batch, kind, joined HAVING count(*) > 1""",
    "a batch that is planned twice": """
        SELECT component, batch FROM batches GROUP BY component, batch HAVING count(*) > 1""",
    "a fold that is there twice": """
        SELECT fold FROM ledger WHERE root_id IS NULL GROUP BY fold HAVING count(*) > 1""",
    "a request that is recorded twice": """
        SELECT request_id FROM replay_requests GROUP BY request_id HAVING count(*) > 1""",
    "a message that a plan emits twice": """
        SELECT plan FROM replays GROUP BY plan, spout, source_partition, source_offset HAVING count(*) > 1""",
    "a trimming that is there twice": """
        SELECT "trim" FROM trims GROUP BY "trim" HAVING count(*) > 1""",
    "numbers that were passed over": """
        SELECT component, max(batch), count(*) FROM batches GROUP BY component HAVING max(batch) <> count(*)
        UNION ALL SELECT 'acker', max(fold), count(*) FROM ledger WHERE root_id IS NULL
        HAVING max(fold) <> count(*)""",
}


def _gaps(store: Store) -> list[str]:
    """Batches that are planned and not logged."""
    events = store.require("events")
    planned = query(
        "SELECT component, max(batch) AS n FROM batches GROUP BY component", batches=store.require("batches")
    )
    return [
        f"batch {row['n']} of {row['component']} is not logged"
        for row in planned
        if events.transaction_version(row["component"]) != row["n"]
    ]


def _published_twice(topology: Topology, store: Store) -> list[str]:
    """Messages with rows of several attempts in one published table, and attempts with rows twice."""
    found = []
    for publication in topology.publications.values():
        if not isinstance(publication.target, DeltaAppend):
            continue
        table = publication.target.delta_table()
        if table is None:
            continue
        rows = query(
            """SELECT l.spout, l.source_partition, l.source_offset, count(DISTINCT p._root_id) AS roots
            FROM published p JOIN ledger l ON l.root_id = p._root_id
            WHERE l.state = 'acked' AND l.live_in IS NULL
            GROUP BY l.spout, l.source_partition, l.source_offset HAVING count(DISTINCT p._root_id) > 1
            UNION ALL SELECT 'not acked', '', 0, count(*) FROM published p
            LEFT ANTI JOIN (SELECT root_id FROM ledger WHERE state = 'acked') l ON l.root_id = p._root_id
            WHERE p._root_id IS NOT NULL HAVING count(*) > 0""",
            published=table,
            ledger=store.require("ledger"),
        )
        found += [f"{table.table_uri} has rows of several attempts, or of none: {row}" for row in rows]
    return found


def _emitted_twice(topology: Topology, store: Store) -> list[str]:
    """Messages that a spout's stream holds twice in one attempt."""
    found = []
    for spout in topology.spouts:
        table = store.open(stream(component_of(spout.name)))
        if table is not None:
            rows = query(
                """SELECT _source_partition, _source_offset, _attempt, count(*) FROM s
                GROUP BY _source_partition, _source_offset, _attempt HAVING count(*) > 1""",
                s=table,
            )
            found += [f"emitted twice by {spout.name}: {row}" for row in rows]
    return found
