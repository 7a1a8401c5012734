"""What `audit`, `status` and `trace` say, read from Delta without Spark."""

from collections.abc import Collection
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from typing import Any

from acker.audit import Audit, PublishedTable, audit
from acker.errors import UnknownMessage
from acker.ledger import NOW, Fold, newest_fold, read_fold
from acker.schemas import EVENTS, LEDGER, component_of, stream
from acker.tables import Store, last_number, open_table, query
from pipeline.components import Component
from pipeline.journal import Journal
from pipeline.positions import positions
from pipeline.publish import COUNT, app_id, commit_note
from pipeline.topology import Topology


def audit_report(topology: Topology, store: Store) -> Audit:
    """The verdict on a topology's store and on its published tables."""
    published = []
    components = [name for name in Journal(store).components() if name not in topology.publications]
    for publication in topology.publications.values():
        table = open_table(publication.to)
        app = app_id(store, publication)
        # A component that was renamed, say, has published to the table before.
        before = {
            name: last_number(table, app_id(store, replace(publication, component=name)))
            for name in components
        }
        former = {name: store.require(stream(name)) for name, position in before.items() if position}
        position = last_number(table, app)
        fold = read_fold(store.require(LEDGER), position) if position else None
        published.append(
            PublishedTable(
                component=publication.component,
                table=table,
                stream=store.open(stream(publication.component)),
                position=max([position, *before.values()]),
                folded=fold.logged.get(component_of(publication.component), 0) if fold else 0,
                counted=COUNT if publication.by else None,
                former=former,
            )
        )
    return audit(store, [spout.name for spout in topology.spouts], published)


def audit_json(result: Audit) -> dict[str, Any]:
    """An audit as JSON's types."""
    return {**asdict(result), "verdict": result.verdict}


def _position(store: Store, topology: Topology, component: str) -> int:
    publication = topology.publications[component]
    return last_number(open_table(publication.to), app_id(store, publication))


def status_report(topology: Topology, store: Store, now: datetime) -> dict[str, Any]:
    """Where each component, the acker, each publisher and each partition of a spout stand."""
    fold = newest_fold(store)
    journal = Journal(store)
    publications = [
        {
            "component": publication.component,
            "to": publication.to,
            "fold": _position(store, topology, publication.component),
        }
        for publication in topology.publications.values()
    ]
    return {
        "topology": topology.name,
        "store": store.uri,
        **acker_status(store, fold, now),
        "components": [_component_status(journal, component) for component in topology.order()],
        "published": publications,
        "positions": [asdict(position) for position in positions(topology, store, fold)],
    }


def acker_status(store: Store, fold: Fold | None, now: datetime) -> dict[str, Any]:
    """The newest fold, when it was, the attempts in each state now, and how many messages are due.

    Raises:
        StoreError: there is no ledger.
    """
    ledger = store.require(LEDGER, fold.ledger_version if fold else None)
    if fold is None:
        return {"fold": None, "folded_at": None, "states": {}, "due": 0}
    rows = query(
        f"SELECT state, count(*) AS n, sum(CASE WHEN retry_at <= to_timestamp('{now.isoformat()}') "
        f"THEN 1 ELSE 0 END) AS due FROM ledger WHERE {NOW.format(fold=fold.number)} GROUP BY state",
        ledger=ledger,
    )
    return {
        "fold": fold.number,
        "folded_at": fold.folded_at,
        "states": {row["state"]: row["n"] for row in rows},
        "due": sum(row["due"] or 0 for row in rows if row["state"] == "retrying"),
    }


def _component_status(journal: Journal, component: Component) -> dict[str, Any]:
    planned, logged = journal.newest_number(component.name), journal.logged(component.name)
    newest = journal.read(component.name, logged) if logged else None
    waiting = {}
    for upstream in component.inputs:
        taken = newest.taken(upstream) if newest else 0
        waiting[upstream] = len(
            journal.numbers_for(upstream, component.name, taken, journal.logged(upstream))
        )
    return {
        "component": component.name,
        "planned": planned,
        "logged": logged,
        "unfinished": planned > logged,
        "waiting_batches": waiting,
        "planned_at": newest.planned_at if newest else None,
    }


_RANK = {"dead_letter": 1, "retrying": 1, "published": 2}  # after what led to them in the same fold


@dataclass(frozen=True)
class Entry:
    """One line of a message's story."""

    at: datetime | None
    attempt: int
    what: str
    component: str
    batch: int | None  # a fold's number where the acker speaks
    detail: str


def parse_message(topology: Topology, text: str, gone: Collection[str] = ()) -> tuple[str, str, int]:
    """(spout, source_partition, source_offset) from SPOUT:PARTITION:OFFSET.

    The spout may be left out where the topology has only one.

    Args:
        gone: spouts that the topology had before.

    Raises:
        UnknownMessage: the text is not of that form.
    """
    spouts = [spout.name for spout in topology.spouts]
    head, _, rest = text.partition(":")
    is_named = head in spouts or (head in gone and ":" in rest)
    if not is_named and len(spouts) == 1:
        head, rest, is_named = spouts[0], text, True
    partition, _, offset = rest.rpartition(":")
    if not is_named or not partition or not offset.lstrip("-").isdigit():
        raise UnknownMessage(
            f"{text!r} is not a message of {topology.name}; write SPOUT:PARTITION:OFFSET, "
            f"with one of the spouts {', '.join(spouts)}."
        )
    return head, partition, int(offset)


def trace_report(topology: Topology, store: Store, message: str) -> list[Entry]:
    """One message's whole story, oldest first.

    Raises:
        UnknownMessage: no event and no row of the ledger speaks of it.
    """
    edges = Journal(store).edges()
    bolts = {bolt for found in edges.values() for bolt in found}
    spout, partition, offset = parse_message(topology, message, edges.keys() - bolts)
    literal = partition.replace("'", "''")
    where = f"spout = '{spout}' AND source_partition = '{literal}' AND source_offset = {offset}"
    ledger, events = store.require(LEDGER), store.require(EVENTS)
    fold = newest_fold(store)
    now = NOW.format(fold=fold.number if fold else 0)
    rows = query(
        f"SELECT * FROM ledger WHERE {where} AND {now} "
        "ORDER BY fold, attempt, state NOT IN ('failed', 'timed_out')",  # what became of it comes first
        ledger=ledger,
    )
    first = query(f"SELECT * FROM events WHERE {where}", events=events)
    if not rows and not first:
        raise UnknownMessage(
            f"The store {store.uri} has never seen {spout}:{partition}:{offset}. "
            f"`python -m pipeline status {topology.name}` shows how far each spout has read."
        )
    # A retrying row names the attempt to come beside the root of the one before.
    attempts = {row["root_id"]: row["attempt"] for row in rows if row["state"] != "retrying"}
    attempts |= {row["root_id"]: row["attempt"] for row in first}
    roots = ", ".join(str(root) for root in attempts)
    reported = query(
        f"SELECT * FROM events WHERE root_id IN ({roots}) "
        "ORDER BY logged_at, kind <> 'init', component, batch",
        events=events,
    )
    entries = [_event_entry(row, attempts[row["root_id"]]) for row in reported]
    entries += [_ledger_entry(row) for row in rows]
    entries += [
        entry for row in rows if row["state"] == "acked" for entry in _published(topology, store, row)
    ]
    return sorted(
        entries, key=lambda entry: (entry.at is None, entry.at, entry.attempt, _RANK.get(entry.what, 0))
    )


def _event_entry(row: dict[str, Any], attempt: int) -> Entry:
    what = {
        "init": "emitted",
        "ack": "acked by",
        "fail": "failed by",
        "reset": "reset by",
        "join": "joined by",
        "lost": "not in source",
    }
    counts = f"{row['consumed']} tuples in, {row['emitted']} out"
    detail = row["reason"] or {"join": "with another message", "reset": ""}.get(row["kind"], counts)
    return Entry(row["logged_at"], attempt, what[row["kind"]], row["component"], row["batch"], detail)


def _ledger_entry(row: dict[str, Any]) -> Entry:
    state = row["state"]
    detail = row["reason"] or ""
    if state == "retrying":
        detail = f"due at {row['retry_at']:%Y-%m-%d %H:%M:%S}: {detail}"
    if state == "pending":
        detail = f"{row['outstanding']} tuples outstanding"
    if row["component"]:
        detail = f"{row['component']}: {detail}"
    return Entry(row["settled_at"] or row["folded_at"], row["attempt"], state, "acker", row["fold"], detail)


def _published(topology: Topology, store: Store, row: dict[str, Any]) -> list[Entry]:
    """When the fold that acked a root was published, from the notes on the targets' commits."""
    entries = []
    for publication in topology.publications.values():
        table = open_table(publication.to)
        if table is None or last_number(table, app_id(store, publication)) < row["fold"]:
            continue
        note = commit_note(store, publication, row["fold"])
        times = [commit["timestamp"] for commit in table.history() if commit.get("userMetadata") == note]
        at = datetime.fromtimestamp(times[0] / 1000, tz=UTC) if times else None
        entries.append(
            Entry(at, row["attempt"], "published", publication.component, row["fold"], f"to {publication.to}")
        )
    return entries
