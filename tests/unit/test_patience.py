"""Work that may never end, waited for so long and no longer."""

from threading import Event
from threading import enumerate as threads

import pytest

from acker.core.errors import SourceError
from acker.core.patience import Unanswered, within


def test_it_returns_or_raises_as_the_work_does():
    assert within(60, "returns", lambda: 3) == 3

    def refuse():
        raise SourceError("no")

    with pytest.raises(SourceError, match=r"^no$"):
        within(60, "raises", refuse)


def test_work_that_hangs_is_left_and_not_begun_again_until_it_ends():
    answer, begun = Event(), []

    def hang():
        begun.append(len(begun))
        answer.wait()
        return "late"

    with pytest.raises(Unanswered, match="it has not answered within 0 s"):
        within(0.01, "hangs", hang)
    for _ in range(3):
        with pytest.raises(Unanswered, match="it has not answered an earlier look"):
            within(0.01, "hangs", hang)
    assert (begun, within(60, "another", lambda: 1)) == ([0], 1)
    answer.set()
    next(each for each in threads() if each.name == "acker-hangs").join()
    assert (within(60, "hangs", hang), begun) == ("late", [0, 1])
