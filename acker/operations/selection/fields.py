"""The fields that people fill in, as a form or a command line gives them."""

from collections.abc import Iterable, Mapping
from datetime import UTC, date, datetime
from typing import Any

from acker.core.errors import SettingsError
from acker.core.names import did_you_mean

Fields = Mapping[str, Any]  # by name; one that is empty or missing was not filled in

_KINDS: dict[type, str] = {str: "a text", int: "a whole number", list: "a list of texts"}


def check_known(fields: Fields, known: Iterable[str]) -> None:
    """Refuse fields that a form does not have: whoever misspells one would choose more than they mean.

    Raises:
        SettingsError: there are such fields; the error names them, and those that the form has.
    """
    unknown = sorted(fields.keys() - set(known))
    if unknown:
        raise SettingsError(
            f"The form has no field called {', '.join(f'{name!r:.100}' for name in unknown)}; "
            f"it has {', '.join(known)}.{did_you_mean(unknown[0], known)}"
        )


def text_in(fields: Fields, name: str) -> str | None:
    """The text of a field; None where it was not filled in.

    Raises:
        SettingsError: the field holds something else.
    """
    value: str | None = _of_kind(name, fields.get(name), str)
    return value


def number_in(fields: Fields, name: str) -> int | None:
    """The whole number of a field; None where it was not filled in.

    Raises:
        SettingsError: the field holds something else.
    """
    value: int | None = _of_kind(name, fields.get(name), int)
    return value


def texts_in(fields: Fields, name: str) -> list[str]:
    """The list of texts of a field, which may be empty.

    Raises:
        SettingsError: the field holds something else.
    """
    value = fields.get(name)
    # A command line gives an option that may be repeated as a tuple.
    several = list(value) if isinstance(value, tuple) else _of_kind(name, value, list) or []
    return [_of_kind(name, each, str) or "" for each in several]


def time_in(fields: Fields, name: str) -> datetime | None:
    """The time of a field, in UTC where it names no other zone; None where it was not filled in.

    Raises:
        SettingsError: the field holds no time.
    """
    value = fields.get(name)
    found = value if isinstance(value, datetime) else _parsed_time(name, text_in(fields, name))
    return found.replace(tzinfo=UTC) if found is not None and found.tzinfo is None else found


def day_in(fields: Fields, name: str) -> date | None:
    """The day of a field; None where it was not filled in.

    Raises:
        SettingsError: the field holds no day.
    """
    value = fields.get(name)
    if isinstance(value, date) and not isinstance(value, datetime):
        return value
    text = text_in(fields, name)
    try:
        return date.fromisoformat(text) if text else None
    except ValueError as error:
        raise SettingsError(
            f"{name} is {text!r:.200}, which is no day; write one such as 2026-01-31."
        ) from error


def _parsed_time(name: str, value: str | None) -> datetime | None:
    if value is None:
        return None
    try:
        return datetime.fromisoformat(value)
    except ValueError as error:
        raise SettingsError(
            f"{name} is {value!r:.200}, which is no time; write one such as 2026-01-31T12:00:00Z."
        ) from error


def _of_kind(name: str, value: Any, kind: type) -> Any:
    if value is not None and type(value) is not kind:  # True is no whole number
        raise SettingsError(f"{name} is {value!r:.200}; fill in {_KINDS[kind]}.")
    return value
