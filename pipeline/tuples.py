"""What runs inside Spark's Python workers: a basic bolt's function, tuple by tuple.

The module is pickled by value, so a worker needs PySpark and PyArrow and not this project.
"""

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import pyarrow as pa
from pyspark import cloudpickle
from pyspark.sql import Row

LONGEST_REASON = 1_000  # characters; a reason is read by people

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # type: ignore[no-untyped-call]


class TupleRunner:
    """Calls a basic bolt's function per tuple, in Spark's Arrow path: a batch goes in, a batch comes out."""

    def __init__(self, function: Callable[[Any], Iterable[Any] | None], schema: pa.Schema) -> None:
        self.function = function
        self.columns = schema
        report = [("_root_id", pa.int64()), ("_kind", pa.string()), ("_error", pa.string())]
        self.schema = pa.schema([*(pa.field(*each) for each in report), *schema])

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Rows that the function makes of each batch of tuples, and a `fail` row per tuple that it fails."""
        for batch in batches:
            names = [name for name in batch.schema.names if name != "_root_id"]
            fields = batch.select(names).to_pylist()
            roots = batch.column("_root_id").to_pylist()
            results = [self._execute(root, each) for root, each in zip(roots, fields, strict=True)]
            try:
                yield self._batch([row for rows in results for row in rows])
            except (pa.ArrowException, TypeError, ValueError, OverflowError):
                # Some tuple's rows do not fit the schema: look at each alone and fail just that one.
                yield from (self._fitting(root, rows) for root, rows in zip(roots, results, strict=True))

    def _execute(self, root: int, fields: dict[str, Any]) -> list[dict[str, Any]]:
        try:
            return [{"_root_id": root, **self._named(row)} for row in self.function(Row(**fields)) or ()]
        except Exception as error:  # whatever the user's code raises is the tuple's failure
            return [_failure(root, error)]

    def _named(self, row: Any) -> dict[str, Any]:
        names = self.columns.names
        if isinstance(row, Row):
            row = row.asDict()
        if isinstance(row, Mapping):
            unknown = set(row) - set(names)
            if unknown:
                raise ValueError(
                    f"emitted columns that its schema does not have: {', '.join(sorted(unknown))}"
                )
            return dict(row)
        if isinstance(row, (tuple, list)) and len(row) == len(names):
            return dict(zip(names, row, strict=True))
        raise ValueError(f"emitted {row!r:.200}; a row is a dict or a tuple of {', '.join(names)}")

    def _batch(self, rows: list[dict[str, Any]]) -> pa.RecordBatch:
        return pa.RecordBatch.from_pylist(rows, schema=self.schema)

    def _fitting(self, root: int, rows: list[dict[str, Any]]) -> pa.RecordBatch:
        try:
            return self._batch(rows)
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
            return self._batch([_failure(root, error)])


def _failure(root: int, error: Exception) -> dict[str, Any]:
    reason = f"{type(error).__name__}: {error}"[:LONGEST_REASON]
    return {"_root_id": root, "_kind": "fail", "_error": reason}
