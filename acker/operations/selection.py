"""Which messages a replay by hand chooses, and why it may not."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from acker.core.delta import Store, query
from acker.core.errors import SettingsError, TopologyError
from acker.core.events import SELECTABLE, State
from acker.core.ledger import Fold, newest_rows
from acker.core.messages import MessageId, message_of, parse_position
from acker.core.names import did_you_mean
from acker.core.quoting import check_text, sql_glob, sql_text
from acker.core.snapshot import Snapshot
from acker.core.trims import newest_trim
from acker.operations.conditions import check_condition, messages_where
from acker.operations.fields import Fields, number_in, text_in, texts_in, time_in
from acker.topology.topology import Topology

MOST_POSITIONS = 10_000  # DataFusion ends the process on a list that is ten times as long

_STATES = {state.value for state in State}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)

MOST_LISTED = 20  # messages of a dry run that are listed

_OF_ONE_SPOUT = "A condition speaks of the columns of one spout"

# The fields that mean nothing without states.
_NARROWING = (
    *("spout", "positions", "messages", "partition", "component"),
    *("since", "until", "reason", "where", "limit"),
)


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
        partition: a pattern of source partitions, in which `*` is any text and `?` one character.
        component: that failed them.
        since, until: bounds of the time of emission, both included.
        reason: text that the reason contains, in upper or lower case.
        where: a SQL condition on the columns of the spout's messages; see `acker.operations.conditions`.
        limit: at most so many messages, those with the lowest positions.
    """

    states: tuple[State, ...] = (State.DEAD_LETTER,)
    spout: str | None = None
    positions: tuple[tuple[str, int], ...] = ()
    partition: str | None = None
    component: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    reason: str | None = None
    where: str | None = None
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
        if len(self.positions) > MOST_POSITIONS:
            raise SettingsError(
                f"{len(self.positions):,} messages are named, and {MOST_POSITIONS:,} may be; name them in "
                "several replays, or choose them by time or reason."
            )
        for what in ("reason", "partition", "component"):
            check_text(f"The {what}", getattr(self, what) or "")
        if self.where is not None:
            check_condition(self.where)
            if not self.spout:
                raise SettingsError(f"{_OF_ONE_SPOUT}: choose one as well.")
        for partition, _ in self.positions:
            check_text("The partition", partition)

    @classmethod
    def parse(cls, fields: Fields, topology: Topology) -> "Selection | None":
        """The selection that a person has filled in; None where it is what is due, without any choice.

        Args:
            fields: `states`, `spout`, `partition`, `component`, `since`, `until`, `reason`, `where` and
                `limit` as a selection has them. Times may be texts. `positions` are PARTITION:OFFSET of the
                spout, and `messages` are SPOUT:PARTITION:OFFSET. The spout may be left out where there is
                only one. Other fields are passed over.

        Raises:
            SettingsError: a field is of another type, a state, position or time is none, positions come
                or a condition come without a spout where there are several, messages are of several
                spouts, or something else is chosen than states.
            UnknownMessage: a message is not SPOUT:PARTITION:OFFSET.
        """
        states = _states(fields)
        if not states:
            return None
        spout, positions = _named(fields, topology)
        where = text_in(fields, "where") or None
        if where and not spout:
            spout = _only_spout(topology, _OF_ONE_SPOUT)
        return cls(
            states=states,
            spout=spout,
            positions=positions,
            partition=text_in(fields, "partition") or None,
            component=text_in(fields, "component") or None,
            since=time_in(fields, "since"),
            until=time_in(fields, "until"),
            reason=text_in(fields, "reason"),
            where=where,
            limit=number_in(fields, "limit"),
        )


def _states(fields: Fields) -> tuple[State, ...]:
    """The states that are chosen; none where nothing else is chosen either."""
    states = texts_in(fields, "states")
    narrowing = [name for name in _NARROWING if fields.get(name)]
    if not states and narrowing:
        raise SettingsError(
            f"Choose states as well: {', '.join(narrowing)} can only narrow a choice of states. "
            "With nothing chosen, all messages that are due are replayed."
        )
    unknown = [state for state in states if state not in _STATES]
    if unknown:
        raise SettingsError(
            f"{unknown[0]!r:.200} is no state; choose among {', '.join(SELECTABLE)}."
            f"{did_you_mean(unknown[0], SELECTABLE)}"
        )
    return tuple(State(state) for state in states)


def _named(fields: Fields, topology: Topology) -> tuple[str | None, tuple[tuple[str, int], ...]]:
    """The spout that is chosen, if any, and the positions of its messages that are."""
    spout = text_in(fields, "spout")
    positions = []
    for each in texts_in(fields, "positions"):
        position = parse_position(each)
        if position is None:
            raise SettingsError(f"{each!r:.200} is not a position; write PARTITION:OFFSET.")
        positions.append(position)
    spouts = [each.name for each in topology.spouts]
    if positions and not spout:
        spout = _only_spout(topology, "Positions belong to a spout")
    messages = [MessageId.parse(each, topology.name, spouts) for each in texts_in(fields, "messages")]
    if len({message.spout for message in messages} | ({spout} if spout else set())) > 1:
        raise SettingsError("Choose messages of one spout at a time.")
    positions += [(message.source_partition, message.source_offset) for message in messages]
    return messages[0].spout if messages else spout, tuple(positions)


def _only_spout(topology: Topology, why: str) -> str:
    """The spout where none is chosen and one is needed.

    Args:
        why: it is needed, as the beginning of a sentence.
    """
    names = [spout.name for spout in topology.spouts]
    if len(names) > 1:
        raise SettingsError(f"{why}: choose one of {', '.join(names)} as well.")
    return names[0]


@dataclass(frozen=True)
class Listed:
    """One message as a dry run lists it."""

    message: str
    attempt: int  # the one to come
    state: str  # the newest
    component: str | None  # that failed it
    reason: str | None

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> "Listed":
        """A row of the ledger, the newest of its message."""
        reason = None if row["reason"] is None else row["reason"].partition("\n")[0]
        return cls(str(message_of(row)), _next_attempt(row), str(row["state"]), row["component"], reason)


@dataclass(frozen=True)
class Matched:
    """What a selection finds in the ledger."""

    messages: dict[str, list[Emission]]  # by spout
    in_flight: int  # that match but for their state
    trimmed: int = 0  # acked ones whose tuples may be gone from the streams
    listed: tuple[Listed, ...] = ()  # of the messages, the first `MOST_LISTED`
    unseen: int = 0  # of which `where` cannot tell, since their rows were trimmed from the spout's stream

    @property
    def count(self) -> int:
        """Messages to replay."""
        return sum(len(messages) for messages in self.messages.values())


def select(topology: Topology, snapshot: Snapshot, selection: Selection) -> Matched:
    """Find what a selection matches, by each message's newest row in the ledger.

    Messages bring those along with which they were acked or given up, since they share tuples.
    """
    fold = snapshot.fold
    if fold is None:
        return Matched({}, 0)
    _check_names(topology, fold, selection)
    chosen = " OR ".join(f"state = '{state}'" for state in selection.states)
    rows = _newest(snapshot.store, fold, f"(state = 'pending' OR {chosen}) {_conditions(selection)}")
    wanted = set(selection.positions)
    there = [
        row
        for row in rows
        if row["spout"] in topology.components  # one that is gone emits nothing
        and (not wanted or (row["source_partition"], row["source_offset"]) in wanted)
    ]
    there, unseen = _where(snapshot, selection, there)
    found = [row for row in there if row["state"] != State.PENDING]
    chosen_rows = found[: selection.limit]
    partners = _partners(topology, snapshot.store, fold, chosen_rows)
    messages: dict[str, list[Emission]] = {}
    emitted = chosen_rows + [row for row in partners if row["state"] != State.PENDING]
    for row in emitted:
        position = row["source_partition"], row["source_offset"]
        emission = Emission(*position, _next_attempt(row), row["replaces"])
        messages.setdefault(row["spout"], []).append(emission)
    trimmed = sum(1 for row in chosen_rows + partners if row["gone"])
    listed = tuple(Listed.of(row) for row in emitted[:MOST_LISTED])
    return Matched(messages, len(there) - len(found), trimmed, listed, unseen)


def _where(
    snapshot: Snapshot, selection: Selection, rows: list[dict[str, Any]]
) -> tuple[list[dict[str, Any]], int]:
    """The rows whose messages fulfil the selection's condition, and of how many nobody can tell any more."""
    if selection.where is None or selection.spout is None:
        return rows, 0
    holds = messages_where(snapshot, selection.spout, selection.where)
    answers = [holds.get((row["source_partition"], row["source_offset"])) for row in rows]
    return [row for row, answer in zip(rows, answers, strict=True) if answer], answers.count(None)


def _check_names(topology: Topology, fold: Fold, selection: Selection) -> None:
    """Refuse a spout that the topology does not have, and a component that it never had."""
    spouts = [spout.name for spout in topology.spouts]
    if selection.spout is not None and selection.spout not in spouts:
        raise SettingsError(
            f"Topology {topology.name} has no spout called {selection.spout}; choose one of "
            f"{', '.join(spouts)}.{did_you_mean(selection.spout, spouts)}"
        )
    components = {*topology.components, *fold.logged}
    if selection.component is not None and selection.component not in components:
        raise SettingsError(
            f"Topology {topology.name} has no component called {selection.component}; choose one of "
            f"{', '.join(topology.components)}.{did_you_mean(selection.component, components)}"
        )


def _next_attempt(row: Mapping[str, Any]) -> int:
    """A retrying row names the attempt to come, every other one the attempt that was."""
    return int(row["attempt"] + (row["state"] != State.RETRYING))


def _newest(store: Store, fold: Fold, where: str) -> list[dict[str, Any]]:
    """The newest row of each message, with the acked root that a replay replaces, if any.

    Args:
        where: a SQL condition on the rows, and on `acked_with`, the `joined` of the acked root.
    """
    return query(
        f"""
        WITH {newest_rows(fold.number)},
        acked AS (
            SELECT spout AS s, source_partition AS p, source_offset AS o, max(attempt) AS attempt
            FROM current WHERE state = 'acked' GROUP BY spout, source_partition, source_offset),
        replaced AS (
            SELECT s, p, o, root_id AS replaces, joined AS acked_with, {newest_trim(store).is_gone()} AS gone
            FROM acked JOIN current ON spout = s
            AND source_partition = p AND source_offset = o AND current.attempt = acked.attempt
            AND state = 'acked')
        SELECT spout, source_partition, source_offset, state, attempt, replaced.replaces AS replaces,
            acked_with, newest.joined AS joined, gone, component, reason
        FROM newest LEFT JOIN replaced ON spout = s AND source_partition = p AND source_offset = o
        WHERE {where}
        ORDER BY spout, source_partition, source_offset
        """,
        # As of the fold: a compaction drops the live rows of folds before the newest.
        ledger=fold.ledger,
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
    there = {message_of(row) for row in chosen}
    joined = _newest(store, fold, "(acked_with IS NOT NULL OR joined IS NOT NULL)")
    found = [row for row in joined if _groups(row) & groups and message_of(row) not in there]
    for row in found:
        if row["spout"] not in topology.components:
            raise TopologyError(
                f"{message_of(row)} was settled together with a chosen message and would have to be "
                "replayed with it, but its spout is gone. Bring the spout back, or choose other messages."
            )
    return found


def _groups(row: dict[str, Any]) -> set[int]:
    """The groups of roots that a message was acked with, or given up with."""
    return {row["acked_with"], row["joined"]} - {None}


def _conditions(selection: Selection) -> str:
    terms = []
    if selection.spout is not None:
        terms.append(f"spout = {sql_text(selection.spout)}")
    if selection.positions:
        # More than the pairs, of which DataFusion takes minutes for thousands; `select` looks these through.
        partitions, offsets = (set(each) for each in zip(*selection.positions, strict=True))
        terms.append(f"source_partition IN ({', '.join(sorted(map(sql_text, partitions)))})")
        terms.append(f"source_offset IN ({', '.join(str(int(offset)) for offset in sorted(offsets))})")
    if selection.partition is not None:
        terms.append(f"source_partition LIKE {sql_glob(selection.partition)}")
    if selection.component is not None:
        terms.append(f"component = {sql_text(selection.component)}")
    if selection.since is not None:
        terms.append(f"emitted_at >= {_time(selection.since)}")
    if selection.until is not None:
        terms.append(f"emitted_at <= {_time(selection.until)}")
    if selection.reason is not None:
        terms.append(f"strpos(lower(reason), {sql_text(selection.reason.lower())}) > 0")
    return "".join(f" AND {term}" for term in terms)


def _time(value: datetime) -> str:
    """A time in SQL. A text would be taken for nanoseconds, which do not reach far."""
    return f"to_timestamp_micros({(value - _EPOCH) // _MICROSECOND})"


def check_reversible(topology: Topology, matched: Matched) -> None:
    """Refuse to replay acked messages where a target could not take them back.

    Raises:
        TopologyError: naming the table and the aggregate.
    """
    if all(m.replaces is None for messages in matched.messages.values() for m in messages):
        return
    for publication in topology.publications.values():
        if publication.target.takes_back and matched.trimmed:
            raise TopologyError(
                f"{matched.trimmed} of the acked messages cannot be replayed: their tuples were trimmed from "
                f"the streams, so {publication.to} cannot take back what they added. Select messages that "
                "were emitted later, or rebuild the table from its source."
            )
        reason = publication.target.irreversible()
        if reason is not None:
            raise TopologyError(f"Acked messages cannot be replayed: {reason}")
