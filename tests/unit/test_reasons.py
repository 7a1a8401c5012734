"""What is kept of a reason."""

import pytest

from acker.core.errors import TopologyError
from acker.core.reasons import LONGEST_REASON, Redaction, shown
from acker.topology.topology import Topology

CARD = "4111111111111111"
CARDS = Redaction.of(r"\d{16}")


def test_each_match_of_each_pattern_is_replaced_and_matches_that_overlap_are_one():
    redaction = Redaction.of(["ab+", "bc", "d$"])
    assert redaction("abb, xbc, abc, d, d") == "***, x***, ***, d, ***"


def test_a_secret_that_the_end_of_a_quotation_cuts_is_replaced():
    text = f"no card: {shown('x' * 6 + CARD + ' and more', 10)}; mend it"
    assert CARDS(text) == "no card: xxxxxx***; mend it"
    assert Redaction()(text) == "no card: xxxxxx4111; mend it"


def test_a_secret_that_is_not_shown_leaves_no_trace():
    assert CARDS(shown(f"first, {CARD}", 5)) == "first"


def test_a_secret_that_the_end_of_a_reason_cuts_is_replaced():
    before = "x" * (LONGEST_REASON - 4)
    assert CARDS(before + CARD) == f"{before}***"
    assert CARDS(before + " none at all") == f"{before} non"


@pytest.mark.parametrize(
    ("redact", "why"),
    [
        ("(", r"'\(' is no regular expression of Python: missing \), unterminated subpattern"),
        (["ok", "a*"], r"'a\*' matches nothing at all"),
    ],
)
def test_what_cannot_tell_a_secret_is_refused_when_the_topology_is_made(redact, why):
    with pytest.raises(TopologyError, match=f"redact of topology shop cannot be used: {why}"):
        Topology("shop", redact=redact)
