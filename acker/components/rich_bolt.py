"""Rich bolts in Spark: the tuples that a batch hands to the tasks, and the rows that come back."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import polars as pl
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructField, StructType

from acker.components.bad_parts import Frames
from acker.components.base import BadRows, Component, Grouping, Work
from acker.components.collector import ALL, Context, RichBolt
from acker.components.columns import check_columns, nullable
from acker.components.raising import ENDED
from acker.components.searched import failed, found_in, others
from acker.components.watched import Watched
from acker.components.workers import RichRunner, Sent
from acker.core.errors import BoltError
from acker.core.events import Kind
from acker.core.quoting import sql_name
from acker.core.snapshot.streams import Rows, held_back
from acker.spark.streams import tuples, user_columns
from acker.spark.texts import as_json, as_text
from acker.spark.trees import union_of

_REPORT = """_root_id bigint, _root_ids array<bigint>, _stream string, _kind string, _error string,
    _held struct<stream:string,file:string,row:bigint,batch:bigint,since:bigint,task:int>"""


@dataclass(frozen=True, kw_only=True)
class RichBoltComponent(Component):
    """A rich bolt.

    Args:
        factory: the class or function that makes the instance of a task.
        groupings: one grouping per input.
        schema: the DDL of the bolt's first stream.
        tasks: the number of tasks.
        further: name of a further stream -> its DDL.
    """

    factory: Callable[[], RichBolt]
    schema: str
    groupings: tuple[Grouping, ...]
    tasks: int = 1
    further: Mapping[str, str] = field(default_factory=dict)

    holds_back: ClassVar[bool] = True

    def __call__(self) -> RichBolt:
        """Make an instance, as the author's class does."""
        return self.factory()

    @property
    def doc(self) -> str:
        """See `Component`."""
        return self.factory.__doc__ or ""

    @property
    def may_be_untracked(self) -> bool:
        """See `Component`."""
        return True

    @property
    def as_text(self) -> tuple[str, ...]:
        """Columns that the bolt's tuples have as text."""
        found: tuple[str, ...] = getattr(self.factory, "as_text", ())
        return found

    @property
    def streams(self) -> Mapping[str, str]:
        """See `Component`."""
        return self.further

    def columns(self, rows: DataFrame, further: str) -> list[str]:
        """See `Component`."""
        if not self.further:
            return user_columns(rows)
        return rows.sparkSession.createDataFrame([], self._ddl(further)).columns

    def no_tuples(self, work: Work, further: str) -> DataFrame:
        """See `Component`."""
        return work.spark.createDataFrame([], f"_root_id bigint, {self._ddl(further)}")

    def _ddl(self, further: str) -> str:
        return self.further[further] if further else self.schema

    def rows(self, work: Work, bad: BadRows) -> DataFrame:
        """See `Component`.

        Raises:
            BoltError: two of the bolt's streams have a column of one name in different types, or a stream has
                a column that `check_columns` refuses.
        """
        made = self._checked(work, others(self._frames(work), bad))
        return made.unionByName(failed(work.spark, bad), allowMissingColumns=True) if bad else made

    def find_bad_rows(self, work: Work, bad: BadRows, error: PySparkException) -> BadRows:
        """See `Component`. The batch is searched (`acker.components.bad_rows`)."""
        frames = others(self._frames(work), bad)
        return {**bad, **found_in(self, work, frames, self._checked, error)}

    def _frames(self, work: Work) -> Frames:
        """The tuples that the tasks are given: those new to the bolt and those that it holds back."""
        held = self._held(work)
        frames: dict[str, DataFrame] = {}
        for index, name in enumerate(self.inputs):
            mine = held.filter(pl.col("stream") == name)
            frames |= _named(f"{index} given", _given(work, self, index))
            frames |= _named(f"{index} again", _again(work, self, index, mine))
        return frames

    def _held(self, work: Work) -> pl.DataFrame:
        return held_back(work.journal, self.name, work.batch.number - 1)

    def _checked(self, work: Work, frames: Frames) -> DataFrame:
        """The rows that the tasks make of tuples; a row that a target would refuse is a failure."""
        columns, required, schema = _emitted(work.spark, self)
        if not frames:
            return work.spark.createDataFrame([], schema)
        order = ["_task", "_since", "_input", "_batch", "_partition", "_offset", "_file", "_row"]
        shared = _union([*frames.values()]).repartition(self.tasks, "_task").sortWithinPartitions(*order)
        context = Context(work.topology, self.name, work.batch.number, 0, self.tasks)
        arrow = to_arrow_schema(schema, timezone="UTC")
        runner = RichRunner(Sent(self.factory), context, self.inputs, columns, arrow, required)
        gone = _unread(work, self, self._held(work))
        task = Watched(runner, ENDED) if work.is_watched else runner
        return work.check(_union([shared.mapInArrow(task, schema), *gone]))


def _named(name: str, frames: list[DataFrame]) -> dict[str, DataFrame]:
    return dict.fromkeys([name], frames[0]) if frames else {}


def _union(frames: list[DataFrame]) -> DataFrame:
    return union_of(frames, fills=True)


def _unread(work: Work, bolt: RichBoltComponent, held: pl.DataFrame) -> list[DataFrame]:
    """Failures of the tuples that the bolt holds back of streams which it reads no more."""
    gone = held.filter(~pl.col("stream").is_in(bolt.inputs)).drop_nulls("_root_id")
    if gone.is_empty():
        return []
    reason = pl.format("bolt {} no longer reads {}", pl.lit(bolt.name), "stream")
    failed = gone.select("_root_id", _kind=pl.lit(Kind.FAIL), _error=reason).unique()
    return [work.spark.createDataFrame(failed.to_arrow())]


def _located(work: Work, name: str, batches: list[int]) -> DataFrame | None:
    """Tuples of a stream whose `_metadata` has file_name and row_index; None where there are none."""
    if not Rows.of(work.journal, name, batches).files:
        return None
    return tuples(work.spark, work.journal, name, batches)


def _given(work: Work, bolt: RichBoltComponent, index: int) -> list[DataFrame]:
    """The tuples of an input that are new to the bolt, in one frame; no frame where there are none.

    Args:
        index: the number of the input among the bolt's inputs.
    """
    name = bolt.inputs[index]
    rows = _located(work, name, work.taken.get(name, []))
    if rows is None:
        return []
    task = _task(bolt.groupings[index], bolt.tasks)
    if bolt.groupings[index].kind == "all":
        task = F.explode(F.sequence(F.lit(0), F.lit(bolt.tasks - 1)))
    given = rows.select(
        *_columns(work, bolt, rows, index),
        F.lit(False).alias("_again"),
        F.lit(work.batch.number).cast("bigint").alias("_since"),
        task.alias("_task"),
    )
    return [given]


def _again(work: Work, bolt: RichBoltComponent, index: int, held: pl.DataFrame) -> list[DataFrame]:
    """The tuples of an input that the bolt holds back, in one frame; no frame where there are none.

    The tuples are read from where they lie.

    Args:
        index: the number of the input among the bolt's inputs.
        held: the rows of `held_back` for this input.
    """
    name = bolt.inputs[index]
    rows = _located(work, name, held["batch"].unique().to_list())
    if rows is None:
        return []
    found = rows.select(
        *_columns(work, bolt, rows, index), _task(bolt.groupings[index], bolt.tasks).alias("_task")
    )
    places = work.spark.createDataFrame(
        held.select(_file="file", _row="row", _since="since", _holder="task").to_arrow()
    )
    kept = found.join(F.broadcast(places), ["_file", "_row"]).withColumn("_again", F.lit(True))
    if bolt.groupings[index].kind == "all":
        kept = kept.withColumn("_task", F.col("_holder"))
    return [kept.drop("_holder")]


def _columns(work: Work, bolt: RichBoltComponent, rows: DataFrame, index: int) -> list[Column]:
    """The columns of the tuples of one input, as a task gets them.

    The values of a tuple lie in the struct `_<index>`. The texts that the bolt asks for in
    `as_text` lie in the struct `_text_<index>`, if the input has any.

    Args:
        rows: tuples of the input.
        index: the number of the input among the bolt's inputs.
    """
    given = {"_root_ids": "array<bigint>", "_source_partition": "string", "_source_offset": "bigint"}
    several, partition, offset = (
        F.col(column) if column in rows.columns else F.lit(None).cast(kind) for column, kind in given.items()
    )
    columns = work.columns(rows, bolt.inputs[index])
    values = F.struct(*map(sql_name, columns))
    fields = [field for field in rows.schema.fields if field.name in columns] if bolt.as_text else []
    texts = [_text(fields, column) for column in dict.fromkeys(bolt.as_text) if column in {ALL, *columns}]
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
        *([F.struct(*texts).alias(f"_text_{index}")] if texts else []),
    ]


def _text(fields: Sequence[StructField], name: str) -> Column:
    """A column as text, or all of them as JSON."""
    if name == ALL:
        return as_json(fields).alias(ALL)
    (kind,) = (field.dataType for field in fields if field.name == name)
    return as_text(F.col(sql_name(name)), kind).alias(name)


def _task(grouping: Grouping, tasks: int) -> Column:
    """The task that gets a tuple."""
    if grouping.kind == "fields":
        share = F.xxhash64(*map(sql_name, grouping.columns))
    elif grouping.kind == "shuffle":
        share = F.xxhash64("_metadata.file_name", "_metadata.row_index")
    else:
        return F.lit(0)
    return F.pmod(share, F.lit(tasks)).cast("int")


_Columns = dict[str | None, list[str]]


def _emitted(spark: SparkSession, bolt: RichBoltComponent) -> tuple[_Columns, _Columns, StructType]:
    """The columns of each of the bolt's streams, those NOT NULL, and the schema of the bolt's rows.

    Raises:
        BoltError: two streams have a column of one name in different types or cases, or a stream has a
            column that `check_columns` refuses.
    """
    streams: list[tuple[str | None, str]] = [(None, bolt.schema), *bolt.further.items()]
    columns: _Columns = {}
    required: _Columns = {}
    fields: dict[str, StructField] = {}
    for name, ddl in streams:
        schema = spark.createDataFrame([], ddl).schema
        check_columns("Bolt", bolt.name, schema.names)
        columns[name] = schema.names
        required[name] = [column.name for column in schema.fields if not column.nullable]
        for column in nullable(schema):
            known = fields.setdefault(column.name.lower(), column)
            if (known.name, known.dataType) != (column.name, column.dataType):
                differs = "type than" if known.name == column.name else f"case than {known.name}"
                raise BoltError(
                    f"Bolt {bolt.name} emits {column.name} to {name} in another {differs} to its other "
                    "streams, which lie in the same table; rename one.",
                    component=bolt.name,
                )
    report = spark.createDataFrame([], _REPORT).schema
    reported = [column for column in report.fields if bolt.further or column.name != "_stream"]
    return columns, required, StructType([*reported, *fields.values()])
