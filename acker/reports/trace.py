"""One message's whole story, read from Delta without Spark."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import polars as pl

from acker.core.errors import UnknownMessage
from acker.core.events import Kind, State
from acker.core.messages import MESSAGE, MessageId
from acker.core.names import called
from acker.core.snapshot.downstream import downstream_batches
from acker.core.snapshot.in_flight import rows_now
from acker.core.snapshot.journal import Journal
from acker.core.snapshot.logged import events_of, events_where
from acker.core.snapshot.refusals import recorded, refusals
from acker.core.snapshot.streams import Rows, held_back
from acker.core.snapshot.trims import newest_trim
from acker.core.store.parquet import collect, columns_of, scan
from acker.core.store.schemas import EVENTS, LEDGER
from acker.core.store.store import Store
from acker.core.store.tables import files_of
from acker.core.stream_names import component_of
from acker.targets.base import Publisher, position_of, published_at
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


def trace_report(topology: Topology, store: Store, message: str) -> list[Entry]:
    """One message's whole story, oldest first.

    Raises:
        UnknownMessage: no event and no row of the ledger speaks of the message.
    """
    journal = Journal(store, topology.roles)
    mine = parse_message(topology, journal, message)
    where = mine.condition()
    of_attempts_first = "fold, attempt, state NOT IN ('failed', 'timed_out')"
    rows, first = rows_now(journal, where, of_attempts_first), events_where(journal, where)
    if not rows and not first:
        raise UnknownMessage(
            f"The store {store.uri} has never seen {mine}. "
            f"`acker status {called(topology.name)}` shows how far each spout has read."
        )
    # A retrying row names the attempt to come beside the root of the one before.
    attempts = {row["root_id"]: row["attempt"] for row in rows if row["state"] != State.RETRYING}
    attempts |= {row["root_id"]: row["attempt"] for row in first if row["root_id"] is not None}
    entries = _reports(journal, attempts)
    for row in rows:
        entries.append(_ledger_entry(row))
        if row["state"] == State.ACKED:
            entries += _published(topology, journal, row)
        if row["state"] == State.PENDING:
            entries += _held(topology, journal, row)
    return sorted(
        entries, key=lambda entry: (entry.at is None, entry.at, entry.attempt, _RANK.get(entry.what, 0))
    )


def parse_message(topology: Topology, journal: Journal, text: str) -> MessageId:
    """The message that SPOUT:PARTITION:OFFSET names, also of a spout that the topology had before.

    Raises:
        UnknownMessage: the text is not of that form.
    """
    edges = journal.edges
    bolts = {bolt for found in edges.values() for bolt in found}
    spouts = [spout.name for spout in topology.spouts]
    return MessageId.parse(text, topology.name, spouts, edges.keys() - bolts)


def _reports(journal: Journal, attempts: dict[int, int]) -> list[Entry]:
    """The entries for the events of some roots, as components reported them.

    Args:
        attempts: root -> its attempt.
    """
    if not attempts:
        return []
    rows = events_of(journal, attempts)
    return [_event_entry(row, attempts[row["root_id"]]) for row in rows] + _joins(journal, attempts)


def _event_entry(row: dict[str, Any], attempt: int) -> Entry:
    what = {
        Kind.INIT: "emitted",
        Kind.ACK: "acked by",
        Kind.FAIL: "failed by",
        Kind.REJECT: "rejected by",
        Kind.RESET: "reset by",
        Kind.LOST: "not in source",
    }.get(row["kind"], str(row["kind"]))
    counts = "" if row["kind"] == Kind.RESET else f"{row['consumed']} tuples in, {row['emitted']} out"
    return Entry(row["logged_at"], attempt, what, row["component"], row["batch"], row["reason"] or counts)


def _joins(journal: Journal, attempts: dict[int, int]) -> list[Entry]:
    """An entry for each batch that emitted tuples which one of the roots shares with other roots.

    The entry names some of the messages of the other roots, and says how many more there are.

    Args:
        attempts: see `_reports`.
    """
    mine = pl.LazyFrame(list(attempts.items()), {"root": pl.Int64, "attempt": pl.Int32}, orient="row")
    events, ledger = (scan(files_of(journal.require(table)), columns_of(table)) for table in (EVENTS, LEDGER))
    joins = events.filter(pl.col("kind") == Kind.JOIN, pl.col("joined").is_not_null()).drop("attempt")
    batch = ["logged_at", "attempt", "component", "batch"]
    ends = [
        joins.join(mine, left_on=end, right_on="root").select(*batch, root_id=other)
        for end, other in (("root_id", "joined"), ("joined", "root_id"))
    ]
    partners = collect(pl.concat(ends), journal.files)
    if partners.is_empty():
        return []
    named = pl.concat(
        [
            rows.join(partners.lazy(), on="root_id", how="semi").select("root_id", *MESSAGE)
            for rows in (ledger, events.filter(pl.col("kind") == Kind.INIT))
        ]
    ).unique("root_id")
    name = pl.coalesce(pl.format("{}:{}:{}", *MESSAGE), pl.format("root {}", "root_id"))
    told = partners.lazy().join(named, on="root_id", how="left").with_columns(name=name)
    found = told.group_by(batch).agg(
        pl.col("name").sort().head(_NAMED), more=pl.len().cast(pl.Int64) - _NAMED
    )
    return [
        Entry(
            row["logged_at"],
            row["attempt"],
            "joined by",
            row["component"],
            row["batch"],
            f"with {', '.join(row['name'])}" + (f" and {row['more']:,} more" if row["more"] > 0 else ""),
        )
        for row in collect(found, journal.files).rows(named=True)
    ]


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


def _held(topology: Topology, journal: Journal, row: dict[str, Any]) -> list[Entry]:
    """Which rich bolts hold tuples of a pending root back, and since when."""
    entries = []
    for bolt in topology.bolts:
        if not bolt.holds_back:
            continue
        held = held_back(journal, bolt.name, journal.logged(bolt.name))
        roots = pl.coalesce("_root_ids", pl.concat_list("_root_id"))
        mine = held.filter(roots.list.contains(row["root_id"]))
        for since, count in sorted(mine.group_by("since").len().rows()):
            at = journal.read(bolt.name, since).planned_at
            entries.append(Entry(at, row["attempt"], "held back by", bolt.name, since, f"{count} tuples"))
    return entries


def _published(topology: Topology, journal: Journal, row: dict[str, Any]) -> list[Entry]:
    """The entries for the tables that hold tuples of an acked root, and for those that refused the root.

    The entry of a table that holds tuples says when the table got them, from the notes on its commits. If the
    tuples may have been trimmed, each table that has the root's fold has an entry.
    """
    is_trimmed = row["batch"] <= newest_trim(journal.store).upto.get(
        row["spout"], 0
    )  # its tuples may be gone
    batches = downstream_batches(journal, [(row["spout"], row["batch"])])
    refused = refusals(recorded(journal)).filter(pl.col("root_id") == row["root_id"])
    entries = [_refused(each) for each in refused.rows(named=True)]
    for publication in topology.publications.values():
        target, name = publication.target.pinned(), publication.stream
        if name in refused["stream"]:
            continue
        publisher = Publisher.of(journal.require(LEDGER), name)
        if position_of(target, publisher) < row["fold"]:
            continue
        if not (is_trimmed or _has_tuples(journal, name, batches, row["root_id"])):
            continue
        at = published_at(target, publisher, row["fold"])
        entries.append(Entry(at, row["attempt"], "published", name, row["fold"], f"to {target.uri}"))
    return entries


def _refused(row: dict[str, Any]) -> Entry:
    detail = f"by {row['target']}: {row['reason']}"
    return Entry(row["refused_at"], row["attempt"], "refused", row["stream"], row["fold"], detail)


def _has_tuples(journal: Journal, name: str, batches: Mapping[str, list[int]], root: int) -> bool:
    """Whether a stream has tuples of a root in some batches of its component."""
    rows = Rows.of(journal, name, batches.get(component_of(name), []))
    mine = pl.col("_root_id") == root
    if "_root_ids" in rows.columns:
        mine = mine | pl.col("_root_ids").list.contains(root)
    found = rows.tuples(name).filter(mine).head(1)
    return not collect(found, journal.files).is_empty()
