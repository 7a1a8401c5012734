"""Digests of rows: what they are for ever, and what they do not depend on."""

from datetime import date, datetime
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from acker.core.digests import NoDigest, row_digests, value_digests

D = Decimal
INT, FLOAT, TEXT, TIME = pa.int64(), pa.float64(), pa.string(), pa.timestamp("us")
STRUCT = pa.struct([("a", pa.int64()), ("b", pa.string())])
MAP = pa.map_(pa.string(), pa.int64())
LIST = pa.list_(pa.int64())

KEPT = [  # in stores for ever
    (TEXT, None, 0),
    (TEXT, "", 2902805962516761537),
    (TEXT, "a", 13513452320320010565),
    (TEXT, "abcdefgh", 18377765141101590374),
    (TEXT, "abcdefghi", 10896944581983332585),
    (TEXT, "ä" * 40, 17984852955731188368),
    (INT, 0, 16294208416658607535),
    (INT, -1, 16490336266968443936),
    (INT, 2**63 - 1, 3055647633038352039),
    (FLOAT, 1.5, 7640868585037623358),
    (FLOAT, float("nan"), 13787848793156543929),
    (FLOAT, 1e300, 9370999698815003271),
    (pa.decimal128(38, 2), D("1.50"), 10048747565782378948),
    (pa.decimal128(38, 2), D("-0.01"), 11083419489863783911),
    (pa.decimal128(38, 2), D("1e30"), 9768362573040807029),
    (pa.bool_(), True, 10451216379200822465),
    (TIME, datetime(2024, 1, 1), 6734294775555896561),
    (TIME, datetime(1500, 1, 1), 18057561936562591687),
    (STRUCT, {"a": 1, "b": None}, 16249929151958914622),
    (LIST, [1, 2], 18331500298531600743),
    (LIST, [None], 4964577235801436555),
    (MAP, [("k", 1)], 16817004821050387662),
]


def digest(value, kind):
    (found,) = value_digests(pa.array([value], kind)).tolist()
    return found


@pytest.mark.parametrize(("kind", "value", "kept"), KEPT)
def test_a_digest_is_what_it_always_was(kind, value, kept):
    assert digest(value, kind) == kept


def test_the_digest_of_a_row_is_what_it_always_was():
    rows = pa.RecordBatch.from_pydict({"_root_id": [7, None], "city": ["Ulm", None], "n": [1, None]})
    assert row_digests(rows, ["city", "n"], "_root_id").tolist() == [15331397389139038403, 0]


SAME = [
    (
        "a whole number of any type",
        [(INT, 5), (pa.int8(), 5), (FLOAT, 5.0), (pa.decimal128(9, 2), D("5.00"))],
    ),
    ("a fraction of any scale", [(pa.decimal128(4, 1), D("-1.5")), (pa.decimal128(38, 18), D("-1.5"))]),
    ("a large decimal", [(pa.decimal128(38, 0), D(10**30)), (pa.decimal128(38, 5), D(10**30))]),
    ("zeros", [(FLOAT, 0.0), (FLOAT, -0.0), (INT, 0)]),
    ("texts", [(TEXT, "Köln"), (pa.large_string(), "Köln"), (pa.string_view(), "Köln")]),
    ("bytes", [(pa.binary(), b"\0x"), (pa.binary_view(), b"\0x")]),
    ("a float as a double", [(pa.float32(), 0.1), (FLOAT, 0.10000000149011612)]),
    ("a day as its midnight", [(pa.date32(), date(2024, 2, 29)), (TIME, datetime(2024, 2, 29))]),
    ("times", [(TIME, datetime(2024, 1, 1)), (pa.timestamp("ns"), datetime(2024, 1, 1))]),
    ("a struct's fields", [(STRUCT, {"a": 1, "b": "x"}), (pa.struct([*STRUCT][::-1]), {"a": 1, "b": "x"})]),
    ("a field that came later", [(STRUCT, {"a": 1}), (pa.struct([("A", pa.int64())]), {"A": 1})]),
    ("a map's entries", [(MAP, [("a", 1), ("b", 2)]), (MAP, [("b", 2), ("a", 1)])]),
    ("lists", [(LIST, [1, 2]), (pa.large_list(pa.int32()), [1, 2])]),
]


@pytest.mark.parametrize(("_", "same"), SAME, ids=[name for name, _ in SAME])
def test_what_says_the_same_has_the_same_digest(_, same):
    assert len({digest(value, kind) for kind, value in same}) == 1


OTHER = [
    (LIST, [[1, 2], [2, 1], [1], [], [None], [None, None], None]),
    (MAP, [[("a", 1), ("b", 2)], [("a", 2), ("b", 1)], [("a", 1)], [], [("a", None)], None]),
    (STRUCT, [{"a": 1, "b": "1"}, {"a": None, "b": "1"}, {"a": 1, "b": None}, {"a": None, "b": None}, None]),
    (TEXT, ["", "\0", "\0\0", "a", "a\0", "abcdefgh" * 2, "abcdefgh" * 3, "hgfedcba" * 2, None]),
    (FLOAT, [0.5, -0.5, float("nan"), float("inf"), float("-inf"), 1e300, 5e-324, None]),
    (TIME, [datetime(1, 1, 1), datetime(1500, 1, 1), datetime(9999, 12, 31, 23, 59, 59, 999999), None]),
    (pa.decimal128(38, 10), [D("1"), D("10"), D("0.1"), D("-0.1"), D("1e27"), D("-1e27"), None]),
]


@pytest.mark.parametrize(("kind", "others"), OTHER)
def test_what_says_something_else_has_another_digest(kind, others):
    assert len(set(value_digests(pa.array(others, kind)).tolist())) == len(others)


@given(st.lists(st.none() | st.text(max_size=40)), st.integers(0, 5), st.integers(0, 9))
def test_a_text_has_one_digest_wherever_it_lies(texts, before, after):
    around = pa.array(["x" * 9] * before + texts + [None] * after, TEXT).slice(before, len(texts))
    assert value_digests(around).tolist() == [digest(text, TEXT) for text in texts]


@given(st.lists(st.none() | st.lists(st.none() | st.integers(0, 3), max_size=4)), st.integers(0, 3))
def test_a_list_has_one_digest_wherever_it_lies(lists, before):
    around = pa.array([[7, 8]] * before + lists, LIST).slice(before)
    assert value_digests(around).tolist() == [digest(each, LIST) for each in lists]


@given(
    st.lists(
        st.decimals(allow_nan=False, allow_infinity=False, places=6, min_value=-(10**25), max_value=10**25)
    )
)
def test_a_decimal_has_one_digest_in_every_scale(decimals):
    narrow, wide = (pa.array(decimals, pa.decimal128(38, scale)) for scale in (6, 12))
    assert value_digests(narrow).tolist() == value_digests(wide).tolist()


def test_rows_depend_on_the_names_of_their_columns_and_on_their_root():
    rows = {"_root_id": [1, 2], "a": [1, 1], "b": [None, None], "c": [1, 1]}
    batch = pa.RecordBatch.from_pydict(rows)
    found = [
        row_digests(batch, names, root).tolist()
        for names, root in ((["a"], None), (["a", "b"], None), (["c"], None), (["a"], "_root_id"))
    ]
    assert found[0] == found[1] != found[2]
    assert found[0][0] == found[0][1] and found[3][0] != found[3][1]


def test_a_type_without_a_digest_is_named():
    with pytest.raises(NoDigest, match="duration"):
        value_digests(pa.array([1], pa.duration("s")))
