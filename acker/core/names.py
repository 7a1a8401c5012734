"""Names that people type: those that they misspell, and those by which a command finds a topology."""

from collections.abc import Iterable
from difflib import get_close_matches


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A sentence with the known name that is closest, after a space; empty where none is close."""
    found = get_close_matches(name, list(known), n=1)
    return f" Did you mean {found[0]}?" if found else ""


def not_storable(name: str) -> str | None:
    """The part of a name that no table can store, in the words of errors; None where there is none."""
    if "\0" in name:
        return "the character NUL"
    try:
        name.encode()
    except UnicodeEncodeError:
        return "half of a surrogate pair, which is no character"
    return None


_TYPED: dict[str, str] = {}  # name of a topology -> that, or the import string, by which it was found last


def found_by(topology: str, typed: str) -> None:
    """Remember the name or import string by which the caller of a command named a topology."""
    _TYPED[topology] = typed


def called(topology: str) -> str:
    """The argument that names a topology to a command: the import string that found it, else its name."""
    return _TYPED.get(topology, topology)
