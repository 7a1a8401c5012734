"""Finding the messages for which a transformation raises, when Spark only says that a row somewhere did.

Without ANSI mode a value that cannot be taken is null and nothing raises. So one such run tells the suspects:
messages with a null in a row that they made, or without any row. Once the others pass, the suspects alone are
searched. A range of messages that raises is run in quarters, several at once, until single messages remain.

m bad messages among s suspects cost about 4 · m · log4(s / m) + 4/3 · m runs of the transformation, over ever
smaller parts. What raises in either mode (a UDF, `raise_error`) has no suspects, and all messages are
searched. Where only tuples that met raise, as in a join, each quarter passes. Then the halves are tried,
and if they pass as well, each is divided beside the other, with one more run for each time.
"""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import reduce
from itertools import pairwise
from operator import or_
from typing import NamedTuple, Protocol

import pyarrow as pa
from pyspark.errors import PySparkException, PythonException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from acker.components.anchors import FOREIGN_ANCHOR
from acker.core.errors import BoltError
from acker.core.quoting import sql_name
from acker.core.reasons import LONGEST_REASON, LONGEST_TOLD

MOST_BAD = 32  # past this the bolt may be at fault and not the rows
_WAYS = 4  # as many runs as two levels of halves, and half as many of them raise
_AT_ONCE = 4  # runs of small parts, most of whose time is planning
_MOST_LOCAL = 10_000  # suspects whose tuples this process holds
_ANSI = "spark.sql.ansi.enabled"
_DATA_EXCEPTION = "22"  # SQLSTATE class: a value that an expression cannot take
_RAISED = "P0001"  # SQLSTATE of raise_error and assert_true
_NO_ROWS_FAULT = (
    "ImportError",
    "ModuleNotFoundError",
    "MemoryError",
)  # in tracebacks
_CRASHED = "Python worker exited unexpectedly"
_TRIES = 3
_UNLOADED = " in read_udfs"  # a worker that cannot load the function, whatever the row

Frames = Mapping[str, DataFrame]  # a bolt's inputs: stream -> its tuples
Range = tuple[int, int]  # of sorted roots: from the first index to before the second


def row_error(error: PySparkException) -> str | None:
    """The reason, where an error is the fault of a row (a value, or a UDF's exception); else None.

    Everything else (a full disk, a lost executor, a missing column or module) is not the rows' doing.
    """
    if isinstance(error, PythonException):
        raised = _last_line_of_traceback(str(error))
        return None if _UNLOADED in str(error) or raised.startswith(_NO_ROWS_FAULT) else raised
    state = error.getSqlState() or ""
    if FOREIGN_ANCHOR not in str(error) and (state.startswith(_DATA_EXCEPTION) or state == _RAISED):
        return str(error).split(" SQLSTATE:")[0].strip()[:LONGEST_TOLD]
    return None


def _last_line_of_traceback(message: str) -> str:
    body = message.split("JVM stacktrace:")[0].split(" SQLSTATE:")[0]
    lines = [line.strip() for line in body.splitlines() if line.strip()]
    return (lines[-1] if lines else message)[:LONGEST_TOLD]


def hides_cause(error: PySparkException) -> bool:
    """Whether an error does not tell what the transformation raised.

    Delta's writer hides it. Of a Python worker whose function raised Spark may see no more than its end.
    """
    return any(text in str(error) for text in ("TASK_WRITE_FAILED", _CRASHED))


def error_of(frame: DataFrame) -> PySparkException | None:
    """What evaluating every column of a frame raises; None where it passes."""
    raised = None
    for _ in range(_TRIES):
        try:
            frame.write.format("noop").mode("overwrite").save()
        except PySparkException as error:
            raised = error
            if _CRASHED not in str(error):
                return error
        else:
            return None
    return raised


def bad_roots(
    bolt: str, inputs: Frames, rows_of: Callable[[Frames], DataFrame], error: PySparkException
) -> dict[int, str]:
    """The roots of a batch that make it raise, and why each does.

    Args:
        bolt: the bolt's name, for messages.
        inputs: its tuples, with `_root_id`.
        rows_of: the transformation.
        error: what it raised over all of them.

    Raises:
        BoltError: most messages fail.
        PySparkException: an error that no single message causes.
    """
    roots = _suspects(inputs, rows_of)
    if roots is None:
        roots = _ids(inputs).distinct().toArrow()["_root_id"].to_pylist()
    if not roots:
        raise error
    with ThreadPoolExecutor(_AT_ONCE) as threads:
        return _Search(bolt, inputs, rows_of, sorted(roots)).run(threads, error)


def _ids(inputs: Frames) -> DataFrame:
    """The roots of all tuples."""
    return reduce(DataFrame.union, [frame.select("_root_id") for frame in inputs.values()]).dropna()


def without(frame: DataFrame, roots: Sequence[int]) -> DataFrame:
    """The tuples of a frame that have none of some roots, and those without a root."""
    if not roots:
        return frame
    return frame.join(_frame(frame.sparkSession, roots), "_root_id", "left_anti")


def _frame(spark: SparkSession, roots: Sequence[int]) -> DataFrame:
    return spark.createDataFrame(pa.table({"_root_id": pa.array(roots, pa.int64())}))


def _suspects(inputs: Frames, rows_of: Callable[[Frames], DataFrame]) -> list[int] | None:
    """The roots without which the batch passes; None where nobody knows."""
    spark = next(iter(inputs.values())).sparkSession
    before = str(spark.conf.get(_ANSI))
    spark.conf.set(_ANSI, "false")
    try:
        roots: list[int] = _with_nulls(_ids(inputs).distinct(), rows_of(inputs)).to_pylist()
    except PySparkException:
        return None
    finally:
        spark.conf.set(_ANSI, before)
    others = {stream: without(frame, roots) for stream, frame in inputs.items()}
    return None if error_of(rows_of(others)) else roots


def _with_nulls(ids: DataFrame, made: DataFrame) -> pa.ChunkedArray:
    """The roots that have made a row with a null, or none at all."""
    given = [F.col(sql_name(name)) for name in made.columns if not name.startswith("_")]
    has_null = reduce(or_, (column.isNull() for column in given), F.lit(False))
    several = F.array("_root_id")
    if "_root_ids" in made.columns:
        several = F.coalesce("_root_ids", several)
    each = made.select(F.explode(several).alias("_root_id"), has_null.alias("has_null"))
    seen = each.groupBy("_root_id").agg(F.bool_or("has_null").alias("has_null"))
    found = ids.join(seen, "_root_id", "left").where(F.coalesce("has_null", F.lit(True)))
    return found.select("_root_id").toArrow()["_root_id"]


class _Parts(Protocol):
    """The tuples of some ranges of the roots that are searched."""

    def of(self, ranges: Sequence[Range]) -> Frames:
        """The frames with the tuples of some ranges."""


@dataclass(frozen=True)
class _Filtered:
    """Parts of the batch's own frames."""

    inputs: Frames
    roots: Sequence[int]

    def of(self, ranges: Sequence[Range]) -> Frames:
        """See `_Parts`."""
        root = F.col("_root_id")
        mine = reduce(or_, (root.between(self.roots[low], self.roots[high - 1]) for low, high in ranges))
        return {stream: frame.where(mine) for stream, frame in self.inputs.items()}


@dataclass(frozen=True)
class _Local:
    """Parts of tables in this process, which take Spark less time than a scan of the batch's files."""

    spark: SparkSession
    tables: Mapping[str, tuple[pa.Table, StructType]]  # sorted by root
    roots: Sequence[int]

    def of(self, ranges: Sequence[Range]) -> Frames:
        """See `_Parts`."""
        return {stream: self._frame(*each, ranges) for stream, each in self.tables.items()}

    def _frame(self, table: pa.Table, schema: StructType, ranges: Sequence[Range]) -> DataFrame:
        slices = []
        ids = table["_root_id"].to_numpy()
        for low, high in ranges:
            first = ids.searchsorted(self.roots[low])
            slices.append(table.slice(first, ids.searchsorted(self.roots[high - 1], "right") - first))
        return self.spark.createDataFrame(pa.concat_tables(slices), schema)


def _local(inputs: Frames, roots: Sequence[int], some: Sequence[int]) -> _Local | None:
    """Parts of tables in this process, with the tuples of some of the roots.

    None where Spark does not take back what it gave: a map, say, that has a key twice.
    """
    spark = next(iter(inputs.values())).sparkSession
    mine = _frame(spark, some)
    tables = {}
    try:
        for stream, frame in inputs.items():
            found = frame.join(mine, "_root_id", "left_semi").toArrow().sort_by("_root_id")
            if error_of(spark.createDataFrame(found, frame.schema)):
                return None
            tables[stream] = (found, frame.schema)
    except (PySparkException, pa.ArrowException):
        return None
    return _Local(spark, tables, roots)


class _Failing(NamedTuple):
    """A range of roots that raises beside others, which pass without it."""

    range: Range
    beside: tuple[Range, ...]
    error: PySparkException


@dataclass
class _Search:
    """The search for bad messages among some.

    Args:
        bolt: its name, for messages.
        inputs: all of the batch.
        roots: those that are searched, sorted.
    """

    bolt: str
    inputs: Frames
    rows_of: Callable[[Frames], DataFrame]
    roots: Sequence[int]
    bad: dict[int, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.parts: _Parts = _Filtered(self.inputs, self.roots)
        self.may_be_local = True

    def run(self, threads: ThreadPoolExecutor, error: PySparkException) -> dict[int, str]:
        """Root -> why it is bad.

        Args:
            threads: that run parts at the same time.
            error: what all of them raise together.

        Raises:
            BoltError: most messages of the batch are bad.
            PySparkException: an error that no single message causes.
        """
        failing = [_Failing((0, len(self.roots)), (), error)]
        may_be_at_fault, ways = True, _WAYS
        while failing:
            wide = [each for each in failing if not self._is_found(each)]
            if may_be_at_fault and len(self.bad) + len(wide) > MOST_BAD:
                self._check_fault(threads)
                may_be_at_fault = False
            self._localize(wide)
            tried = [(each, part) for each in wide for part in _divided(each.range, ways)]
            raised = list(threads.map(lambda each: self._raised(each[1], *each[0].beside), tried))
            failing = [
                _Failing(part, each.beside, told)
                for (each, part), told in zip(tried, raised, strict=True)
                if told
            ]
            ways = ways * _WAYS if all(raised) else _WAYS  # nearly all may be bad
            divided = {each for (each, _), told in zip(tried, raised, strict=True) if told}
            failing += [half for each in wide if each not in divided for half in self._halves(each)]
        return self.bad

    def _localize(self, wide: Sequence[_Failing]) -> None:
        """Hold what is still to be searched in this process, once it is little."""
        ranges = {each for failing in wide for each in (failing.range, *failing.beside)}
        count = sum(high - low for low, high in ranges)
        if self.may_be_local and 0 < count <= _MOST_LOCAL:
            self.may_be_local = False
            some = {self.roots[number] for each in ranges for number in range(*each)}
            self.parts = _local(self.inputs, self.roots, list(some)) or self.parts

    def _is_found(self, failing: _Failing) -> bool:
        """Whether it is one message, which is noted."""
        reason = row_error(failing.error)
        if reason is None:
            raise failing.error
        low, high = failing.range
        if high - low > 1:
            return False
        self.bad[self.roots[low]] = reason
        return True

    def _halves(self, failing: _Failing) -> list[_Failing]:
        """What fails of a range whose quarters pass: a half, or each half beside the other."""
        (low, high), beside, error = failing
        middle = (low + high) // 2
        left, right = (low, middle), (middle, high)
        found = [
            _Failing(half, beside, raised)
            for half in (left, right)
            if (raised := self._raised(half, *beside))
        ]
        if found:
            return found
        met = self._raised(left, right, *beside)
        if met is None:
            raise error
        return [_Failing(left, (right, *beside), met), _Failing(right, (left, *beside), met)]

    def _raised(self, *ranges: Range) -> PySparkException | None:
        return error_of(self.rows_of(self.parts.of(ranges)))

    def _check_fault(self, threads: ThreadPoolExecutor) -> None:
        """Stop where most messages of the batch are bad, as far as some that lie evenly among them tell."""
        count, total = len(self.roots), _ids(self.inputs).distinct().count()
        if 2 * count <= total:
            return
        step = max(1, count // (2 * MOST_BAD))
        some = [(each, each + 1) for each in range(0, count, step)]
        own = _Filtered(self.inputs, self.roots)
        tried = threads.map(lambda each: error_of(self.rows_of(own.of([each]))), some)
        reasons = [str(row_error(raised)) for raised in tried if raised]
        if 2 * len(reasons) * count > len(some) * total:
            raise BoltError(
                f"Bolt {self.bolt} fails on most messages of a batch, so it is taken to be at fault itself: "
                f"{reasons[0][:LONGEST_REASON]}. Mend it, or fail rows with fail_when, and run it again.",
                component=self.bolt,
            )


def _divided(whole: Range, ways: int) -> list[Range]:
    """A range in so many parts, or one by one where it is shorter."""
    low, high = whole
    edges = sorted({low + (high - low) * part // ways for part in range(ways + 1)})
    return list(pairwise(edges))
