"""News for an operator since the last message: a finding is told when it begins, changes and ends."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from acker.reports.looks import Finding, Hidden, time_of

LONGEST = 2_000  # characters of a finding that are kept
_LISTED = 10  # findings of a kind that a message lists


@dataclass(frozen=True)
class Told:
    """A finding that stands, and when it was told.

    Args:
        since: when a look first found it.
        told_at: when it was last told.
    """

    finding: Finding
    since: datetime
    told_at: datetime


@dataclass(frozen=True)
class News:
    """The findings to tell after a look; `str` is the message, with a line for each finding.

    Args:
        begun: findings that were not there at the last look.
        changed: findings that were there, and have another grade now.
        again: findings that have stood for so long since they were told that they are told again.
        over: findings that were there and are not any more.
        stands: all findings that are there now.
    """

    begun: Sequence[Told]
    changed: Sequence[Told]
    again: Sequence[Told]
    over: Sequence[Told]
    stands: Sequence[Told]

    @property
    def is_alarm(self) -> bool:
        """Whether there are findings to tell besides those that are over."""
        return bool(self.begun or self.changed or self.again)

    def __str__(self) -> str:
        lines = [*_lines("New", self.begun), *_lines("Changed", self.changed), *_lines("Still", self.again)]
        lines += [f"Over: {_first(each)}" for each in self.over]
        others = len(self.stands) - len(self.begun) - len(self.changed) - len(self.again)
        if others:
            lines.append(f"{others:,} more stand{'s' if others == 1 else ''} that you were told of before.")
        return "\n".join(lines)


def _lines(how: str, told: Sequence[Told]) -> list[str]:
    lines: list[str] = []
    of_kind: dict[str, list[Told]] = {}
    for each in told:
        of_kind.setdefault(each.finding.kind, []).append(each)
    for kind, found in of_kind.items():
        since = (f"{how}: " if how == "New" else f"{how}, since {time_of(each.since)}: " for each in found)
        lines += [f"{begin}{each.finding}" for begin, each in zip(since, found[:_LISTED], strict=False)]
        if len(found) > _LISTED:
            lines.append(f"{how}: {len(found) - _LISTED:,} more {kind.replace('-', ' ')}.")
    return lines


def _first(told: Told) -> str:
    """The first sentence of a finding, and since when it was there."""
    sentence = told.finding.said.partition(". ")[0].rstrip(".")
    return f"{sentence} (since {time_of(told.since)})."


def news_of(before: Sequence[Told], found: Sequence[Finding], now: datetime, again_after: timedelta) -> News:
    """Compare a look with what was told before.

    Args:
        before: the findings that stood after the last look.
        found: the findings of this look.
        again_after: after how long a finding that stands is told again; zero: never.
    """
    known = {(each.finding.kind, each.finding.subject): each for each in before}
    begun, changed, again, stands = [], [], [], []
    for finding in found:
        last = known.pop((finding.kind, finding.subject), None)
        if last is None:
            told = Told(finding, now, now)
            begun.append(told)
        elif last.finding.grade != finding.grade[:LONGEST]:
            told = Told(finding, last.since, now)
            changed.append(told)
        elif again_after and now - last.told_at >= again_after:
            told = Told(finding, last.since, now)
            again.append(told)
        else:
            told = Told(finding, last.since, last.told_at)
        stands.append(told)
    hidden = tuple(pair for finding in found for pair in finding.hides)
    kept = [each for each in known.values() if _is_hidden(each.finding, hidden)]
    over = [each for each in known.values() if each not in kept]
    return News(begun, changed, again, over, [*stands, *kept])


def _is_hidden(finding: Finding, hidden: Hidden) -> bool:
    return any(
        kind in (None, finding.kind) and subject in (None, finding.subject) for kind, subject in hidden
    )


def to_json(told: Sequence[Told]) -> str:
    """The standing findings as JSON, which is kept from look to look."""
    return json.dumps(
        [
            {
                "kind": each.finding.kind,
                "subject": each.finding.subject,
                "said": each.finding.said[:LONGEST],
                "grade": each.finding.grade[:LONGEST],
                "since": each.since.isoformat(),
                "told_at": each.told_at.isoformat(),
            }
            for each in told
        ]
    )


def from_json(text: str | None) -> list[Told]:
    """The findings that stood after the last look, from the text that `to_json` made.

    If the text is missing or cannot be read, there are none, so that all findings are told again.
    """
    try:
        return [_told(each) for each in json.loads(text or "[]")]
    except (ValueError, TypeError, KeyError):
        return []


def _told(kept: dict[str, Any]) -> Told:
    finding = Finding(kept["kind"], kept["subject"], kept["said"], kept["grade"])
    return Told(finding, *(datetime.fromisoformat(kept[name]) for name in ("since", "told_at")))
