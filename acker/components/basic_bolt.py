"""Basic bolts: a function of one tuple, which is acked where the function returns and failed if it raises."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import reduce
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from acker.components.base import Work
from acker.components.columns import check_columns, nullable
from acker.components.function_bolt import Frames, FunctionBolt
from acker.components.raising import ENDED
from acker.components.watched import Watched
from acker.components.workers import Sent, TupleRunner

_REPORT = {"_kind": "string", "_error": "string"}

TupleFunction = Callable[[Any], Iterable[Any] | None]


@dataclass(frozen=True, kw_only=True)
class BasicBolt(FunctionBolt):
    """A basic bolt.

    Args:
        schema: the DDL of the tuples that the bolt emits.
    """

    function: TupleFunction
    schema: str

    def __call__(self, tup: Any) -> Iterable[Any]:
        """Call the author's function, as if it had not been decorated; None stands for no rows."""
        return self.function(tup) or ()

    def made_of(self, work: Work, frames: Frames) -> DataFrame:
        """See `FunctionBolt`."""
        given = [frames[name] for name in self.inputs]
        several = any("_root_ids" in frame.columns for frame in given)
        if several:
            given = [_with_roots(frame) for frame in given]
        tuples = reduce(DataFrame.unionByName, given)
        schema = work.spark.createDataFrame([], self.schema).schema
        check_columns("Bolt", self.name, schema.names)
        anchors = {"_root_id": "bigint", "_root_ids": "array<bigint>"} if several else {"_root_id": "bigint"}
        arrow, who = to_arrow_schema(schema, timezone="UTC"), f"{work.topology}/{self.name}"
        run = TupleRunner(Sent(self.function), arrow, list(anchors), who)
        reports = ", ".join(f"{name} {kind}" for name, kind in {**anchors, **_REPORT}.items())
        reported = work.spark.createDataFrame([], reports).schema
        task = Watched(run, ENDED) if work.is_watched else run
        return tuples.mapInArrow(task, StructType([*reported.fields, *nullable(schema)]))


def _with_roots(frame: DataFrame) -> DataFrame:
    if "_root_ids" in frame.columns:
        return frame
    return frame.withColumn("_root_ids", F.lit(None).cast("array<bigint>"))
