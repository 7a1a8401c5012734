"""A bolt's Python code, run inside Spark's Python workers in Spark's Arrow path.

A batch of tuples goes in, a batch of rows for the bolt's stream comes out. The module is pickled by value, so
a worker needs PySpark and PyArrow and not this project.
"""

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pickle import PicklingError
from typing import Any, TypeVar

import pyarrow as pa
from pyspark import cloudpickle
from pyspark.errors import PySparkAttributeError
from pyspark.sql import Row

from acker.components.collector import (
    NO_TUPLES_FAULT,
    PLACE,
    Context,
    RichBolt,
    Task,
    Tuple,
    failure,
    of_roots,
)
from acker.components.emitted import Form, batch_of, tuples_of
from acker.components.printed import printing
from acker.components.scalars import MISFITS, misfit
from acker.components.values import ValueColumn

ROWS_AT_ONCE = 10_000  # rows that are handed on together, so that a tuple may cause many
_ROWS = (Mapping, tuple, list)
_KIND = ("_kind", "_error")
_REPORT = {
    "_root_id": pa.int64(),
    "_root_ids": pa.list_(pa.int64()),
    "_kind": pa.string(),
    "_error": pa.string(),
}

Names = Mapping[str | None, Sequence[str]]  # columns of each stream of a bolt; None is its first
_Rows = list[dict[str, Any]]
_Anchor = TypeVar("_Anchor")

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # type: ignore[no-untyped-call]


class Sent:
    """An author's function or class, which reaches a worker as it is.

    Where the code cannot be sent, the error says why, and Spark prints no traceback.
    """

    def __init__(self, code: Callable[..., Any]) -> None:
        self.code = code

    def __call__(self, *given: Any) -> Any:
        """Call the code in this process."""
        return self.code(*given)

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[bytes]]:
        try:
            sent: bytes = cloudpickle.dumps(self.code)  # type: ignore[no-untyped-call]
            return cloudpickle.loads, (sent,)
        except Exception as error:
            raise PicklingError(f"{type(error).__name__}: {error}") from error


class TupleRunner:
    """Calls a basic bolt's function per tuple."""

    def __init__(
        self,
        function: Callable[[Any], Iterable[Any] | None],
        schema: pa.Schema,
        anchors: Sequence[str] = ("_root_id",),
        who: str = "",
    ) -> None:
        self.function = function
        self.who = who  # topology/bolt
        self.anchors = list(anchors)  # also `_root_ids` where tuples may have several roots
        reports = [pa.field(name, _REPORT[name]) for name in (*anchors, *_KIND)]
        self.columns = [ValueColumn.of(field) for field in (*reports, *schema)]
        required = [field.name for field in schema if not field.nullable]
        self.form = Form.of(schema.names, self.columns, required)

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Rows that the function makes of each batch of tuples, and a `fail` row per tuple that it fails."""
        with printing(self.who) as printed:
            yield from self._made(batches)
            printed.finish()

    def _made(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            fields = [name for name in batch.schema.names if name not in self.anchors]
            anchors = batch.select(self.anchors).to_pylist()
            values = [column.to_pylist() for column in batch.select(fields).columns]
            tuples = zip(anchors, tuples_of(fields, values, batch.num_rows), strict=True)
            for results in _slices((anchor, self._execute(anchor, each)) for anchor, each in tuples):
                try:
                    yield self._batch([row for _, rows in results for row in rows])
                except MISFITS:
                    # Some tuple's rows do not fit the schema: look at each alone and fail just that one.
                    yield from (self._fitting(*each) for each in results)

    def _execute(self, anchor: dict[str, Any], tup: Row) -> list[dict[str, Any]]:
        try:
            rows = self._returned(self.function(tup))
            return [{**anchor, **self.form.row(row)} for row in rows]
        except NO_TUPLES_FAULT:
            raise
        except PySparkAttributeError as error:
            missing = (error.getMessageParameters() or {}).get("attr_name")
            there = ", ".join(tup.__fields__)
            return [{**anchor, **failure(f"AttributeError: a tuple has no column {missing}; it has {there}")}]
        except Exception as error:  # whatever else the user's code raises is the tuple's failure
            return [{**anchor, **failure(error)}]

    def _returned(self, result: Any) -> Iterable[Any]:
        """The rows that a function returned.

        Raises:
            TypeError: the function returned one row, or one value, which would be taken apart as if it were
                rows.
        """
        if result is None:
            return ()
        is_row = isinstance(result, str | bytes | Mapping | Row) or not isinstance(result, Iterable)
        if is_row or (isinstance(result, tuple) and not all(isinstance(each, _ROWS) for each in result)):
            columns = ", ".join(self.form.names)
            after = f" instead of rows; yield each row, as a dict or a tuple of {columns}"
            raise misfit(TypeError, "returned", result, after)
        rows: Iterable[Any] = result
        return rows

    def _batch(self, rows: list[dict[str, Any]]) -> pa.RecordBatch:
        return batch_of(rows, self.columns)

    def _fitting(self, anchor: dict[str, Any], rows: list[dict[str, Any]]) -> pa.RecordBatch:
        try:
            return self._batch(rows)
        except MISFITS as error:
            return self._batch([{**anchor, **failure(error)}])


class RichRunner:
    """Hands the tuples of a batch to the tasks of a rich bolt.

    Batches have `_task` and are sorted by it, `_input` (the number of the tuple's stream among `inputs`),
    `_again` (whether the tuple was held back), where it lies, and its values in the struct `_<input>`.
    """

    def __init__(
        self,
        factory: Callable[[], RichBolt],
        context: Context,
        inputs: Sequence[str],
        columns: Names,
        schema: pa.Schema,
        required: Names | None = None,
    ) -> None:
        self.factory = factory
        self.context = context
        self.inputs = inputs
        self.columns = [ValueColumn.of(field) for field in schema]
        needed = required or {}
        self.forms = {
            stream: Form.of(names, self.columns, needed.get(stream, ())) for stream, names in columns.items()
        }

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Rows that the tasks emit, and those that tell what became of tuples that are not acked."""
        with printing(f"{self.context.topology}/{self.context.component}") as printed:
            for results in _slices((None, rows) for rows in self._results(batches)):
                yield self._batch([row for _, rows in results for row in rows])
            printed.finish()

    def _results(self, batches: Iterator[pa.RecordBatch]) -> Iterator[list[dict[str, Any]]]:
        """The rows that the tasks emit for each tuple, and at the end."""
        task: Task | None = None
        for batch in batches:
            for number, tup in self._tuples(batch):
                if task is None or task.number != number:
                    yield task.finish() if task else []
                    task = Task(self.factory(), replace(self.context, task=number), self.forms)
                yield task.execute(tup)
        if task is not None:
            yield task.finish()

    def _tuples(self, batch: pa.RecordBatch) -> Iterator[tuple[int, Tuple]]:
        """The tuples of a batch, each with its task; column by column, which is faster than row by row."""
        values = [_values(batch, f"_{index}") for index in range(len(self.inputs))]
        texts = [_values(batch, f"_text_{index}") for index in range(len(self.inputs))]
        lists = (batch.column(f"_{name}").to_pylist() for name in ("input", "again", "root_id", "root_ids"))
        places = zip(*(batch.column(f"_{name}").to_pylist() for name in PLACE[1:]), strict=True)
        for index, (number, again, root, several, place) in enumerate(zip(*lists, places, strict=True)):
            roots = several or ([] if root is None else [root])
            name = self.inputs[number]
            said = texts[number][index] if texts[number] else None
            yield place[-1], Tuple(values[number][index], name, again, roots, (name, *place), said)

    def _batch(self, rows: list[dict[str, Any]]) -> pa.RecordBatch:
        try:
            return batch_of(rows, self.columns)
        except MISFITS:
            return batch_of([self._fitting(row) for row in rows], self.columns)

    def _fitting(self, row: dict[str, Any]) -> dict[str, Any]:
        """A row that the bolt emitted; where its values do not fit the columns, a failure in its place.

        The failure fails the messages that the row belongs to. If the row belongs to none, the failure fails
        the messages of the tuples for which the bolt emitted the row.
        """
        try:
            batch_of([row], self.columns)
        except MISFITS as error:
            anchor = of_roots(_roots(row) or row["_cause"])
            return {**anchor, **failure(error)}
        return row


def _slices(results: Iterable[tuple[_Anchor, _Rows]]) -> Iterator[list[tuple[_Anchor, _Rows]]]:
    """The results in their order, in slices of about `ROWS_AT_ONCE` rows each.

    A slice ends with the result that brings it to this number. The last slice may be empty.

    Args:
        results: pairs of a value that is handed on and a list of rows.
    """
    some: list[tuple[_Anchor, _Rows]] = []
    count = 0
    for each in results:
        some.append(each)
        count += len(each[1])
        if count >= ROWS_AT_ONCE:
            yield some
            some, count = [], 0
    yield some


def _values(batch: pa.RecordBatch, name: str) -> list[Row]:
    """A column of structs as Rows, one for each tuple of the batch; no Rows where there is no such column.

    Args:
        name: the name of the column.
    """
    if name not in batch.schema.names:  # the input had none
        return []
    column = batch.column(name)
    fields = [child.to_pylist() for child in column.flatten()]
    return list(tuples_of([field.name for field in column.type], fields, batch.num_rows))


def _roots(row: dict[str, Any]) -> list[int]:
    """The roots that a row belongs to, in order; none where it is not tracked."""
    several: list[int] | None = row["_root_ids"]
    return several or ([] if row["_root_id"] is None else [row["_root_id"]])
