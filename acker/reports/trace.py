"""One message's whole story, read from Delta without Spark."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import polars as pl

from acker.core.audit import message_name
from acker.core.delta import Store, last_number, open_table, query
from acker.core.errors import UnknownMessage
from acker.core.events import Kind, State
from acker.core.ledger import NOW, Fold, newest_fold
from acker.core.parquet import collect, scan
from acker.core.quoting import check_text, sql_text
from acker.core.schemas import EVENTS, LEDGER, component_of, of_stream
from acker.core.streams import Rows, held_back
from acker.core.trims import newest_trim
from acker.journal.downstream import downstream_batches
from acker.journal.journal import Journal
from acker.operations.selection import parse_position
from acker.targets.publisher import app_id, commit_note
from acker.topology.topology import Topology

_NAMED = 3  # partners of a join that are named
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
        SettingsError: it is no text that a table can hold.
    """
    spouts = [spout.name for spout in topology.spouts]
    head, _, rest = text.partition(":")
    is_named = head in spouts or (head in gone and ":" in rest)
    if not is_named and len(spouts) == 1:
        head, rest, is_named = spouts[0], text, True
    position = parse_position(rest)
    if not is_named or position is None:
        raise UnknownMessage(
            f"{text!r:.200} is not a message of {topology.name}; write SPOUT:PARTITION:OFFSET, "
            f"with one of the spouts {', '.join(spouts)}."
        )
    check_text("The message", text)
    return head, *position


def trace_report(topology: Topology, store: Store, message: str) -> list[Entry]:
    """One message's whole story, oldest first.

    Raises:
        UnknownMessage: no event and no row of the ledger speaks of it.
    """
    edges = Journal(store, topology.roles).edges()
    bolts = {bolt for found in edges.values() for bolt in found}
    spout, partition, offset = parse_message(topology, message, edges.keys() - bolts)
    named = f"spout = {sql_text(spout)} AND source_partition = {sql_text(partition)}"
    where = f"{named} AND source_offset = {offset}"
    fold = newest_fold(store)
    ledger, events = store.require(LEDGER, fold.ledger_version if fold else None), store.require(EVENTS)
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
            f"`acker status {topology.name}` shows how far each spout has read."
        )
    # A retrying row names the attempt to come beside the root of the one before.
    attempts = {row["root_id"]: row["attempt"] for row in rows if row["state"] != State.RETRYING}
    attempts |= {row["root_id"]: row["attempt"] for row in first}
    entries = _reports(store, attempts)
    for row in rows:
        entries.append(_ledger_entry(row))
        if row["state"] == State.ACKED:
            entries += _published(topology, store, row)
        if row["state"] == State.PENDING:
            entries += _held(topology, store, fold, row)
    return sorted(
        entries, key=lambda entry: (entry.at is None, entry.at, entry.attempt, _RANK.get(entry.what, 0))
    )


def _reports(store: Store, attempts: dict[int, int]) -> list[Entry]:
    """What components reported of some roots.

    Args:
        attempts: root -> its attempt.
    """
    roots = ", ".join(str(root) for root in attempts)
    rows = query(
        f"SELECT * FROM events WHERE root_id IN ({roots}) OR joined IN ({roots}) "
        "ORDER BY logged_at, kind <> 'init', component, batch, root_id",
        events=store.require(EVENTS),
    )
    joins = [row for row in rows if row["kind"] == Kind.JOIN and row["joined"] is not None]
    others = [row for row in rows if row["kind"] != Kind.JOIN and row["root_id"] in attempts]
    return [_event_entry(row, attempts[row["root_id"]]) for row in others] + _joins(store, joins, attempts)


def _event_entry(row: dict[str, Any], attempt: int) -> Entry:
    what = {
        Kind.INIT: "emitted",
        Kind.ACK: "acked by",
        Kind.FAIL: "failed by",
        Kind.RESET: "reset by",
        Kind.LOST: "not in source",
    }.get(row["kind"], str(row["kind"]))
    counts = "" if row["kind"] == Kind.RESET else f"{row['consumed']} tuples in, {row['emitted']} out"
    return Entry(row["logged_at"], attempt, what, row["component"], row["batch"], row["reason"] or counts)


def _joins(store: Store, rows: list[dict[str, Any]], attempts: dict[int, int]) -> list[Entry]:
    """An entry for each batch that emitted tuples of one of the roots and of others."""
    together: dict[tuple[Any, ...], list[int]] = {}
    for row in rows:
        for mine, other in ((row["root_id"], row["joined"]), (row["joined"], row["root_id"])):
            if mine in attempts:
                batch = (row["logged_at"], attempts[mine], "joined by", row["component"], row["batch"])
                together.setdefault(batch, []).append(other)
    if not together:
        return []
    names = _messages(store, {root for roots in together.values() for root in roots})
    entries = []
    for batch, roots in together.items():
        listed = sorted(names.get(root, f"root {root}") for root in roots)
        more = f" and {len(listed) - _NAMED:,} more" if len(listed) > _NAMED else ""
        entries.append(Entry(*batch, f"with {', '.join(listed[:_NAMED])}{more}"))
    return entries


def _messages(store: Store, roots: Collection[int]) -> dict[int, str]:
    """Root -> its message, as commands write it."""
    where = f"root_id IN ({', '.join(str(root) for root in roots)})"
    columns = "root_id, spout, source_partition, source_offset"
    rows = query(
        f"SELECT {columns} FROM ledger WHERE {where} "
        f"UNION SELECT {columns} FROM events WHERE kind = 'init' AND {where}",
        ledger=store.require(LEDGER),
        events=store.require(EVENTS),
    )
    return {row["root_id"]: message_name(row) for row in rows}


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


def _held(topology: Topology, store: Store, fold: Fold | None, row: dict[str, Any]) -> list[Entry]:
    """Which rich bolts hold tuples of a pending root back, and since when."""
    journal = Journal(store, topology.roles)
    entries = []
    for bolt in topology.bolts:
        if bolt.make is None:
            continue
        held = held_back(store, bolt.name, journal.logged(bolt.name), fold)
        roots = pl.coalesce("_root_ids", pl.concat_list("_root_id"))
        mine = held.filter(roots.list.contains(row["root_id"]))
        for since, count in sorted(mine.group_by("since").len().rows()):
            at = journal.read(bolt.name, since).planned_at
            entries.append(Entry(at, row["attempt"], "held back by", bolt.name, since, f"{count} tuples"))
    return entries


def _published(topology: Topology, store: Store, row: dict[str, Any]) -> list[Entry]:
    """When the tables that hold something of an acked root got it, from the notes on their commits."""
    is_trimmed = row["batch"] <= newest_trim(store).upto.get(row["spout"], 0)  # its tuples may be gone
    batches = downstream_batches(Journal(store, topology.roles), [(row["spout"], row["batch"])])
    entries = []
    for publication in topology.publications.values():
        table = open_table(publication.to)
        if table is None or last_number(table, app_id(store, publication)) < row["fold"]:
            continue
        if not (is_trimmed or _has_tuples(store, publication.component, batches, row["root_id"])):
            continue
        note = commit_note(store, publication, row["fold"])
        times = [commit["timestamp"] for commit in table.history() if commit.get("userMetadata") == note]
        at = datetime.fromtimestamp(times[0] / 1000, tz=UTC) if times else None
        entries.append(
            Entry(at, row["attempt"], "published", publication.component, row["fold"], f"to {publication.to}")
        )
    return entries


def _has_tuples(store: Store, name: str, batches: Mapping[str, list[int]], root: int) -> bool:
    """Whether a stream has tuples of a root in some batches of its component."""
    rows = Rows.of(store, name, batches.get(component_of(name), []))
    mine = pl.col("_root_id") == root
    if "_root_ids" in rows.columns:
        mine = mine | pl.col("_root_ids").list.contains(root)
    tuples = pl.sql_expr(f"_kind IS NULL AND {of_stream(name, rows.columns)} AND {rows.where}")
    return not collect(scan(rows.files, rows.columns).filter(tuples & mine).head(1)).is_empty()
