"""Selections as people fill them in, in a form or on a command line."""

from datetime import UTC, datetime, timedelta, timezone

import pytest

from acker.core.errors import SettingsError, UnknownMessage
from acker.core.events import State
from acker.operations.selection.fields import check_known
from acker.operations.selection.selection import Selection
from acker.spouts import DeltaSpout
from acker.topology.topology import Topology

NEW_YEAR = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture(scope="module")
def shop():
    found = Topology("shop")
    for name in ("orders", "payments"):
        found.spout(name, DeltaSpout(name, key="id"))
    return found


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"states": None, "positions": [], "why": "it is due", "dry_run": False},
        {"states": None, "dry_run": True},
        {"states": (), "reason": ""},
    ],
)
def test_nothing_chosen_is_what_is_due(shop, fields):
    assert Selection.parse(fields, shop) is None


@pytest.mark.parametrize(
    ("narrowing", "value"),
    [
        ("spout", "orders"),
        ("positions", ["0:1"]),
        ("messages", ("orders:0:1",)),
        ("since", "2026-01-01"),
        ("until", NEW_YEAR),
        ("reason", "x"),
        ("where", "id = 1"),
        ("limit", 1),
        ("partition", "2026-*"),
        ("component", "items"),
    ],
)
def test_what_narrows_needs_states(shop, narrowing, value):
    with pytest.raises(SettingsError, match=f"^Choose states as well: {narrowing} can only narrow"):
        Selection.parse({"states": [], narrowing: value}, shop)


def test_positions_of_a_spout_and_messages_are_the_same(shop):
    form = {"states": ["acked", "lost"], "spout": "orders", "positions": ["a:b:1", "c:-2"]}
    options = {"states": ("acked", "lost"), "spout": None, "messages": ("orders:a:b:1", "orders:c:-2")}
    assert Selection.parse(form, shop) == Selection.parse(options, shop)
    assert Selection.parse(form, shop) == Selection(
        states=(State.ACKED, State.LOST), spout="orders", positions=(("a:b", 1), ("c", -2))
    )


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ("2026-01-01", NEW_YEAR),
        ("2026-01-01T00:00:00Z", NEW_YEAR),
        ("2026-01-01T01:00:00+01:00", NEW_YEAR),
        ("0001-01-01T00:00:00+14:00", datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=14)))),
        (datetime(2026, 1, 1), NEW_YEAR),
        (NEW_YEAR, NEW_YEAR),
    ],
)
def test_a_time_without_a_zone_is_in_utc(shop, given, found):
    assert Selection.parse({"states": ["acked"], "since": given}, shop).since == found


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"states": "acked"}, "states is 'acked'; fill in a list of texts."),
        ({"states": [3]}, "states is 3; fill in a text."),
        ({"states": ["done"]}, "'done' is no state; choose among retrying, acked, dead_letter, lost."),
        ({"states": ["pending"]}, "A replay selects messages that are retrying, acked"),
        ({"reason": 3}, "reason is 3; fill in a text."),
        ({"limit": True}, "limit is True; fill in a whole number."),
        ({"limit": "1"}, "limit is '1'; fill in a whole number."),
        ({"since": "now"}, "since is 'now', which is no time; write one such as 2026-01-31T12:00:00Z."),
        ({"states": ["dead_leter"]}, "'dead_leter' is no state; choose among retrying, acked, dead_letter, "),
        ({"partition": 3}, "partition is 3; fill in a text."),
        ({"component": ["a"]}, "component is ['a']; fill in a text."),
        ({"positions": ["0:1"]}, "Positions belong to a spout: choose one of orders, payments as well."),
        ({"positions": ["x"]}, "'x' is not a position; write PARTITION:OFFSET."),
        ({"messages": ["orders:0:1", "payments:0:1"]}, "Choose messages of one spout at a time."),
        ({"spout": "payments", "messages": ["orders:0:1"]}, "Choose messages of one spout at a time."),
    ],
)
def test_what_makes_no_selection_is_refused_in_a_sentence(shop, fields, sentence):
    with pytest.raises(SettingsError) as refused:
        Selection.parse({"states": ["acked"], **fields}, shop)
    assert str(refused.value).startswith(sentence)


def test_fields_that_a_form_does_not_have_are_refused_and_its_own_are_listed():
    check_known({"states": ["acked"]}, ("states", "why"))
    with pytest.raises(SettingsError) as refused:
        check_known({"states": ["acked"], "![](x)": 1, "stats": ["acked"]}, ("states", "why"))
    assert str(refused.value) == "The form has no field called '![](x)', 'stats'; it has states, why."
    with pytest.raises(SettingsError, match=r"it has states, why\. Did you mean states\?$"):
        check_known({"stats": ["acked"]}, ("states", "why"))


def test_the_only_spout_need_not_be_named():
    topology = Topology("shop")
    topology.spout("orders", DeltaSpout("orders", key="id"))
    form = {"states": ["acked"], "positions": ["0:1"]}
    named = Selection(states=(State.ACKED,), spout="orders", positions=(("0", 1),))
    assert Selection.parse(form, topology) == named


def test_a_message_of_no_spout_is_refused(shop):
    with pytest.raises(UnknownMessage, match="'0:1' is not a message of shop"):
        Selection.parse({"states": ["acked"], "messages": ["0:1"]}, shop)


def test_a_condition_is_of_one_spout(shop):
    with pytest.raises(SettingsError, match=r"one spout: choose one of orders, payments as well\."):
        Selection.parse({"states": ["acked"], "where": "id = 1"}, shop)
    with pytest.raises(SettingsError, match=r"one spout: choose one as well\."):
        Selection(where="id = 1")
    chosen = Selection.parse({"states": ["acked"], "where": "id = 1", "spout": "orders"}, shop)
    assert chosen == Selection(states=(State.ACKED,), spout="orders", where="id = 1")


def test_the_condition_on_a_topology_with_one_spout_is_of_that():
    alone = Topology("alone")
    alone.spout("orders", DeltaSpout("orders", key="id"))
    assert Selection.parse({"states": ["acked"], "where": "id = 1"}, alone).spout == "orders"


def test_a_pattern_of_partitions_is_no_longer_than_a_condition():
    with pytest.raises(SettingsError, match=r"has 2,001 characters, and 2,000 may be"):
        Selection(partition="?" * 2_001)
