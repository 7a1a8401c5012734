"""The selection of messages for a replay by hand. `matching` finds the messages."""

from dataclasses import asdict, dataclass
from datetime import date, datetime
from typing import Any

from acker.core.errors import SettingsError
from acker.core.events import SELECTABLE, State
from acker.core.messages import MessageId, parse_position
from acker.core.names import did_you_mean
from acker.core.quoting import check_text
from acker.operations.selection.conditions import MOST_CHARACTERS, check_condition
from acker.operations.selection.fields import Fields, day_in, number_in, text_in, texts_in, time_in
from acker.topology.topology import Topology

MOST_POSITIONS = 10_000  # the record of the request holds them

_STATES = {state.value for state in State}

_OF_DAYS = ("day", "day_column")

_OF_ONE_SPOUT = "A condition speaks of the columns of one spout"

# The fields that mean nothing without states.
_NARROWING = (
    *("spout", "positions", "messages", "partition", "component"),
    *("since", "until", "reason", "where", "limit", *_OF_DAYS),
)


@dataclass(frozen=True)
class Selection:
    """The messages to replay by hand, by the newest state of each. Conditions are joined by AND.

    Args:
        states: states of `SELECTABLE`; messages in flight cannot be chosen.
        spout: a spout's name.
        positions: (source_partition, source_offset).
        partition: a pattern of source partitions, in which `*` is any text and `?` one character.
        component: the component that failed the messages.
        since, until: bounds of the time of emission, both included.
        reason: text that the reason contains, in upper or lower case.
        where: a SQL condition on the columns of the spout's messages; see
            `acker.operations.selection.conditions`.
        limit: at most so many messages, those with the lowest positions.
        day: the day, in UTC, on which a message was first emitted, or which it says itself; see
            `acker.operations.selection.days`.
        day_column: the column in which messages say their day; None: the day of the emission counts.
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
    day: date | None = None
    day_column: str | None = None

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
        for what in ("reason", "partition", "component", "day_column"):
            check_text(f"The {what}", getattr(self, what) or "")
        if len(self.partition or "") > MOST_CHARACTERS:
            raise SettingsError(
                f"The pattern of partitions has {len(self.partition or ''):,} characters, and "
                f"{MOST_CHARACTERS:,} may be; write a shorter one with * in it."
            )
        if self.day_column is not None and self.day is None:
            raise SettingsError(f"Choose a day as well: day_column is {self.day_column!r:.100}.")
        if self.where is not None:
            check_condition(self.where)
            if not self.spout:
                raise SettingsError(f"{_OF_ONE_SPOUT}: choose one as well.")
        for partition, _ in self.positions:
            check_text("The partition", partition)

    def as_dict(self) -> dict[str, Any]:
        """The fields by name. Fields of days are left out where they are None, as before there were any."""
        fields = asdict(self)
        return {name: fields[name] for name in fields if name not in _OF_DAYS or fields[name] is not None}

    @classmethod
    def parse(cls, fields: Fields, topology: Topology) -> "Selection | None":
        """The selection that a person has filled in; None where nothing is chosen, which means due messages.

        Args:
            fields: `states`, `spout`, `partition`, `component`, `since`, `until`, `reason`, `where`, `limit`,
                `day` and `day_column` as a selection has them. Times and days may be texts. `positions` are
                PARTITION:OFFSET of the spout, and `messages` are SPOUT:PARTITION:OFFSET. The spout may be
                left out where there is only one. Other fields are passed over.

        Raises:
            SettingsError: a field is of the wrong type; its value is not a valid state, position, time, day
                or condition; positions or a condition come without a spout where there are several; messages
                are of several spouts; or something is chosen without states.
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
            day=day_in(fields, "day"),
            day_column=text_in(fields, "day_column") or None,
        )


def _states(fields: Fields) -> tuple[State, ...]:
    """The states that are chosen; none where no field of a selection is filled in.

    Raises:
        SettingsError: other fields are filled in and no states are chosen, or a text is no state.
    """
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
    """The chosen spout, if any, and the chosen positions of its messages."""
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
    """The only spout of a topology, where none is chosen and one is needed.

    Args:
        why: the reason why one is needed, as the beginning of a sentence.

    Raises:
        SettingsError: the topology has several spouts; the error begins with `why`.
    """
    names = [spout.name for spout in topology.spouts]
    if len(names) > 1:
        raise SettingsError(f"{why}: choose one of {', '.join(names)} as well.")
    return names[0]
