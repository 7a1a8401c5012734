"""Arguments of a topology, checked and brought into the form in which it keeps them."""

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

from acker.components.base import Grouping, Input, Stream
from acker.core.authors import place
from acker.core.errors import SettingsError, TopologyError
from acker.core.names import not_storable
from acker.core.paths import absolute, is_within
from acker.core.reasons import Redaction
from acker.targets.aggregate import DeltaAggregate
from acker.targets.append import DeltaAppend
from acker.targets.base import Target
from acker.targets.functions import Aggregate

if TYPE_CHECKING:
    from acker.targets.kafka import KafkaTarget

_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(second|minute|hour|day)s?")
_NAME = re.compile(r"[a-z][a-z0-9_]*")


@contextmanager
def naming(whose: str) -> Iterator[None]:
    """Put the name of the thing that an error is about before the error's message."""
    try:
        yield
    except SettingsError as error:
        raise SettingsError(f"{whose}: {error}") from error


def duration_of(which: str, text: timedelta | str | None) -> timedelta | None:
    """The duration that an argument gives; None where the argument is None.

    Args:
        which: the name of the argument in the error.

    Raises:
        SettingsError: the argument is not a positive duration.
    """
    with naming(which):
        return duration(text)


def duration(text: timedelta | str | None) -> timedelta | None:
    """A duration from a text such as "90 seconds".

    Raises:
        SettingsError: the text is not a positive duration.
    """
    if text is None:
        return None
    if isinstance(text, str):
        match = _DURATION.fullmatch(text.strip())
        if match is None:
            raise SettingsError(
                f"{text!r} is not a duration; write a positive number and a unit, such as '10 minutes'."
            )
        try:
            text = timedelta(**{f"{match[2]}s": float(match[1])})
        except OverflowError as error:
            raise SettingsError(f"{text!r} is too long a duration; None switches timeouts off.") from error
    if text <= timedelta(0):
        raise SettingsError(f"A timeout must be longer than 0, not {text}; None switches timeouts off.")
    return text


def target_of(
    stream: str,
    to: str | Target,
    by: tuple[str, ...],
    aggregates: Mapping[str, Aggregate],
    topic: "KafkaTarget | None",
) -> Target:
    """The target that the arguments of `publish` describe.

    Raises:
        TopologyError: `topic` is given without `by`, or `by` without a path.
    """
    if topic is not None and not by:
        raise TopologyError(
            f"publish of {stream}: `topic` goes with a running aggregate. Give the KafkaTarget as `to`."
        )
    if isinstance(to, str):
        path = absolute(to)
        return DeltaAggregate(path, by, aggregates, topic) if by else DeltaAppend(path)
    if by:
        raise TopologyError(
            f"publish of {stream}: `by` goes with a path, and not with a {type(to).__name__}."
        )
    return to


def is_nested(one: str, other: str) -> bool:
    """Whether one of two places lies in the other."""
    return is_within(one, other) or is_within(other, one)


def redaction_of(name: str, redact: str | Iterable[str] | None) -> Redaction:
    """The redaction that an argument `redact` of a topology describes.

    Raises:
        TopologyError: `redact` has no regular expression that can be used.
    """
    try:
        return Redaction.of(redact)
    except ValueError as error:
        raise TopologyError(
            f"redact of topology {name} cannot be used: {error}. Give it a regular expression, or several, "
            "that match what reasons must not keep."
        ) from error


def day_column_of(name: str, column: str | None) -> str | None:
    """The column that an argument `reprocess_by` of a topology names; None where the argument is None.

    Raises:
        SettingsError: the name is empty, or begins with an underscore.
    """
    if column is not None and (not column.strip() or column.startswith("_")):
        raise SettingsError(
            f"reprocess_by of topology {name} is {column!r:.100}, which names no column of its messages. "
            "Name one that a spout emits."
        )
    return column


def check_name(what: str, name: str) -> None:
    """Refuse a name that a component or topology cannot have."""
    if not _NAME.fullmatch(name):
        raise TopologyError(
            f"{name!r} cannot name a {what}: use lower case letters, digits and underscores, a letter first."
        )


def bolt_name(name: str | None, code: Any) -> str:
    """The name of a bolt: the given one, or else that of its function or class.

    Raises:
        TopologyError: the function is a lambda, and no name is given.
    """
    made = code.func if isinstance(code, partial) else code
    found = name or str(getattr(made, "__name__", type(made).__name__))
    if found == "<lambda>":
        raise TopologyError(f'A lambda has no name{place()}. Give the bolt one, such as name="items".')
    return found


def check_aggregates(stream: str, keys: Iterable[str], aggregates: Iterable[str]) -> None:
    """Refuse columns of a running aggregate whose names are reserved, not storable, or there twice."""
    keys = [key.lower() for key in keys]
    for key in keys:
        if keys.count(key) > 1:
            raise TopologyError(f"publish of {stream} has {key} twice in `by`{place()}. Name it once.")
    for column in aggregates:
        if strange := not_storable(column):
            raise TopologyError(
                f"aggregates of publish {stream} have {column!r}{place()}, whose name has {strange}. "
                "Rename it."
            )
        if column.startswith("_"):
            raise TopologyError(
                f"aggregates of publish {stream} have {column}{place()}: names that begin with an underscore "
                "are reserved; rename it."
            )
        if column.lower() in keys:
            raise TopologyError(
                f"publish of {stream} has {column} in `by` and in `aggregates`{place()}. Rename the latter."
            )


def grouping_of(each: Stream | str) -> Grouping | None:
    """The grouping of an input; None where it has none."""
    return each.grouping if isinstance(each, Input) else None


def check_ungrouped(bolt: str, inputs: Iterable[Stream | str]) -> None:
    """Refuse a grouping for a bolt that has no tasks to share its inputs among."""
    if any(grouping_of(each) for each in inputs):
        raise TopologyError(
            f"Bolt {bolt} takes no grouping: Spark spreads its batch as it likes, and nothing is kept from "
            "one tuple to the next. Group within a DataFrame bolt, or make it a rich bolt."
        )
