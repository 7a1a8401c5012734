"""The tuples that a bolt's Python code is given, and the rows that it emits.

The module is pickled by value, so a worker needs PySpark and PyArrow and not this project.
"""

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import repeat
from typing import Any

import pyarrow as pa
from pyspark import cloudpickle
from pyspark.sql import Row

from acker.components.scalars import misfit
from acker.components.values import ValueColumn

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # type: ignore[no-untyped-call]


def tuples_of(names: Sequence[str], columns: Sequence[Sequence[Any]], count: int) -> Iterator[Row]:
    """`count` tuples as a bolt is given them: Rows whose attributes are the columns, whatever their names."""
    # Row's own methods, such as `count`, would hide the columns of their names; a property hides the method.
    at = {name: property(partial(_value_at, number)) for number, name in enumerate(names) if name[:1] != "_"}
    kind: Any = type("Row", (Row,), {**at, "__fields__": list(names)})
    values = zip(*columns, strict=True) if columns else repeat((), count)
    return map(partial(tuple.__new__, kind), values)


def _value_at(number: int, row: Row) -> Any:
    return tuple.__getitem__(row, number)


@dataclass(frozen=True)
class Form:
    """The rows that may be emitted to a stream.

    Args:
        names: the names of the stream's columns.
        required: the columns that are NOT NULL.
        mutable: the columns whose values the bolt could change after it has emitted them; they are copied.
    """

    names: Sequence[str]
    required: Sequence[str] = ()
    mutable: Sequence[ValueColumn] = ()

    @classmethod
    def of(cls, names: Sequence[str], columns: Sequence[ValueColumn], required: Sequence[str]) -> "Form":
        """The form of one stream of a bolt.

        Args:
            names: the names of the stream's columns.
            columns: the columns of all rows of the bolt, those of its other streams among them.
            required: the names of the stream's columns that are NOT NULL.
        """
        return cls(names, required, [each for each in columns if each.is_mutable and each.name in names])

    def row(self, values: Any) -> dict[str, Any]:
        """The values that a bolt emitted as one tuple, by column; columns that it left out are null.

        Raises:
            ValueError: the values are no dict of some of the columns and no tuple of all of them, or lack one
                that is required.
        """
        row = _by_column(values, self.names)
        for name in self.required:
            if row.get(name) is None:
                raise ValueError(f"column {name}: None, and it is NOT NULL")
        for column in self.mutable:
            row[column.name] = column.values.kept(row.get(column.name))
        return row


def _by_column(values: Any, names: Sequence[str]) -> dict[str, Any]:
    own = getattr(values, "__fields__" if isinstance(values, Row) else "_fields", None)
    if isinstance(values, tuple) and own and len(set(own)) == len(own) == len(values):
        values = dict(zip(own, values, strict=True))
    if isinstance(values, Mapping):
        unknown = set(values) - set(names)
        if unknown:
            told = ", ".join(sorted(map(str, unknown)))
            raise ValueError(f"emitted columns that its schema does not have: {told}")
        return dict(values)
    if isinstance(values, (tuple, list)) and len(values) == len(names) and not own:
        return dict(zip(names, values, strict=True))
    fits = f"a row is a dict or a tuple of {', '.join(names)}" if names else "its schema has no column"
    raise misfit(ValueError, "emitted", values, f"; {fits}")


def batch_of(rows: Sequence[Mapping[str, Any]], columns: Sequence[ValueColumn]) -> pa.RecordBatch:
    """The rows as a batch of columns; a column that a row does not have is null in it.

    Raises:
        ValueError: a column cannot take a value as it is.
    """
    arrays = [column.array([row.get(column.name) for row in rows]) for column in columns]
    return pa.RecordBatch.from_arrays(arrays, [column.name for column in columns])
