"""The form of a replay by hand: its fields, each with a description and examples from the topology."""

import re
from collections.abc import Sequence
from typing import Any

from airflow.sdk import Param

from acker.airflow.wiring import SETTINGS
from acker.core.events import SELECTABLE, State
from acker.core.quoting import column_name
from acker.runtime.manifest import ComponentManifest, Manifest

STATES = [state.value for state in SELECTABLE]

_NARROWER = "Only some of them"  # the section of the fields that are needed seldom; Airflow opens the others
_MOST_COLUMNS = 8  # that are told
_EXAMPLES = {
    "'2026-01-31'": ("date", "timestamp", "timestamp_ntz"),
    "'wine'": ("string", "varchar", "char"),
    "17": ("bigint", "long", "int", "integer", "smallint", "short", "double", "decimal", "float"),
}


def form(manifest: Manifest) -> dict[str, Param]:
    """The fields of the trigger form; Airflow checks each by its schema, and shows them in this order."""
    return {**_which(manifest), **_narrower(manifest)}


def _which(manifest: Manifest) -> dict[str, Param]:
    return {
        "states": Param(
            [State.DEAD_LETTER.value],
            type="array",
            items={"type": "string", "enum": STATES},
            minItems=1,
            examples=STATES,
            description_md=_states(manifest),
        ),
        "reason": _text(
            "Only those whose reason contains this text. The command acker failures "
            f"{manifest.name} lists the reasons."
        ),
        "why": _text(_why(), maxLength=1000),
        "dry_run": Param(
            False,
            type="boolean",
            description="Emit nothing: count the messages, and list the first 20 in the log of select.",
        ),
    }


def _narrower(manifest: Manifest) -> dict[str, Param]:
    spouts = [spout.name for spout in manifest.spouts]
    components = [component.name for component in manifest.components]
    one = "" if len(spouts) == 1 else " of the chosen spout"
    times = "in the time zone of this page, and in UTC where a call of the API names none."
    return {
        "spout": _choice(spouts, "Only this spout's messages."),
        "positions": Param(
            None,
            type=["null", "array"],
            items={"type": "string", "pattern": "^.+:-?[0-9]+$"},
            section=_NARROWER,
            description=f"Only these{one}, each PARTITION:OFFSET, one a line. A message that is called "
            f"{spouts[0]}:monday.json:2 elsewhere is monday.json:2 here.",
        ),
        "where": _text(
            f"Only those whose own columns{one} fulfil this SQL condition. {_columns(manifest)}",
            section=_NARROWER,
        ),
        "partition": _text(
            "Only source partitions of this pattern, in which * is any text and ? one character: 2026-01-*",
            section=_NARROWER,
        ),
        "component": _choice(components, "Only those whose failure was in this component."),
        "since": _time(f"Only those that were last emitted at this time or later, {times}"),
        "until": _time(f"Only those that were last emitted at this time or earlier, {times}"),
        "limit": Param(
            None,
            type=["null", "integer"],
            minimum=1,
            section=_NARROWER,
            description="At most so many messages, those with the lowest positions.",
        ),
    }


def _states(manifest: Manifest) -> str:
    """The description of the states to choose from, in Markdown.

    It has no code, which would cover the lines above and below.
    """
    published = ", ".join(manifest.tables)
    replaced = f"what they have published of {published} is replaced once their new attempt is acked"
    return (
        "Which messages to emit again, by what became of each last:\n\n"
        "- **dead_letter**: they were given up\n"
        "- **lost**: they were gone from their source\n"
        f"- **acked**: {replaced if published else 'they were processed, and are once more'}\n"
        "- **retrying**: they failed, and are emitted now and not when they are due"
    )


def _why() -> str:
    return (
        "Why you ask; it is kept in replay_requests. More than "
        f"{SETTINGS.approval_limit:,} messages, with what else you have asked for within a day, are emitted "
        f"only if somebody approves it within {SETTINGS.approval_hours:,} hours, who is told this."
    )


def _columns(manifest: Manifest) -> str:
    """The columns of the spouts, as far as they are known, and a condition on one of them."""
    known = [spout for spout in manifest.spouts if spout.columns]
    if not known:
        return "Such as day = '2026-01-31'."
    told = "; ".join(f"{spout.name} has {_listed(spout)}" for spout in known)
    return f"{told}. Such as {_condition(known[0])}."


def _listed(spout: ComponentManifest) -> str:
    names = [*spout.columns]
    more = f" and {len(names) - _MOST_COLUMNS:,} more" if len(names) > _MOST_COLUMNS else ""
    return f"{', '.join(names[:_MOST_COLUMNS])}{more}"


def _condition(spout: ComponentManifest) -> str:
    """An example of a SQL condition on one of a spout's columns.

    The first column with a date or time is taken, or else the first with text, or else the first with
    numbers. Without such a column the condition is that the first column is not null.
    """
    for value, kinds in _EXAMPLES.items():
        for column, kind in spout.columns.items():
            if kind in kinds:
                return f"{_name(column)} = {value}"
    return f"{_name(next(iter(spout.columns)))} IS NOT NULL"


def _name(column: str) -> str:
    """A column as a condition names it: without quotes where it is a plain word."""
    return column if re.fullmatch("[a-z_][a-z0-9_]*", column) else column_name(column)


def _text(description: str, **schema: Any) -> Param:
    return Param(None, type=["null", "string"], description=description, **schema)


def _choice(names: Sequence[str], description: str) -> Param:
    return Param(
        None,
        type=["null", "string"],
        enum=[None, *names],
        values_display={"null": "any"},
        section=_NARROWER,
        description=description,
    )


def _time(description: str) -> Param:
    return Param(
        None, type=["null", "string"], format="date-time", section=_NARROWER, description=description
    )
