"""Patterns of file names, in the syntax of Spark's `pathGlobFilter`.

`*` and `?`, `[a-c]` and `[!a]`, `{this,that}`, and a backslash before a character that is meant as it is.
"""

import re
from functools import cache

from acker.core.errors import SourceError


def matches(name: str, pattern: str) -> bool:
    """Whether the whole name fits the pattern.

    Raises:
        SourceError: the text is no pattern.
    """
    return _compiled((pattern,)).fullmatch(name) is not None


def first_match(name: str, patterns: tuple[str, ...]) -> str | None:
    """The first of some patterns that the whole name fits.

    Raises:
        SourceError: one of the texts is no pattern.
    """
    if _compiled(patterns).fullmatch(name) is None:
        return None
    return next(pattern for pattern in patterns if matches(name, pattern))


@cache
def _compiled(patterns: tuple[str, ...]) -> re.Pattern[str]:
    """The regular expression of the names that fit any of the patterns."""
    parts = [_as_checked_regex(pattern) for pattern in patterns]
    return re.compile("|".join(parts) if parts else "(?!)", re.DOTALL)


def _as_checked_regex(pattern: str) -> str:
    try:
        found = _as_regex(pattern)
        re.compile(found)
    except (re.error, IndexError) as error:
        raise SourceError(
            f"{pattern!r} is not a pattern of file names. Close every [ and {{, and write a backslash "
            "before a character that is meant as it is."
        ) from error
    return found


def _as_regex(pattern: str) -> str:
    found, braces, place = "", 0, 0
    while place < len(pattern):
        character = pattern[place]
        if character == "\\":
            place += 1
            found += re.escape(pattern[place])
        elif character == "[":
            place, members = _class(pattern, place)
            found += members
        elif character == "{":
            braces += 1
            found += "(?:"
        elif character == "}" and braces:
            braces -= 1
            found += ")"
        elif character == "," and braces:
            found += "|"
        else:
            found += {"*": ".*", "?": "."}.get(character, re.escape(character))
        place += 1
    return found  # a brace that is not closed is a group that is not


def _class(pattern: str, start: int) -> tuple[int, str]:
    """The place of the bracket that closes a class of characters, and the class as a regular expression."""
    end = pattern.index("]", start + 1) if "]" in pattern[start:] else len(pattern)
    members = pattern[start + 1 : end]
    inverse = members[:1] in ("!", "^")
    escaped = re.sub(r"[\[&~|^]", r"\\\g<0>", members[inverse:])
    return end, f"[{'^' if inverse else ''}{escaped}{']' if end < len(pattern) else ''}"
