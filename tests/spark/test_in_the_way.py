"""What Delta says inside Spark where another commit came first is known, so that a command is tried again."""

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from pyspark.errors import PySparkException
from pyspark.sql import functions as F

from acker.cli.context import is_in_the_way


def test_a_merge_that_meets_a_compaction_is_to_be_tried_again(spark, tmp_path):
    path = str(tmp_path / "numbers")
    for number in (1, 2):
        write_deltalake(path, pa.table({"id": [number]}), mode="append")

    @F.udf("long")
    def compacted(number):
        DeltaTable(path).optimize.compact()
        return number + 10

    changes = spark.range(1, 3).select("id", compacted("id").alias("more"))
    changes.createOrReplaceTempView("meeting")
    with pytest.raises(PySparkException) as refused:
        spark.sql(
            f"MERGE INTO delta.`{path}` AS t USING meeting ON t.id = meeting.id "
            "WHEN MATCHED THEN UPDATE SET id = more"
        )
    assert is_in_the_way(refused.value)
    assert not is_in_the_way(PySparkException("The table is full."))
