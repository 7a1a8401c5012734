"""Rich bolts in Spark: what a batch hands to the tasks, and what comes back from them."""

from functools import partial, reduce

import polars as pl
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructField, StructType

from acker.batches.run import Run
from acker.components.base import Component, Grouping
from acker.components.bolts import check_columns
from acker.components.collector import Context
from acker.components.workers import RichRunner
from acker.core.errors import BoltError
from acker.core.events import Kind
from acker.core.ledger import newest_fold
from acker.core.paths import without_pattern
from acker.core.quoting import sql_name
from acker.core.schemas import of_stream, stream
from acker.core.streams import Rows, held_back
from acker.journal.batch import Batch
from acker.spark.delta import read

_REPORT = """_root_id bigint, _root_ids array<bigint>, _stream string, _kind string, _error string,
    _held struct<stream:string,file:string,row:bigint,batch:bigint,since:bigint,task:int>"""


def rich_rows(run: Run, bolt: Component, batch: Batch) -> DataFrame:
    """The rows that one batch of a rich bolt adds to its stream.

    Raises:
        BoltError: two of its streams have a column of different types, or one has a reserved name.
    """
    held = held_back(run.store, bolt.name, batch.number - 1, newest_fold(run.store))
    parts: list[DataFrame] = []
    for index, name in enumerate(bolt.inputs):
        mine = held.filter(pl.col("stream") == name)
        parts += _given(run, bolt, index, batch) + _again(run, bolt, index, mine)
    columns, schema = _emitted(run, bolt)
    if not parts:
        return run.spark.createDataFrame([], schema)
    order = ["_task", "_since", "_input", "_batch", "_partition", "_offset", "_file", "_row"]
    shared = _union(parts).repartition(bolt.tasks, "_task").sortWithinPartitions(*order)
    context = Context(run.topology.name, bolt.name, batch.number, 0, bolt.tasks)
    assert bolt.make is not None
    runner = RichRunner(bolt.make, context, bolt.inputs, columns, to_arrow_schema(schema, timezone="UTC"))
    return _union([shared.mapInArrow(runner, schema), *_unread(run, bolt, held)])


def _union(frames: list[DataFrame]) -> DataFrame:
    return reduce(partial(DataFrame.unionByName, allowMissingColumns=True), frames)


def _unread(run: Run, bolt: Component, held: pl.DataFrame) -> list[DataFrame]:
    """Failures of the tuples that the bolt holds back of streams which it reads no more."""
    gone = held.filter(~pl.col("stream").is_in(bolt.inputs)).drop_nulls("_root_id")
    if gone.is_empty():
        return []
    reason = pl.format("bolt {} no longer reads {}", pl.lit(bolt.name), "stream")
    failed = gone.select("_root_id", _kind=pl.lit(Kind.FAIL), _error=reason).unique()
    return [run.spark.createDataFrame(failed.to_arrow())]


def _located(run: Run, name: str, batches: list[int]) -> DataFrame | None:
    """Tuples of a stream whose `_metadata` has file_name and row_index; None where there are none.

    Delta tells no row's number in its file, so the stream's files are read as what they are. A stream's files
    are never rewritten, and it has no deletion vectors.
    """
    rows = Rows.of(run.store, name, batches)
    if not rows.files:
        return None
    schema = read(run.spark, run.store.path(stream(name))).schema
    files = run.spark.read.schema(schema).parquet(*map(without_pattern, rows.files))
    return files.where(f"{rows.where} AND _kind IS NULL AND {of_stream(name, rows.columns)}")


def _given(run: Run, bolt: Component, index: int, batch: Batch) -> list[DataFrame]:
    """The tuples that are new to the bolt."""
    name = bolt.inputs[index]
    rows = _located(run, name, run.journal.inputs(batch).get(name, []))
    if rows is None:
        return []
    task = _task(bolt.groupings[index], bolt.tasks)
    if bolt.groupings[index].kind == "all":
        task = F.explode(F.sequence(F.lit(0), F.lit(bolt.tasks - 1)))
    given = rows.select(
        *_columns(run, rows, name, index),
        F.lit(False).alias("_again"),
        F.lit(batch.number).cast("bigint").alias("_since"),
        task.alias("_task"),
    )
    return [given]


def _again(run: Run, bolt: Component, index: int, held: pl.DataFrame) -> list[DataFrame]:
    """The tuples that the bolt holds back, read from where they lie."""
    name = bolt.inputs[index]
    rows = _located(run, name, held["batch"].unique().to_list())
    if rows is None:
        return []
    found = rows.select(
        *_columns(run, rows, name, index), _task(bolt.groupings[index], bolt.tasks).alias("_task")
    )
    places = run.spark.createDataFrame(
        held.select(_file="file", _row="row", _since="since", _holder="task").to_arrow()
    )
    kept = found.join(F.broadcast(places), ["_file", "_row"]).withColumn("_again", F.lit(True))
    if bolt.groupings[index].kind == "all":
        kept = kept.withColumn("_task", F.col("_holder"))
    return [kept.drop("_holder")]


def _columns(run: Run, rows: DataFrame, name: str, index: int) -> list[Column]:
    """What a task is told of a tuple; its values lie in a struct of the input's own."""
    given = {"_root_ids": "array<bigint>", "_source_partition": "string", "_source_offset": "bigint"}
    several, partition, offset = (
        F.col(column) if column in rows.columns else F.lit(None).cast(kind) for column, kind in given.items()
    )
    values = F.struct(*(F.col(sql_name(column)) for column in run.columns(rows, name)))
    return [
        F.col("_root_id"),
        several.alias("_root_ids"),
        F.lit(index).alias("_input"),
        F.col("_batch"),
        partition.alias("_partition"),  # of a spout's tuples, which are given in the order of the source
        offset.alias("_offset"),
        F.col("_metadata.file_name").alias("_file"),
        F.col("_metadata.row_index").alias("_row"),
        values.alias(f"_{index}"),
    ]


def _task(grouping: Grouping, tasks: int) -> Column:
    """The task that gets a tuple."""
    if grouping.kind == "fields":
        share = F.xxhash64(*map(sql_name, grouping.columns))
    elif grouping.kind == "shuffle":
        share = F.xxhash64("_metadata.file_name", "_metadata.row_index")
    else:
        return F.lit(0)
    return F.pmod(share, F.lit(tasks)).cast("int")


def _emitted(run: Run, bolt: Component) -> tuple[dict[str | None, list[str]], StructType]:
    """The columns of each of the bolt's streams, and the schema of its rows, which has those of all."""
    assert bolt.schema is not None
    streams: list[tuple[str | None, str]] = [(None, bolt.schema), *bolt.streams.items()]
    columns: dict[str | None, list[str]] = {}
    fields: dict[str, StructField] = {}
    for name, ddl in streams:
        schema = run.spark.createDataFrame([], ddl).schema
        check_columns(f"Bolt {bolt.name}", schema.names)
        columns[name] = schema.names
        for field in schema.fields:
            if fields.setdefault(field.name, field).dataType != field.dataType:
                raise BoltError(
                    f"Bolt {bolt.name} emits {field.name} to {name} in another type than to its other "
                    "streams, which lie in the same table; rename one."
                )
    report = run.spark.createDataFrame([], _REPORT).schema
    reported = [field for field in report.fields if bolt.streams or field.name != "_stream"]
    return columns, StructType([*reported, *fields.values()])
