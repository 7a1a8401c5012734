"""Names that people misspell."""

from collections.abc import Iterable
from difflib import get_close_matches


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A sentence with the known name that is closest, after a space; empty where none is close."""
    found = get_close_matches(name, list(known), n=1)
    return f" Did you mean {found[0]}?" if found else ""
