"""Many columns, conditions and frames: more than Spark's messages and Java's stack have levels."""

import pytest
from pyspark.sql import functions as F

from acker.spark.trees import any_of, union_of
from acker.spouts.files.lines import _is_header

MANY = 10_000
COLUMNS = [f"c{n}" for n in range(MANY)]


@pytest.mark.parametrize(
    ("names", "line", "is_header"),
    [
        (["id", "name"], "id,name", True),
        (["id", "name"], 'ID,"Name"', True),
        (["id", "name"], '"id,name"', False),
        (["id", "name"], "id", False),
        (["id", "name"], "id,name,", False),
        (["id", "name"], "id,", False),
        (["id", "name"], "", False),
        (["id", "a,b"], 'id,"a,b"', True),
        (["id", "a,b"], "id,a,b", False),
        (["a,b", "c"], '"a,b",C', True),
        (["a,b", "c"], '"a","b,c"', False),
        (['a"b', "c"], '"a""b",c', True),
        (['a"b', "c"], 'a"b,c', False),
        (["Größe", "ΣΑΣ"], "GRÖSSE,σας", True),
        (["a.b", r"\E"], r'"A.B",\E', True),
        (["a.b", r"\E"], r"axb,\E", False),
        (
            [f"c{n}" for n in range(MANY)],
            ",".join(f'"C{n}"' if n % 2 else f"c{n}" for n in range(MANY)),
            True,
        ),
        (COLUMNS, ",".join(f'"{name.upper()}"' if name[-1] in "135" else name for name in COLUMNS), True),
        (COLUMNS, ",".join([*COLUMNS[1:], "c0"]), False),
    ],
)
def test_a_header_has_its_names_in_quotes_or_not_in_any_case(spark, names, line, is_header):
    found = spark.createDataFrame([(line,)], "line string").select(_is_header(F.col("line"), names, ","))
    assert found.collect()[0][0] is is_header


def test_many_conditions_and_frames_are_one(spark):
    rows = spark.range(MANY)
    assert rows.where(any_of(F.col("id") == n for n in range(0, MANY, 5))).count() == MANY // 5
    assert rows.where(any_of([])).count() == 0
    frames = [spark.range(n, n + 1).withColumn(f"c{n % 2}", F.lit(n)) for n in range(300)]
    whole = union_of(frames, fills=True)
    assert whole.agg(F.sum("id"), F.sum("c0"), F.count("c1")).collect()[0][:] == (44_850, 22_350, 150)
