"""What an operator is told after a look: what began, changed, has lasted for a day, and is over."""

from datetime import UTC, datetime, timedelta

import pytest

from acker.reports.looks import EVERYTHING, Finding
from acker.reports.news import from_json, news_of, to_json

START = datetime(2026, 1, 1, tzinfo=UTC)
DAY = timedelta(days=1)
HELD = Finding("held", "priced", "priced holds batch 3.", grade="3: no route")
FULL = Finding("full-disks", "/data", "The disk is full.", grade="2")


def looks(*found, again_after=DAY):
    """The news of looks five minutes apart, each kept and read as between two tasks."""
    kept, news = None, []
    for n, each in enumerate(found):
        news.append(news_of(from_json(kept), each, START + n * timedelta(minutes=5), again_after))
        kept = to_json(news[-1].stands)
    return news


def said(news):
    return [str(each).splitlines() for each in news]


def test_a_finding_is_told_once_and_once_more_when_it_is_over():
    assert said(looks([], [HELD], [HELD], [HELD], [], [])) == [
        [],
        ["New: priced holds batch 3. See docs/how-to/alerts.md#held."],
        ["1 more stands that you were told of before."],
        ["1 more stands that you were told of before."],
        ["Over: priced holds batch 3 (since 2026-01-01 00:05 UTC)."],
        [],
    ]
    assert [each.is_alarm for each in looks([], [HELD], [HELD], [])] == [False, True, False, False]


def test_it_is_told_again_when_its_cause_or_extent_is_another():
    other = Finding("held", "priced", "priced holds batch 3, tried 9 times.", grade="3: no route")
    worse = Finding("held", "priced", "priced holds batch 4.", grade="4: no disk")
    news = looks([HELD], [other], [worse])
    assert [each.is_alarm for each in news] == [True, False, True]
    assert said(news)[2] == [
        "Changed, since 2026-01-01 00:00 UTC: priced holds batch 4. See docs/how-to/alerts.md#held."
    ]


@pytest.mark.parametrize(("again_after", "told"), [(DAY, 2), (timedelta(0), 1), (timedelta(hours=1), 25)])
def test_what_lasts_is_told_again_after_a_time_that_is_set(again_after, told):
    news = looks(*[[HELD]] * (12 * 24 + 1), again_after=again_after)
    assert sum(each.is_alarm for each in news) == told
    still = "Still, since 2026-01-01 00:00 UTC: priced holds batch 3. See docs/how-to/alerts.md#held."
    assert {str(each) for each in news[1:] if each.is_alarm} == ({still} if told > 1 else set())


def test_what_cannot_be_looked_at_is_not_over():
    away = Finding("not-looked", "held", "Held could not be looked at: no route.", hides=(("held", None),))
    gone = Finding("store", "", "There is no store.", hides=EVERYTHING)
    news = looks([HELD, FULL], [away, FULL], [gone], [FULL])
    assert [[each.finding.kind for each in one.over] for one in news] == [
        [],
        [],
        [],
        ["store", "not-looked", "held"],
    ]
    assert [len(each.stands) for each in news] == [2, 3, 4, 1]


def test_one_message_has_all_findings_and_lists_ten_of_a_kind():
    many = [Finding("held", f"bolt{n}", f"bolt{n} is held.") for n in range(12)]
    (news,) = looks([*many, FULL])
    assert said([news])[0][9:] == [
        "New: bolt9 is held. See docs/how-to/alerts.md#held.",
        "New: 2 more held.",
        "New: The disk is full. See docs/how-to/alerts.md#full-disks.",
    ]


@pytest.mark.parametrize("kept", [None, "", "{}", "[1]", '[{"kind": "held"}]', "no json", "null"])
def test_what_was_told_is_told_once_more_where_it_is_not_known(kept):
    news = news_of(from_json(kept), [HELD], START, DAY)
    assert (len(news.begun), news.is_alarm) == (1, True)
