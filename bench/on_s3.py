"""The topology of `python -m bench.object_store`: a spout, two bolts and a published table, all on S3."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from acker import DeltaSpout, Topology

LAKE = "s3://lake"
SOURCE = f"{LAKE}/numbers"

topology = Topology("on_s3")
numbers = topology.spout("numbers", DeltaSpout(SOURCE, key="id"))


@topology.bolt(numbers)
def tens(tuples: DataFrame) -> DataFrame:
    """Tenfold."""
    return tuples.withColumn("id", F.col("id") * 10)


@topology.bolt(tens)
def hundreds(tuples: DataFrame) -> DataFrame:
    """A hundredfold."""
    return tuples.withColumn("id", F.col("id") * 10)


topology.publish(hundreds, to=f"{LAKE}/hundreds")
