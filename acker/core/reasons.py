"""Reasons: texts on why a message failed or a batch is held, which people read and tables keep.

A reason may quote a row. So each reason passes the `Redaction` of its topology before it is written, which
puts `***` in the place of secrets. A secret that is cut at the end of a quotation would not be recognized. So
code that quotes a part of a text hands on the rest as well, between two marks. The redaction looks at the
rest too, and removes it.

The module is pickled by value, so a worker needs no other module of this project.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

LONGEST_REASON = 1_000  # characters; a reason is read by people
LONGEST_TOLD = 5 * LONGEST_REASON  # of a reason before its redaction
STARS = "***"

# Around what is not shown. Unicode leaves both to programs, for marks of their own.
_REST, _END = "\ufdd0", "\ufdd1"
UNSHOWN = f"{_REST}[^{_END}]*{_END}?"  # a regular expression, alike in Python and in Java


def shown(text: str, characters: int) -> str:
    """The beginning of a text as a reason quotes it, with the next part between the marks of unshown text."""
    rest = text[characters : characters + LONGEST_REASON]
    return f"{text[:characters]}{_REST}{rest}{_END}" if rest else text


@dataclass(frozen=True)
class Redaction:
    """The replacement of secrets in reasons.

    Args:
        patterns: regular expressions of Python's module `re`; each match is replaced.
    """

    patterns: tuple[str, ...] = ()

    @classmethod
    def of(cls, patterns: str | Iterable[str] | None) -> "Redaction":
        """The redaction by one pattern, by several, or by none.

        Raises:
            ValueError: a pattern is no text, is no regular expression, or matches the empty text. The message
                names the pattern and the reason.
        """
        found = (patterns,) if isinstance(patterns, str) else tuple(patterns or ())
        for pattern in found:
            if not isinstance(pattern, str):
                raise ValueError(f"{pattern!r:.200} is no text")
            try:
                matches_nothing = re.compile(pattern).match("") is not None
            except (re.error, RecursionError, OverflowError) as error:
                raise ValueError(f"{pattern!r:.200} is no regular expression of Python: {error}") from error
            if matches_nothing:
                raise ValueError(f"{pattern!r:.200} matches nothing at all, so it tells no secret")
        return cls(found)

    def __call__(self, text: str) -> str:
        """A reason as it may be kept: at most `LONGEST_REASON` characters, without any secret."""
        whole = ""
        hidden: set[int] = set()
        for number, part in enumerate(re.split(f"({UNSHOWN})", text[:LONGEST_TOLD])):
            if number % 2:
                part = part.strip(_REST + _END)
                hidden.update(range(len(whole), len(whole) + len(part)))
            whole += part
        kept, place = "", 0
        for start, end in [*_merged(self._matches(whole)), (len(whole), len(whole))]:
            kept += "".join(whole[each] for each in range(place, start) if each not in hidden)
            if any(each not in hidden for each in range(start, end)):
                kept += STARS
            place = end
        return kept[:LONGEST_REASON]

    def _matches(self, text: str) -> Iterator[tuple[int, int]]:
        for pattern in self.patterns:
            yield from (match.span() for match in re.finditer(pattern, text) if match.end() > match.start())


def _merged(spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Spans in their order, with overlapping ones merged."""
    found: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if found and start < found[-1][1]:
            found[-1] = found[-1][0], max(end, found[-1][1])
        else:
            found.append((start, end))
    return found
