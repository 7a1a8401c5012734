"""Work on Delta tables inside Spark: one task, in one of its Python workers.

So whoever calls, an Airflow task or a command, stays thin, and the work is done where Spark's memory and
credentials are. What runs there and everything of this package that it needs travel with it.
"""

from collections.abc import Callable, Iterator

import polars as pl
import pyarrow as pa
from pyspark import cloudpickle
from pyspark.sql import SparkSession

import acker
from acker.errors import StoreError

cloudpickle.register_pickle_by_value(acker)  # type: ignore[no-untyped-call]

_ERROR = pa.schema({"error": pa.string()})


def run_in_worker(spark: SparkSession, work: Callable[[], None]) -> None:
    """Run `work` in a Python worker of Spark's, with the packages that `requirements.in` names.

    Spark may run it twice, or run on when the caller has gone, so it must be something that commits once.

    Raises:
        StoreError: `work` raised it, or could not read or write what it needs.
    """

    def task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            pass
        try:
            work()
        except StoreError as error:
            said = str(error)
        except (pl.exceptions.PolarsError, OSError) as error:
            said = f"The store cannot be read or written: {error}"
        else:
            return
        yield pa.RecordBatch.from_pylist([{"error": said}], _ERROR)

    failed = spark.range(0, 1, 1, 1).mapInArrow(task, "error string").first()
    if failed is not None:
        raise StoreError(failed["error"])
