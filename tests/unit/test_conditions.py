"""Conditions on the columns of a spout's messages: what they choose, and what is none."""

import re
from datetime import UTC, date, datetime
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from acker.core.errors import SettingsError
from acker.core.snapshot.snapshot import Snapshot
from acker.core.store.schemas import stream
from acker.core.store.store import Store
from acker.operations.selection.conditions import check_condition, messages_where
from acker.operations.selection.terms import FUNCTIONS
from tests.kit import ROOT

PAGE = "docs/how-to/backfill.md"
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
        "day IN (FROM stream SELECT day)",
        "day IN ( ( FROM stream SELECT day))",
        "(1 = 1) UNION FROM stream",
        "day = extract(FROM stream)",
        "day IN (\u017felect day)",  # whose first letter is an S in upper case
        "EX\u0131STS (1)",
        "day\u00a0= 1",
        "day\u200b = 1",
        "text = $1",
        "{'a': 1}['a'] = 1",
        "day OVER () = 1",
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


@pytest.mark.parametrize(
    "condition",
    [
        "length(repeat('x', 2000000000)) > 0",
        "length(REPEAT ('x', 2000000000)) > 0",
        "length(\"repeat\"('x', 2000000000)) > 0",
        "length(\"repeat\"\n('x', 2000000000)) > 0",
        "length(public.repeat('x', 2000000000)) > 0",
        "lpad(text, 2000000000) = 'x'",
        "rpad(text, 2000000000) = 'x'",
        "cardinality(range(0, 2000000000)) > 0",
        "cardinality(generate_series(0, 2000000000)) > 0",
        "cardinality(array_repeat(1, 2000000000)) > 0",
        "replace(replace(text, '', 'xxxxxxxxx'), '', 'xxxxxxxxx') = 'x'",
        "regexp_replace(text, '', 'xxxxxxxxx', 'g') = 'x'",
        "overlay(text PLACING 'x' FROM 1) = 'x'",
        "concat(text, text) = 'x'",
        "arrow_cast(1, 'FixedSizeList(2000000000, Int8)') IS NULL",
        "\uff52epeat('x', 2000000000) = 'x'",
        "coalesce(lower(upper(repeat('x', 2000000000))), 'x') = 'x'",
    ],
)
def test_a_function_that_may_make_more_than_it_is_given_is_refused(condition):
    with pytest.raises(SettingsError, match=r"has the function .*, which no condition may call\. See docs/"):
        check_condition(condition)


@pytest.mark.parametrize(
    "condition",
    [
        "cast(NULL AS int[2000000000]) IS NULL",
        "NULL::int[2_000_000_000] IS NULL",
        "NULL::int [1000] [1000] IS NULL",
        " || ".join(["text"] * 10) + " = ''",
    ],
)
def test_no_list_and_no_text_is_made_of_any_length(condition):
    with pytest.raises(SettingsError, match="which no condition on a message's columns needs"):
        check_condition(condition)


@pytest.mark.parametrize(
    ("condition", "names"),
    [
        ("lower(text) = 'select' OR strpos(text, '''') > 0", ["a1", "a2"]),
        ("text || '!' = 'select!'", ["a2"]),
        ("trim(BOTH 's' FROM text) = 'elect'", ["a2"]),
        ("substring(text FROM 2 FOR 2) = 'el'", ["a2"]),
        ("day IS DISTINCT FROM DATE '2026-01-31'", ["a2", "b1", "b2"]),
        ("date_trunc('month', day) = '2026-02-01'", ["a2", "b2"]),
        ("CASE WHEN (text = '') THEN (true) ELSE (day IS NULL) END", ["b1", "b2"]),
        ('cast("Amount" AS decimal(10, 2)) IN (1.50, 2.5)', ["a1", "a2"]),
        ("try_cast(text AS date) = '2026-01-31'", ["b1"]),
        ("[10, 20][2] = 20 AND text = ANY(['select'])", ["a2"]),
        ("NULL::int[10] IS NULL AND text = ''", ["b2"]),
        ("text = 'repeat(' OR text = '\u017felect'", []),
    ],
)
def test_functions_whose_values_are_no_larger_than_what_they_are_given_may_be_called(
    snapshot, condition, names
):
    assert chosen(snapshot, condition) == names


ODD = [
    *(
        "id",
        "'",
        "''",
        '"',
        "(",
        ")",
        "((",
        "1",
        "null",
        "true",
        "'true'",
        "()",
        "[]",
        "[1][",
        "*",
        ".",
        "\0",
    ),
    *("1 / 0 = 1", "day / 0 = day", '"Amount" % 0 = 1', "-(-9223372036854775807 - 1) > 0", "- - - 1 = 1"),
    *("abs(cast(-9223372036854775808 as bigint)) > 0", "1e400 = 1", "9" * 400 + " = 1", "-" * 1900 + "1"),
    *("text ~ '('", "text ~ 'a{1000}{1000}{1000}'", "regexp_like(text, text)", "text LIKE '%\\'"),
    *("at + interval '1000000000 years' > at", "at - interval '300000000 days' > at", "at > 'now'"),
    *("cast('999999-01-01' as date) > day", "to_timestamp(1e300) > at", "to_timestamp(text, '%99Y') > at"),
    *(
        "substr(text, -9223372036854775808, 9223372036854775807) = ''",
        "left(text, -9223372036854775808) = ''",
    ),
    *('round("Amount", 2000000000) > 0', "power(2, 1000000000) > 0", "split_part(text, '', 0) = ''"),
    *("extract(nonsense FROM at) = 1", "count(*) > 0", "day IN ()", "who['nothing'] = 1", "who.name = 'a'"),
    *("who[9223372036854775807] = 1", "other.day = 1", "@@version = 1", "day = 1 ORDER BY 1", "day = 1 AS x"),
    *("text COLLATE \"x\" = 'a'", "text -> 'a' = 'b'", "sqrt(-1) > 0", "day BETWEEN 1", "NOT", "CASE END"),
    *("(" * 900 + "1" + ")" * 900 + " = 1", "NOT " * 480 + "true", "abs(" * 390 + "1" + ")" * 390 + " = 1"),
    *('"Amount"+' * 180 + "1 > 0", "CASE " + "WHEN true THEN true " * 90 + "END"),
    *("coalesce(" + ",".join(["text"] * 390) + ") = 'a'", "1 IN (" + ",".join("1" * 900) + ")"),
    "text ILIKE '" + "%_" * 900 + "'",
]


@pytest.mark.parametrize("condition", ODD)
def test_an_odd_condition_is_answered_or_refused_in_two_lines_at_most(snapshot, condition):
    try:
        found = messages_where(snapshot, "orders", condition).height
    except SettingsError as error:
        found = 4 if len(str(error).splitlines()) < 3 else error
    assert found == 4


def test_the_page_lists_the_functions_that_may_be_called():
    _, listed = Path(ROOT, PAGE).read_text().split("These functions may be called: ")
    assert re.findall(r"`(\w+)`", listed.partition("\n")[0]) == sorted(FUNCTIONS)
