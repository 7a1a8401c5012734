"""Conditions on the columns of a spout's messages: what they choose, and what is none."""

from datetime import UTC, date, datetime

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from acker.core.errors import SettingsError
from acker.core.schemas import stream
from acker.core.snapshot import Snapshot
from acker.core.store import Store
from acker.operations.conditions import check_condition, messages_where

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)
ROWS = pa.table(
    {
        "_batch": [1, 1, 1, 2, 2],
        "_source_partition": ["day=1/a", "day=1/a", "day=2/b", "day=1/a", "day=2/b"],
        "_source_offset": [1, 2, 1, 1, 2],  # the first message was emitted twice
        "day": [date(2026, 1, 31), date(2026, 2, 1), None, date(2026, 1, 31), date(2026, 2, 1)],
        "text": ["it's", "select", "2026-01-31", "it's", ""],
        "Amount": [1.5, 2.5, 3.5, 1.5, None],
        "at": pa.array([NOON, NOON, NOON, NOON, None], pa.timestamp("us", "UTC")),
        "who": [{"name": "a"}, {"name": "b"}, {"name": "c"}, {"name": "a"}, None],
    }
)


@pytest.fixture(scope="module")
def snapshot(tmp_path_factory):
    store = Store(str(tmp_path_factory.mktemp("store")), "shop")
    write_deltalake(store.path(stream("orders")), ROWS)
    return Snapshot(store)


def chosen(snapshot, condition):
    """Names of the messages for which a condition holds; all are looked at."""
    found = messages_where(snapshot, "orders", condition)
    assert found.height == 4
    return sorted(f"{partition[-1]}{offset}" for partition, offset, holds in found.rows() if holds)


@pytest.mark.parametrize(
    ("condition", "names"),
    [
        ("day = '2026-01-31'", ["a1"]),
        ("day >= DATE '2026-02-01' AND \"Amount\" > 2", ["a2"]),
        ("text = 'it''s' OR text = 'select'", ["a1", "a2"]),
        ("text = '2026-01-31'", ["b1"]),
        ("extract(month FROM day) = 2", ["a2", "b2"]),
        ("at BETWEEN '2026-01-31T00:00:00Z' AND '2026-01-31T23:59:59Z'", ["a1", "a2", "b1"]),
        ("who['name'] IN ('b', 'c')", ["a2", "b1"]),
        ("_source_partition LIKE 'day=1/%'", ["a1", "a2"]),
        ('"Amount" IS NULL', ["b2"]),
        ("not (day = '2026-01-31')", ["a2", "b2"]),
        ("text = ''", ["b2"]),
        ("text = '; -- ('", []),
    ],
)
def test_a_condition_chooses_messages_by_their_own_columns(snapshot, condition, names):
    assert chosen(snapshot, condition) == names


@pytest.mark.parametrize(
    "condition",
    [
        "1 = 1) UNION (SELECT 1",
        "day IN (SELECT day FROM stream)",
        "day = (TABLE stream)",
        "day IN (VALUES (1))",
        "true; DROP TABLE stream",
        "true -- and more",
        "true /* and */ OR true",
        "text = $$'$$ OR day IN (select 1) OR text = $$'$$",
        r"text = E'\'' OR day IN (SELECT day FROM stream) OR text = 'x'",
        "`day` = 1",
    ],
)
def test_what_could_be_another_query_is_refused(condition):
    with pytest.raises(SettingsError, match="which no condition on a message's columns needs"):
        check_condition(condition)


@pytest.mark.parametrize("condition", ["", " ", "true)", "(true", ") OR (", "text = 'x", 'text = "x', "'"])
def test_what_is_not_whole_is_refused(condition):
    with pytest.raises(SettingsError, match="is not whole: close every bracket and every quote"):
        check_condition(condition)


def test_a_condition_has_no_thousands_of_terms(snapshot):
    longest = " OR ".join(["true"] * 250)
    assert chosen(snapshot, longest) == ["a1", "a2", "b1", "b2"]
    with pytest.raises(SettingsError, match="has 2,004 characters, and 2,000 may be"):
        check_condition(f"{longest} OR true")


@pytest.mark.parametrize(
    ("condition", "why"),
    [
        ("dai = '2026-01-31'", "dai"),
        ("_root_id = 1", "_root_id"),
        ("day", "Boolean|boolean|type"),
        ("day = 'yesterday'", "yesterday"),
        ("day =", "Expected|EOF|error"),
    ],
)
def test_a_condition_that_cannot_be_looked_up_is_told_with_the_columns(snapshot, condition, why):
    with pytest.raises(
        SettingsError, match=f"cannot be looked up: .*({why}).* The columns of orders are day"
    ):
        messages_where(snapshot, "orders", condition)


def test_a_spout_that_never_wrote_has_no_messages(snapshot):
    assert messages_where(snapshot, "payments", "true").is_empty()
