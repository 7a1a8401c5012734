"""Which messages a replay by hand chooses, and why it may not."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from acker.audit import message_name
from acker.errors import SettingsError, TopologyError
from acker.events import State
from acker.ledger import NOW, Fold, newest_fold
from acker.schemas import LEDGER
from acker.tables import Store, query
from acker.trims import newest_trim
from pipeline.topology import Topology

SELECTABLE = (State.RETRYING, State.ACKED, State.DEAD_LETTER, State.LOST)


@dataclass(frozen=True)
class Emission:
    """One message to emit again."""

    source_partition: str
    source_offset: int
    attempt: int
    replaces: int | None  # the acked root whose published rows the new attempt is to replace


@dataclass(frozen=True)
class Selection:
    """Which messages to replay by hand, by each message's newest state. Conditions are joined by AND.

    Args:
        states: of `SELECTABLE`; messages in flight cannot be chosen.
        spout: a spout's name.
        positions: (source_partition, source_offset).
        since, until: bounds of the time of emission, both included.
        reason: text that the reason contains, in upper or lower case.
        limit: at most so many messages, those with the lowest positions.
    """

    states: tuple[State, ...] = (State.DEAD_LETTER,)
    spout: str | None = None
    positions: tuple[tuple[str, int], ...] = ()
    since: datetime | None = None
    until: datetime | None = None
    reason: str | None = None
    limit: int | None = None

    def __post_init__(self) -> None:
        wrong = [state for state in self.states if state not in SELECTABLE]
        if wrong or not self.states:
            raise SettingsError(
                f"A replay selects messages that are {', '.join(SELECTABLE)}; "
                f"not {', '.join(wrong) or 'none'}. Messages in flight are left alone."
            )
        if self.limit is not None and self.limit < 1:
            raise SettingsError(f"limit must be 1 or more, not {self.limit}.")


@dataclass(frozen=True)
class Matched:
    """What a selection finds in the ledger."""

    messages: dict[str, list[Emission]]  # by spout
    in_flight: int  # that match but for their state
    trimmed: int = 0  # acked ones whose tuples may be gone from the streams

    @property
    def count(self) -> int:
        """Messages to replay."""
        return sum(len(messages) for messages in self.messages.values())


def select(topology: Topology, store: Store, selection: Selection) -> Matched:
    """Find what a selection matches, by each message's newest row in the ledger.

    Messages bring those along with which they were acked or given up, since they share tuples.
    """
    fold = newest_fold(store)
    if fold is None:
        return Matched({}, 0)
    if selection.spout is not None and selection.spout not in {s.name for s in topology.spouts}:
        raise SettingsError(f"Topology {topology.name} has no spout called {selection.spout}.")
    chosen = " OR ".join(f"state = '{state}'" for state in selection.states)
    rows = _newest(store, fold, f"(state = 'pending' OR {chosen}) {_conditions(selection)}")
    there = [row for row in rows if row["spout"] in topology.components]  # one that is gone emits nothing
    found = [row for row in there if row["state"] != State.PENDING]
    chosen_rows = found[: selection.limit]
    partners = _partners(topology, store, fold, chosen_rows)
    messages: dict[str, list[Emission]] = {}
    for row in chosen_rows + [row for row in partners if row["state"] != State.PENDING]:
        # A retrying row names the attempt to come, every other one the attempt that was.
        attempt = row["attempt"] + (row["state"] != State.RETRYING)
        emission = Emission(row["source_partition"], row["source_offset"], attempt, row["replaces"])
        messages.setdefault(row["spout"], []).append(emission)
    trimmed = sum(1 for row in chosen_rows + partners if row["gone"])
    return Matched(messages, len(there) - len(found), trimmed)


def _newest(store: Store, fold: Fold, where: str) -> list[dict[str, Any]]:
    """The newest row of each message, with the acked root that a replay replaces, if any.

    Args:
        where: a SQL condition on the rows, and on `acked_with`, the `joined` of the acked root.
    """
    return query(
        f"""
        WITH now AS (SELECT * FROM ledger WHERE {NOW.format(fold=fold.number)}),
        numbered AS (
            SELECT *, row_number() OVER (
                PARTITION BY spout, source_partition, source_offset
                ORDER BY attempt DESC, fold DESC) AS n
            FROM now WHERE state NOT IN ('failed', 'timed_out')),
        acked AS (
            SELECT spout AS s, source_partition AS p, source_offset AS o, max(attempt) AS attempt
            FROM now WHERE state = 'acked' GROUP BY spout, source_partition, source_offset),
        replaced AS (
            SELECT s, p, o, root_id AS replaces, joined AS acked_with, {newest_trim(store).is_gone()} AS gone
            FROM acked JOIN now ON spout = s
            AND source_partition = p AND source_offset = o AND now.attempt = acked.attempt
            AND state = 'acked')
        SELECT spout, source_partition, source_offset, state, attempt, replaced.replaces AS replaces,
            acked_with, numbered.joined AS joined, gone
        FROM numbered LEFT JOIN replaced ON spout = s AND source_partition = p AND source_offset = o
        WHERE n = 1 AND {where}
        ORDER BY spout, source_partition, source_offset
        """,
        # As of the fold: a compaction drops the live rows of folds before the newest.
        ledger=store.require(LEDGER, fold.ledger_version),
    )


def _partners(
    topology: Topology, store: Store, fold: Fold, chosen: list[dict[str, Any]]
) -> list[dict[str, Any]]:
    """The messages that were acked, or given up, together with chosen ones, since they share tuples.

    Raises:
        TopologyError: one of them is of a spout that is gone.
    """
    groups = {group for row in chosen for group in _groups(row)}
    if not groups:
        return []
    there = {_name(row) for row in chosen}
    joined = _newest(store, fold, "(acked_with IS NOT NULL OR joined IS NOT NULL)")
    found = [row for row in joined if _groups(row) & groups and _name(row) not in there]
    for row in found:
        if row["spout"] not in topology.components:
            raise TopologyError(
                f"{message_name(row)} was settled together with a chosen message and would have to be "
                "replayed with it, but its spout is gone. Bring the spout back, or choose other messages."
            )
    return found


def _groups(row: dict[str, Any]) -> set[int]:
    """The groups of roots that a message was acked with, or given up with."""
    return {row["acked_with"], row["joined"]} - {None}


def _name(row: dict[str, Any]) -> tuple[str, str, int]:
    return row["spout"], row["source_partition"], row["source_offset"]


def _conditions(selection: Selection) -> str:
    terms = []
    if selection.spout is not None:
        terms.append(f"spout = {_text(selection.spout)}")
    if selection.positions:
        any_of = [
            f"(source_partition = {_text(p)} AND source_offset = {int(o)})" for p, o in selection.positions
        ]
        terms.append(f"({' OR '.join(any_of)})")
    if selection.since is not None:
        terms.append(f"emitted_at >= to_timestamp('{selection.since.isoformat()}')")
    if selection.until is not None:
        terms.append(f"emitted_at <= to_timestamp('{selection.until.isoformat()}')")
    if selection.reason is not None:
        terms.append(f"strpos(lower(reason), {_text(selection.reason.lower())}) > 0")
    return "".join(f" AND {term}" for term in terms)


def _text(value: str) -> str:
    """A SQL string literal: people's text must not become SQL."""
    return "'" + value.replace("'", "''") + "'"


def refuse_irreversible(topology: Topology, matched: Matched) -> None:
    """Refuse to replay acked messages where a published aggregate could not take them back.

    Raises:
        TopologyError: naming the table and the aggregate.
    """
    if all(m.replaces is None for messages in matched.messages.values() for m in messages):
        return
    for publication in topology.publications.values():
        if publication.by and matched.trimmed:
            raise TopologyError(
                f"{matched.trimmed} of the acked messages cannot be replayed: their tuples were trimmed from "
                f"the streams, so {publication.to} cannot take back what they added. Select messages that "
                "were emitted later, or rebuild the table from its source."
            )
        for column, aggregate in publication.aggregates.items():
            if not aggregate.reversible:
                raise TopologyError(
                    f"Acked messages cannot be replayed: {column} of {publication.to} is a "
                    f"{type(aggregate).__name__}, and what it took in cannot be taken back. "
                    "Drop that column, or rebuild the table from its source."
                )
